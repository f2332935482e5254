// SPDX-License-Identifier: Apache-2.0
//
// ckpt-image flatten and prune.
#include <signal.h>
#include <unistd.h>

#include "common/base/print.h"
#include "storage/format/pipe_format.h"
#include "storage/ops/copy.h"
#include "storage/ops/prune.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"
#include "tools/json_text.h"

namespace ckpt::tools {

Result<> flatten(const storage::ImageReader &image, const std::string &to, bool overwrite,
                 const storage::Key *key) {
  if (to != storage::kPipeImage)
    return storage::flatten_image(image, to, {.overwrite = overwrite, .key = key});
  if (::isatty(STDOUT_FILENO))
    return fail_with_hint("-o - writes the image to standard output, which is a terminal",
                          "redirect it: ckpt-image flatten -o - IMAGE | …");
  ::signal(SIGPIPE, SIG_IGN);
  return storage::send_image(image, STDOUT_FILENO, key);
}

Result<> prune(const std::string &image, size_t keep, bool json, const storage::Key *key) {
  CKPT_TRY(storage::PruneReport report, storage::prune_chain(image, keep, {.key = key}));
  if (json) {
    nlohmann::json j{{"kept", report.kept}, {"removed", report.removed}};
    print_text(json_text(j, 2) + "\n");
    return {};
  }
  for (const std::string &path : report.removed) print("removed  {}\n", printable(path));
  for (const std::string &path : report.kept) print("kept     {}\n", printable(path));
  return {};
}

}  // namespace ckpt::tools
