// SPDX-License-Identifier: Apache-2.0
#include "tools/device/apis.h"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "ckpt_config.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

fs::path own_folder() {
  std::error_code ec;
  return fs::read_symlink("/proc/self/exe", ec).parent_path();
}

// The first of the candidates that exists.
std::string first_existing(const std::vector<fs::path> &candidates) {
  std::error_code ec;
  for (const fs::path &p : candidates)
    if (fs::exists(p, ec)) return p.lexically_normal().string();
  return {};
}

}  // namespace

std::string proxy_executable(const Api &api) {
  std::string name = fmt::format("ckpt-{}-proxy", api.name);
  return first_existing({own_folder().parent_path() / api.library_room / name,
                         fs::path(CKPT_INSTALLED_LIBEXECDIR) / name});
}

const Api *find_api(std::string_view name) {
  for (const Api &api : kApis)
    if (api.name == name) return &api;
  return nullptr;
}

std::string driver_folder(const Api &api) {
  std::string folder = first_existing({own_folder().parent_path() / api.library_room / "vendors",
                                       fs::path(CKPT_INSTALLED_LIBDIR) / "vendors"});
  // OpenCL loaders treat OCL_ICD_VENDORS as a folder only if it ends with a slash.
  return folder.empty() ? folder : folder + "/";
}

std::string sibling_tool(const std::string &name) {
  std::string path = first_existing({own_folder() / name});
  return path.empty() ? name : path;
}

}  // namespace ckpt::tools
