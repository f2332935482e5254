// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/fabric.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

struct Fabric {
  const char *prefix, *name;
};
constexpr std::array kFabrics{Fabric{"/dev/infiniband/", "RDMA"}, Fabric{"/dev/hfi1", "Omni-Path"},
                              Fabric{"/dev/cxi", "Slingshot"},    Fabric{"/dev/kgni", "Aries"},
                              Fabric{"/dev/xpmem", "XPMEM"},      Fabric{"/dev/knem", "KNEM"},
                              Fabric{"/dev/gdrdrv", "GPUDirect"}};

struct Library {
  const char *file, *name, *advice;
};
// Those that use others come first.
constexpr std::array kLibraries{
    Library{"libnccl.so", "NCCL",
            "destroy its communicators (ncclCommDestroy), or let it use sockets "
            "(NCCL_IB_DISABLE=1)"},
    Library{"librccl.so", "RCCL",
            "destroy its communicators (ncclCommDestroy), or let it use sockets "
            "(NCCL_IB_DISABLE=1)"},
    Library{"libucp.so", "UCX",
            "close its endpoints and its context (ucp_ep_close_nbx, ucp_cleanup), or let it use "
            "TCP (UCX_TLS=tcp,self)"},
    Library{"libfabric.so", "libfabric",
            "close its endpoints and domains (fi_close), or let it use TCP (FI_PROVIDER=tcp)"},
    Library{"libpsm2.so", "PSM2", "close its endpoints (psm2_ep_close, psm2_finalize)"},
    Library{"libibverbs.so", "libibverbs", "close its devices (ibv_close_device)"}};

const Library *library_of(const Process &p) {
  std::vector<ProcMapping> maps = mappings_of(p.pid);
  for (const Library &l : kLibraries)
    if (std::ranges::any_of(maps, [&](const ProcMapping &m) {
          return std::filesystem::path(m.path).filename().string().starts_with(l.file);
        }))
      return &l;
  return nullptr;
}

std::set<std::string> adapters_of(const Process &p) {
  std::set<std::string> paths;
  for (const Descriptor &d : descriptors_of(p.pid))
    if (!fabric_of(d.target).empty()) paths.insert(d.target);
  for (const ProcMapping &m : mappings_of(p.pid))
    if (!fabric_of(m.path).empty()) paths.insert(m.path);
  return paths;
}

}  // namespace

std::string fabric_of(const std::string &device) {
  const auto *f = std::ranges::find_if(
      kFabrics, [&](const Fabric &each) { return device.starts_with(each.prefix); });
  return f == kFabrics.end() ? "" : f->name;
}

void check_fabrics(const Target &target, Closables &reasons) {
  for (const Process &p : target.processes)
    for (const std::string &path : adapters_of(p))
      reasons.push_back(
          {p.pid, fmt::format("{} uses {} ({}), which holds the state of its connections and "
                              "cannot be checkpointed: close it in a `before` callback "
                              "(ckpt_on_checkpoint), and open it again in the `after` callback",
                              name_of(p), fabric_of(path), path)});
}

void name_libraries(const Target &target, Closables &reasons) {
  std::set<pid_t> named;
  for (const Closable &c : reasons) named.insert(c.pid);
  for (const Process &p : target.processes)
    if (const Library *l = named.contains(p.pid) ? library_of(p) : nullptr)
      reasons.push_back({p.pid, fmt::format("{} uses {}: {}", name_of(p), l->name, l->advice)});
}

}  // namespace ckpt::tools
