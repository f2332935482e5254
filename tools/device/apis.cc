// SPDX-License-Identifier: Apache-2.0
#include "tools/device/apis.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "common/base/installation.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// The file in `vendors` names the library by its path when it was built. If the tree was moved
// since: the library beside the folder, which ocl-icd takes instead of a folder (libOpenCL(7)).
std::string moved_library(const fs::path &vendors) {
  std::ifstream in(vendors / "ckpt.icd");
  std::string named;
  std::error_code ec;
  if (!(in >> named) || fs::exists(named, ec)) return {};
  return first_existing({vendors.parent_path() / fs::path(named).filename()});
}

}  // namespace

std::string why_no_proxy() {
  std::string names;
  for (const Api &api : kApis) {
    if (!proxy_executable(api).empty()) return {};
    names += fmt::format("{}ckpt-{}-proxy", names.empty() ? "" : " nor ", api.name);
  }
  return fmt::format("neither {} is in {}", names, installed_libexecdir().string());
}

std::string proxy_executable(const Api &api) {
  return internal_executable(api.library_room, fmt::format("ckpt-{}-proxy", api.name));
}

std::string remote_proxy_executable() {
  return internal_executable("remote/proxy", "ckpt-remote-proxy");
}

std::string cuda_server_executable() {
  return internal_executable("remote/cuda", "ckpt-cuda-server");
}

const Api *find_api(std::string_view name) {
  for (const Api &api : kApis)
    if (api.name == name) return &api;
  return nullptr;
}

std::string driver_folder(const Api &api) {
  std::string folder = first_existing(
      {own_folder().parent_path() / api.library_room / "vendors", installed_libdir() / "vendors"});
  if (std::string library = moved_library(folder); !library.empty()) return library;
  // OpenCL loaders treat OCL_ICD_VENDORS as a folder only if it ends with a slash.
  return folder.empty() ? folder : folder + "/";
}

std::string sibling_tool(const std::string &name) {
  std::string path =
      first_existing({own_folder() / name, installation_prefix(own_folder()) / CKPT_BINDIR / name});
  return path.empty() ? name : path;
}

}  // namespace ckpt::tools
