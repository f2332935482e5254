// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/copies/detours.h"

#include <algorithm>

#include "remote/cuda/client/memory/memory.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kBufferBytes = 4u << 20;

u64 context_on(CUdevice device) {
  for (const Ledger::Object &c : ledger().objects(Kind::Context))
    if (ledger().device_of(c.number) == device) return c.number;
  return 0;
}

}  // namespace

u64 context_with(u64 address) {
  if (!link().is_split()) return 0;
  std::optional<Allocation> a = memory().find(address);
  if (!a) return 0;
  return a->context != 0 ? a->context : context_on(a->device);
}

bool are_apart(u64 context, u64 other) {
  return link().is_split() && context != 0 && other != 0 &&
         link().is_here(context) != link().is_here(other);
}

CUresult copy_through_program(u64 to, u64 from, u64 bytes, Order order) {
  CUresult e = entry_cuStreamSynchronize(reinterpret_cast<CUstream>(order.stream));
  Bytes buffer(std::min(bytes, kBufferBytes));
  for (u64 at = 0; at < bytes && e == CUDA_SUCCESS; at += buffer.size()) {
    u64 n = std::min<u64>(buffer.size(), bytes - at);
    e = read_device(buffer.data(), from + at, n, {0, false});
    if (e == CUDA_SUCCESS) e = write_device(to + at, buffer.data(), n, {0, false});
  }
  return e;
}

CUresult wait_for_event(CUstream stream, CUevent event, unsigned flags) {
  u64 recorded_in = ledger().context_of(number_of(event)).value_or(0);
  if (!are_apart(context_of_stream(number_of(stream)), recorded_in))
    return send_cuStreamWaitEvent(stream, event, flags);
  return entry_cuEventSynchronize(event);
}

}  // namespace ckpt::remote::cuda
