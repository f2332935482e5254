// SPDX-License-Identifier: Apache-2.0
//
// ckptd: the node's Manager. Programs that run under `ckpt-run --managed` share its GPUs.
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "common/base/gpu.h"
#include "common/base/installation.h"
#include "common/base/log.h"
#include "common/base/print.h"
#include "common/base/ready.h"
#include "common/base/units.h"
#include "manager/daemon/measure/nvml.h"
#include "manager/daemon/measure/quota.h"
#include "tools/ckptd/opencl.h"
#include "tools/ckptd/options.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char *kNvml = "libnvidia-ml.so.1";

// The software device's NVML, in the build folder or installed; empty: there is none.
std::string software_nvml() {
  std::error_code ec;
  fs::path build = own_folder().parent_path();
  for (const fs::path &folder : {build / "softcuda" / "nvml", installed_libdir() / "softcuda"})
    if (fs::exists(folder / kNvml, ec)) return (folder / kNvml).string();
  return {};
}

// NVIDIA's library if the node has a GPU, otherwise the software device's, as in ckpt-run. Null:
// the node has neither, and is managed for its OpenCL devices only.
Result<std::unique_ptr<manager::Meter>> open_meter(const std::string &wanted, bool opencl_only) {
  if (wanted == "none") return nullptr;
  if (!wanted.empty()) return manager::open_nvml(wanted);
  std::string software = software_nvml();
  if (!has_nvidia_gpu() && software.empty() && opencl_only) return nullptr;
  if (has_nvidia_gpu() || software.empty()) return manager::open_nvml(kNvml);
  log::warn("this node has no NVIDIA GPU: managing the software device");
  fs::path broker = fs::path(software).parent_path().parent_path() / "ckpt-softcuda-broker";
  if (::access(broker.c_str(), X_OK) == 0) ::setenv("CKPT_SOFTCUDA_BROKER", broker.c_str(), 0);
  return manager::open_nvml(software);
}

// Each program needs a descriptor for its connection, and one more after it has disconnected. The
// usual soft limit of 1024 exists for select(2), which ckptd does not use.
void allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) < 0)
    log::warn("cannot raise the limit of open files, so fewer programs can join: {}",
              std::strerror(errno));
}

Result<int> run(const CkptdOptions &o) {
  Result<manager::DaemonOptions> sound = daemon_options(o);
  if (!sound) return fail_with_code(kWrongUsage, sound.error());
  manager::DaemonOptions options = std::move(*sound);
  CKPT_TRY(std::vector<manager::OpenClDevice> opencl, opencl_devices(o.opencl_devices));
  CKPT_TRY(std::unique_ptr<manager::Meter> nvml, open_meter(o.nvml, !opencl.empty()));
  CKPT_TRY(std::unique_ptr<manager::Meter> meter, manager::make_node(std::move(nvml), opencl));
  if (o.gpu_memory > 0) meter = manager::with_quota(std::move(meter), o.gpu_memory);
  for (const manager::MeteredGpu &g : meter->gpus())
    log::info("{} ({}), {}", g.name, g.uuid, mebibytes(g.total));
  // After the proxies that listed the OpenCL devices, which should not inherit the limit.
  allow_many_descriptors();
  std::string socket = options.socket;
  CKPT_TRY(std::unique_ptr<manager::Daemon> daemon,
           manager::Daemon::create(std::move(options), std::move(meter)));
  print("ckptd: listening on {}\n", socket);
  std::fflush(stdout);
  tell_ready();
  CKPT_CHECK(daemon->run());
  return 0;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt;
  using namespace ckpt::tools;
  CkptdOptions o;
  CommandLine line(
      "ckptd",
      "The Manager of this node's GPUs. Programs that are started by `ckpt-run --managed` share "
      "the GPUs: when device memory runs short, a program is moved to host memory and resumes on "
      "any GPU that has room. SIGINT or SIGTERM ends ckptd; its programs then continue "
      "unmanaged.\n"
      "Exit code 0: ended by a signal; 1: failure; 125: the arguments, or the configuration file, "
      "are wrong.");
  add_ckptd_options(line, o);
  return run_tool(line, argc, argv, 1, [&] { return run(o); });
}
