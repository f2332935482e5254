// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dump_template.h"

#include <algorithm>
#include <iterator>

#include "tools/manifest/image_manifest.h"
#include "tools/manifest/template_rules.h"

namespace ckpt::tools {

void mark_as_template(manifest::Manifest &manifest, bool tcp_close) {
  manifest.for_copies = {tcp_close};
}

Result<> check_running_template(manifest::Manifest running, bool tcp_close, Reasons &reasons) {
  mark_as_template(running, tcp_close);
  CKPT_TRY(ImageManifest m, ImageManifest::parse(api::json_of(running)));
  check_template(m, reasons);
  return {};
}

Result<> check_recorded_template(const manifest::Manifest &recorded, const FactFiles &facts,
                                 std::vector<std::string> &remarks) {
  CKPT_TRY(ImageManifest m, ImageManifest::parse(api::json_of(recorded)));
  Reasons reasons, against_several;
  check_template(m, reasons);
  if (!reasons.empty())
    return fail_with_hint(fmt::format("the program cannot be a template:{}", as_list(reasons)),
                          "the program keeps running");
  check_shared_files(m, CriuFiles::of(facts), against_several);
  check_shared_locks(CriuFiles::of(facts), against_several);
  std::ranges::move(against_several, std::back_inserter(remarks));
  remarks.emplace_back(
      "all copies have the random numbers, keys and UUIDs that the program has now: it must make "
      "new ones in each copy (docs/WARM.md)");
  return {};
}

}  // namespace ckpt::tools
