// SPDX-License-Identifier: Apache-2.0
//
// LD_LIBRARY_PATH leads to us whoever is linked to libcuda.so.1 or opens libcuda.so and
// libcuda.so.1 by name. What opens the driver by its path is led back by an auditing library, which
// the loader asks about every file (libckpt-cuda/audit/).
#include "libckpt-cuda/proxy/environment.h"

#include <filesystem>

#include "ckpt_config.h"

namespace ckpt::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char *kNotice =
    "this machine has no NVIDIA GPU: CUDA runs on the software device, which is slow";

std::string first_existing(const std::vector<fs::path> &candidates) {
  std::error_code ec;
  for (const fs::path &p : candidates)
    if (fs::exists(p, ec)) return p.string();
  return {};
}

// Beside the driver: in the build folder in folders of their own, else in the same one.
void add_software(const fs::path &driver, nlohmann::json &out, std::string &folders) {
  fs::path here = driver.parent_path(), room = here.parent_path();
  std::error_code ec;
  if (fs::exists(room / "ckpt-softcuda-broker", ec)) {
    out["set"]["CKPT_SOFTCUDA_BROKER"] = (room / "ckpt-softcuda-broker").string();
    folders += ":" + (room / "runtime").string() + ":" + (room / "nvml").string();
  } else {
    folders += ":" + here.string();
  }
  out["set"]["CKPT_CUDA_NOTICE"] = kNotice;
}

}  // namespace

nlohmann::json environment(const RealDriver &driver, const std::string &devices) {
  using nlohmann::json;
  if (driver.path.empty()) return json::object();
  std::error_code ec;
  fs::path own = fs::read_symlink("/proc/self/exe", ec).parent_path(), lib = CKPT_INSTALLED_LIBDIR;
  std::string library = first_existing({own / "libcuda.so.1", lib / "cuda" / "libcuda.so.1"});
  if (library.empty()) return json::object();
  std::string folders = fs::path(library).parent_path().string();
  json out = {{"software", driver.software},
              {"set", {{"CKPT_CUDA_DRIVER", driver.path}, {"CKPT_CUDA_LIBRARY", library}}}};
  if (driver.software) add_software(driver.path, out, folders);
  if (!devices.empty()) out["set"]["CUDA_VISIBLE_DEVICES"] = devices;
  out["in_front"]["LD_LIBRARY_PATH"] = folders;
  std::string audit =
      first_existing({own / "libckpt-cuda-audit.so", lib / "cuda" / "libckpt-cuda-audit.so"});
  if (!audit.empty()) out["in_front"]["LD_AUDIT"] = audit;
  return out;
}

}  // namespace ckpt::cuda
