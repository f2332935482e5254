// SPDX-License-Identifier: Apache-2.0
#include "remote/proxy/cuda_environment.h"

#include <filesystem>

#include "common/base/installation.h"

namespace ckpt::remote {
namespace {

namespace fs = std::filesystem;

// The first of these folders that has the file.
std::string folder_with(const char *file, const std::vector<fs::path> &folders) {
  std::error_code ec;
  for (const fs::path &f : folders)
    if (fs::exists(f / file, ec)) return f.string();
  return {};
}

}  // namespace

// In the build folder this executable is in remote/proxy/. The runtime is the software device's
// own, which runs over any driver and asks none for private interfaces; NVIDIA's does.
nlohmann::json cuda_environment() {
  fs::path build = own_folder().parent_path().parent_path(), installed = installed_libdir();
  std::string driver =
      folder_with("libcuda.so.1", {build / "remote" / "cuda", installed / "remote-cuda"});
  std::string runtime =
      folder_with("libcudart.so.13", {build / "softcuda" / "runtime", installed / "softcuda"});
  std::string audit =
      folder_with("libckpt-cuda-audit.so", {build / "libckpt-cuda", installed / "cuda"});
  if (driver.empty() || runtime.empty()) return nlohmann::json::object();
  nlohmann::json out = {{"software", true}};  // no static runtime
  out["set"]["CKPT_CUDA_LIBRARY"] = driver + "/libcuda.so.1";
  out["set"]["CKPT_CUDA_RUNTIMES"] = runtime;
  out["in_front"]["LD_LIBRARY_PATH"] = driver + ":" + runtime;
  // After a move to this node the program itself calls a driver, which may be the software device.
  std::string broker = folder_with("ckpt-softcuda-broker", {build / "softcuda", own_folder()});
  if (!broker.empty()) out["set"]["CKPT_SOFTCUDA_BROKER"] = broker + "/ckpt-softcuda-broker";
  if (!audit.empty()) out["audit"] = audit + "/libckpt-cuda-audit.so";
  return out;
}

}  // namespace ckpt::remote
