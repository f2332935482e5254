// SPDX-License-Identifier: Apache-2.0
//
// The table of rules under which a restore of an image fails, as far as they can be known by
// reading: the manifest, CRIU's files, and the files of the machine. No trial is needed.
//
//   ckpt-dump           all rules, while the program is stopped, before it is ended
//   ckpt-dump --check   those that a running program shows
//   ckpt-restore        all rules, before anything is started
//   ckpt-image verify   those that need only the image
//
// What no reading can tell is in LIMITS.md ("Known only at the restore").
#pragma once

#include "common/base/as_user.h"
#include "tools/criu/criu_files.h"
#include "tools/manifest/file_checks.h"
#include "tools/manifest/image_manifest.h"

namespace ckpt::tools {

struct RestorableImage {
  const ImageManifest &manifest;
  const CriuFiles &criu;
  std::string prefix;  // what the program's paths begin with here (prefix_of_files)
  GrownFiles grown = GrownFiles::Refuse;
  bool any_processor = false;  // --ignore-processor
  Credentials user = {};       // with whose rights a restore opens files; uid 0: root's
};

struct RestoreRule {
  const char *what;    // as LIMITS.md and the tests name it
  bool needs_machine;  // looks at files of this machine
  bool needs_image;    // a running program does not show it
  void (*check)(const RestorableImage &image, Reasons &reasons);
};
std::span<const RestoreRule> restore_rules();

void check_image(const RestorableImage &image, Reasons &reasons);  // without the machine
void check_image_and_machine(const RestorableImage &image, Reasons &reasons);  // all rules
// Before there is an image: of CRIU's files only the mappings are known.
void check_running_program(const RestorableImage &image, Reasons &reasons);

// Of an image whose bytes are as they were written. One without CRIU's files is no program's:
// others may use the format.
Reasons reasons_against(const storage::ImageReader &image);

// All rules, for a dump: a program must not be ended if its image could not be restored. The
// program must be stopped, because it changes its files.
Result<> check_restorable(const nlohmann::json &manifest, const CriuFiles &criu,
                          const std::string &prefix, const Credentials &user);

}  // namespace ckpt::tools
