// SPDX-License-Identifier: Apache-2.0
#include "tools/session/early_warnings.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/driver_files.h"
#include "common/base/log.h"
#include "tools/dump/unix_sockets.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/name_services.h"

namespace ckpt::tools {
namespace {

constexpr std::chrono::seconds kLongest{1024};

std::string value_of(const ProgramEnvironment &e, std::string_view name) {
  for (const auto &[variable, value] : e.set)
    if (variable == name) return value;
  return {};
}

}  // namespace

Result<std::unique_ptr<EarlyWarnings>> EarlyWarnings::start(Keeper &keeper,
                                                            const ProgramEnvironment &environment) {
  std::unique_ptr<EarlyWarnings> w(
      new EarlyWarnings(keeper, value_of(environment, "CKPT_CUDA_LIBRARY")));
  w->timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!w->timer_) return fail_errno("cannot create a timer");
  keeper.watch(w->timer_.get(), [self = w.get()] {
    u64 times;
    if (::read(self->timer_.get(), &times, sizeof times) == sizeof times) self->look();
    return true;
  });
  w->arm();
  return w;
}

void EarlyWarnings::arm() {
  itimerspec t{};
  t.it_value.tv_sec = interval_.count();
  ::timerfd_settime(timer_.get(), 0, &t, nullptr);
  interval_ = std::min(interval_ * 2, kLongest);
}

// Not during a dump, which stops the program and says itself what is wrong.
void EarlyWarnings::look() {
  if (keeper_.accepts_dumps())
    for (const Process &p : ProcessTable::read().tree(keeper_.program())) {
      look_at_drivers(p);
      look_at_name_services(p);
    }
  arm();
}

void EarlyWarnings::look_at_drivers(const Process &p) {
  std::vector<ProcMapping> mappings = mappings_of(p.pid);
  bool has_ours = std::ranges::find(mappings, cuda_library_, &ProcMapping::path) != mappings.end();
  for (const ProcMapping &m : mappings) {
    bool is_cuda = m.path.find("libcuda") != m.path.npos || m.path.find("nvidia") != m.path.npos;
    if (!is_driver_file(m.path) || (is_cuda && (has_ours || !is_cuda_driver_file(m.path))))
      continue;
    say(p, "has loaded the device driver " + m.path + " past ckpt", remedy_for_driver(m.path));
  }
}

void EarlyWarnings::look_at_name_services(const Process &p) {
  std::vector<u64> sockets;
  for (const Descriptor &d : descriptors_of(p.pid))
    if (d.kind == Descriptor::Kind::Socket) sockets.push_back(d.inode);
  if (sockets.empty()) return;
  UnixPeers peers = UnixPeers::read();
  for (u64 socket : sockets) {
    std::string name = peers.name(peers.peer(socket));
    if (std::string remedy = remedy_for_name_service(name); !remedy.empty())
      say(p, "is connected to " + name, remedy);
  }
}

void EarlyWarnings::say(const Process &p, const std::string &what, const std::string &remedy) {
  if (!said_.insert(what).second) return;
  log::warn("process {} ({}) {}, so it cannot be checkpointed: {}", p.pid, p.command, what, remedy);
}

}  // namespace ckpt::tools
