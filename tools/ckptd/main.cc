// SPDX-License-Identifier: Apache-2.0
//
// ckptd: the node's Manager. Programs that run under `ckpt-run --managed` share its GPUs.
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iostream>

#include "ckpt_config.h"
#include "common/base/gpu.h"
#include "common/base/log.h"
#include "manager/daemon/measure/nvml.h"
#include "manager/daemon/measure/quota.h"
#include "tools/ckptd/opencl.h"
#include "tools/ckptd/options.h"
#include "tools/ckptd/ready.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char *kNvml = "libnvidia-ml.so.1";

// The software device's, in the build folder or installed.
std::string software_nvml() {
  std::error_code ec;
  fs::path build = fs::read_symlink("/proc/self/exe", ec).parent_path().parent_path();
  for (const fs::path &folder :
       {build / "softcuda" / "nvml", fs::path(CKPT_INSTALLED_LIBDIR) / "softcuda"})
    if (fs::exists(folder / kNvml, ec)) return (folder / kNvml).string();
  return {};
}

// NVIDIA's where there is a GPU; the software device where there is none, as ckpt-run does it.
// Null: neither, and OpenCL devices are enough.
Result<std::unique_ptr<manager::Meter>> open_meter(const std::string &wanted, bool enough) {
  if (wanted == "none") return nullptr;
  if (!wanted.empty()) return manager::open_nvml(wanted);
  std::string software = software_nvml();
  if (!has_nvidia_gpu() && software.empty() && enough) return nullptr;
  if (has_nvidia_gpu() || software.empty()) return manager::open_nvml(kNvml);
  log::warn("this node has no NVIDIA GPU: the software device is managed");
  fs::path broker = fs::path(software).parent_path().parent_path() / "ckpt-softcuda-broker";
  if (::access(broker.c_str(), X_OK) == 0) ::setenv("CKPT_SOFTCUDA_BROKER", broker.c_str(), 0);
  return manager::open_nvml(software);
}

// A program is a connection, and one that is gone for now may be a descriptor more. The soft limit
// is 1024 mostly, for the sake of select(), which is not used here.
void allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) < 0)
    log::warn("the limit of open files stays as it is: {}", std::strerror(errno));
}

Result<> run(const CkptdOptions &o) {
  CKPT_TRY(manager::DaemonOptions options, daemon_options(o));
  CKPT_TRY(std::vector<manager::OpenClDevice> opencl, opencl_devices(o.opencl_devices));
  CKPT_TRY(std::unique_ptr<manager::Meter> nvml, open_meter(o.nvml, !opencl.empty()));
  CKPT_TRY(std::unique_ptr<manager::Meter> meter, manager::make_node(std::move(nvml), opencl));
  if (o.gpu_memory > 0) meter = manager::with_quota(std::move(meter), o.gpu_memory);
  for (const manager::MeteredGpu &g : meter->gpus())
    log::info("{} ({}), {} MiB", g.name, g.uuid, g.total >> 20);
  allow_many_descriptors();  // after our children, who have not asked for it
  std::string socket = options.socket;
  CKPT_TRY(std::unique_ptr<manager::Daemon> daemon,
           manager::Daemon::create(std::move(options), std::move(meter)));
  std::cout << "ckptd: listening on " << socket << std::endl;
  tell_ready();
  return daemon->run();
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt;
  using namespace ckpt::tools;
  log::set_name("ckptd");
  CkptdOptions o;
  CLI::App app{
      "ckptd [OPTIONS]: the Manager of this node's GPUs. Programs that are started by "
      "`ckpt-run --managed` share them: when device memory runs short, one of them is moved to "
      "host memory and brought back where there is room. Ends with INT or TERM; its programs then "
      "go on without it."};
  app.set_version_flag("--version", CKPT_VERSION);
  add_ckptd_options(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ConfigError &e) {
    std::string file = app.get_config_ptr()->as<std::string>();
    return log::error(Error{fmt::format("{}: {}", file, e.what()),
                            "its lines are NAME = VALUE; ckptd --help has the names"}),
           1;
  } catch (const CLI::ParseError &e) {
    return app.exit(e);
  }
  if (Result<> r = run(o); !r) return log::error(r.error()), 1;
  return 0;
}
