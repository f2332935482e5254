// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/proxy/environment.h"

#include <filesystem>

#include "common/base/installation.h"

namespace ckpt::cuda {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kNotice =
    "this machine has no NVIDIA GPU: CUDA runs on the software device, which is slow";

std::string first_existing(const std::vector<fs::path> &candidates) {
  std::error_code ec;
  for (const fs::path &p : candidates)
    if (fs::exists(p, ec)) return p.string();
  return {};
}

// A library of ours: beside this executable in the build folder, else where it is installed.
std::string find_library(const std::string &file) {
  return first_existing({own_folder() / file, installed_libdir() / "cuda" / file});
}

// The software device has a broker, a runtime, an NVML and an NVRTC of its own: in the build folder
// each in a folder beside the driver's, where installed all in the driver's.
void add_software_device(const fs::path &driver, json &out, std::string &folders) {
  fs::path here = driver.parent_path(), room = here.parent_path();
  std::error_code ec;
  if (fs::exists(room / "ckpt-softcuda-broker", ec)) {
    out["set"]["CKPT_SOFTCUDA_BROKER"] = (room / "ckpt-softcuda-broker").string();
    out["set"]["CKPT_CUDA_RUNTIMES"] = (room / "runtime").string();
    for (const char *part : {"runtime", "nvml", "nvrtc"}) folders += ":" + (room / part).string();
  } else {
    out["set"]["CKPT_CUDA_RUNTIMES"] = here.string();
    out["set"]["CKPT_SOFTCUDA_BROKER"] = (own_folder() / "ckpt-softcuda-broker").string();
    folders += ":" + here.string();
  }
  out["set"]["CKPT_CUDA_NOTICE"] = kNotice;
}

}  // namespace

json environment(const RealDriver &driver, const std::string &devices) {
  if (driver.path.empty()) return json::object();
  std::string library = find_library("libcuda.so.1");
  if (library.empty()) return json::object();
  std::string folders = fs::path(library).parent_path().string();
  json out = {{"software", driver.software},
              {"set", {{"CKPT_CUDA_DRIVER", driver.path}, {"CKPT_CUDA_LIBRARY", library}}}};
  if (driver.software) add_software_device(driver.path, out, folders);
  if (!devices.empty()) out["set"]["CUDA_VISIBLE_DEVICES"] = devices;
  out["in_front"]["LD_LIBRARY_PATH"] = folders;
  if (std::string audit = find_library("libckpt-cuda-audit.so"); !audit.empty())
    out["audit"] = audit;
  if (std::string touch = find_library("libckpt-cuda-touch.so"); !touch.empty())
    out["touch"] = touch;
  return out;
}

}  // namespace ckpt::cuda
