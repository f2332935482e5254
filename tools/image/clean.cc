// SPDX-License-Identifier: Apache-2.0
#include "common/base/print.h"
#include "storage/io/partial_folder.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"
#include "tools/json_text.h"
#include "tools/session/leftovers.h"

namespace ckpt::tools {

Result<> clean(const std::string &folder, bool json) {
  std::vector<std::string> removed = remove_leftovers();
  CKPT_TRY(std::vector<std::string> partial,
           storage::remove_stale(storage::FileSystem::real(), folder));
  removed.insert(removed.end(), partial.begin(), partial.end());
  if (json) {
    nlohmann::json report{{"removed", removed}};
    print_text(json_text(report, 2) + "\n");
    return {};
  }
  for (const std::string &path : removed) print("removed  {}\n", printable(path));
  return {};
}

}  // namespace ckpt::tools
