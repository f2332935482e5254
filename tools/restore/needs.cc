// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/needs.h"

#include <unistd.h>

#include "common/base/file_text.h"
#include "common/base/json_depth.h"
#include "storage/format/format.h"
#include "tools/manifest/restorable.h"
#include "tools/restore/recorded_sockets.h"
#include "tools/restore/supplied_files.h"

namespace ckpt::tools {
namespace {

Result<ImageManifest> read_needs(const std::string &file) {
  CKPT_TRY(std::string text, file_text(file));
  bool sound = json_depth(text) <= storage::kMaxManifestDepth;
  nlohmann::json j = sound ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json();
  if (!j.is_object()) return fail("{} does not describe a program", file);
  return ImageManifest::parse(j);
}

// CRIU opens files with the rights of this user.
Credentials this_user() { return {.uid = ::geteuid(), .gid = ::getegid(), .groups = {}}; }

}  // namespace

Result<> check_needs(const RestoreOptions &o, const std::string &file) {
  CKPT_TRY(ImageManifest m, read_needs(file));
  Reasons reasons;
  if (Result<Criu> criu = find_criu(); !criu) reasons.push_back(criu.error().text());
  if (Result<DeviceChoice> devices = choose_devices(o.device); !devices)
    reasons.push_back(devices.error().text());
  supply_carried_files(m, 1, reasons);
  CriuFiles none;
  check_running_program({.manifest = m,
                         .criu = none,
                         .prefix = "",
                         .grown = o.grown_files,
                         .any_processor = o.ignore_processor,
                         .user = this_user()},
                        reasons);
  check_sockets(m, reasons);
  if (reasons.empty()) return {};
  return fail_with_hint(fmt::format("the program could not go on here:{}", as_list(reasons)),
                        "it was not touched and keeps running where it is");
}

}  // namespace ckpt::tools
