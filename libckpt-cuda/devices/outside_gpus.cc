// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/devices/outside_gpus.h"

#include <fcntl.h>

#include "agent/participant/participant.h"
#include "agent/protocol.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::cuda {
namespace {

using protocol::Type;

// An NVML that hangs must not keep the program waiting.
constexpr std::chrono::seconds kPatience{5};
// More than a machine has.
constexpr u32 kMostGpus = 1024;

Result<UniqueFd> request_proxy() {
  CKPT_TRY(UniqueFd proxy, connect_unix(agent::session_socket()));
  CKPT_CHECK(set_receive_timeout(proxy.get(), kPatience));
  UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Writer w;
  w.put(protocol::kVersion).str(protocol::kGpuMemoryProxy);
  int streams[] = {null.get(), null.get()};
  CKPT_CHECK(send_message(proxy.get(), static_cast<u16>(Type::ProxyWanted), w.bytes(), streams));
  return proxy;
}

Result<Message> next_answer(int proxy) {
  CKPT_TRY(std::optional<Message> m, receive_message(proxy));
  if (m && m->type == static_cast<u16>(Type::Ok)) return std::move(*m);
  return fail("the session's keeper does not tell");
}

}  // namespace

void OutsideGpus::start() {
  if (proxy_ || failed_) return;
  greeted_ = false;
  if (Result<UniqueFd> proxy = request_proxy()) proxy_ = std::move(*proxy);
}

Result<> OutsideGpus::greet() {
  if (!proxy_) return fail("there is no keeper to ask");
  if (!greeted_) CKPT_CHECK(next_answer(proxy_.get()));
  greeted_ = true;
  return {};
}

Result<std::vector<GpuMemory>> OutsideGpus::answer() {
  CKPT_CHECK(greet());
  CKPT_CHECK(send_message(proxy_.get(), static_cast<u16>(Type::GpuMemoryWanted)));
  CKPT_TRY(Message m, next_answer(proxy_.get()));
  Reader in = m.reader();
  std::vector<GpuMemory> all;
  for (u32 n = std::min(in.get<u32>(), kMostGpus); n > 0 && in.ok(); n--) {
    GpuMemory &gpu = all.emplace_back();
    gpu.uuid = in.str();
    gpu.bus_id = in.str();
    gpu.free_bytes = in.get<u64>();
  }
  if (!in.ok()) return fail("its answer is malformed");
  return all;
}

std::vector<GpuMemory> OutsideGpus::ask() {
  start();
  Result<std::vector<GpuMemory>> all = answer();
  if (all) return std::move(*all);
  if (!std::exchange(failed_, true))
    log::debug("the free memory of the devices is not known, so it is not checked: {}",
               all.error().what);
  proxy_.reset();
  return {};
}

}  // namespace ckpt::cuda
