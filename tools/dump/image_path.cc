// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/image_path.h"

#include <filesystem>

#include "common/base/printable.h"
#include "storage/format/pipe_format.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

std::string default_name(const Process &root) {
  return fmt::format("ckpt-{}-{}.img", name_part(root.command), root.ns_pid());
}

}  // namespace

std::string image_path(const std::string &given, const Target &target) {
  if (given == storage::kPipeImage) return given;
  fs::path absolute = fs::absolute(given.empty() ? default_name(target.processes.front()) : given)
                          .lexically_normal();
  return absolute.has_filename() ? absolute.string() : absolute.parent_path().string();
}

}  // namespace ckpt::tools
