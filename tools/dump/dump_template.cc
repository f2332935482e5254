// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump --template: what makes an image one from which copies can run at the same time.
#include <algorithm>
#include <filesystem>
#include <iterator>

#include "tools/dump/describe_program.h"
#include "tools/dump/dump.h"
#include "tools/dump/outer_pipes.h"
#include "tools/manifest/template_rules.h"
#include "tools/proc/process_root.h"

namespace ckpt::tools {

// What no copy can have. Callbacks of the program may close it.
Result<> Dump::refuse_as_template(Reasons &reasons) {
  if (!options_.as_template) return {};
  if (options_.tcp_close && rights_.by_helper())
    reasons.push_back(
        "--tcp-close needs CRIU with the rights of root, which ckpt-helper does not "
        "give: run ckpt-dump as root, or close the connections");
  if (!may_close_.empty()) return {};
  manifest::Manifest running = describe_running();
  running.fifos = describe_fifos(target_, read_descriptors(target_));
  describe_template(running);
  CKPT_TRY(ImageManifest m, ImageManifest::parse(api::json_of(running)));
  check_template(m, reasons);
  return {};
}

void Dump::describe_template(manifest::Manifest &manifest) const {
  if (options_.as_template) manifest.for_copies = {options_.tcp_close};
}

// What a callback could have closed, and what only one copy can have.
Result<> Dump::check_recorded_template() {
  if (!options_.as_template) return {};
  CKPT_TRY(ImageManifest m, ImageManifest::parse(api::json_of(manifest_)));
  Reasons reasons, against_several;
  check_template(m, reasons);
  if (!reasons.empty())
    return fail_with_hint(fmt::format("the program cannot be a template:{}", as_list(reasons)),
                          "the program keeps running");
  check_shared_files(m, CriuFiles::of(facts_), against_several);
  check_shared_locks(CriuFiles::of(facts_), against_several);
  std::ranges::move(against_several, std::back_inserter(report_.remarks));
  report_.remarks.emplace_back(
      "all copies have the random numbers, keys and UUIDs that the program has now: it must make "
      "new ones in each copy (docs/WARM.md)");
  return {};
}

// A restored program still is the copy that it was.
void Dump::describe_copy() {
  std::string folder = std::filesystem::path(target_.session_socket).parent_path();
  manifest_.copy =
      CopyFacts::parse(read_file_of(target_.keeper, fmt::format("{}/{}", folder, kCopyFile)));
}

}  // namespace ckpt::tools
