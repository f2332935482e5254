// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/link/owed.h"

#include "common/base/fields.h"
#include "libckpt-ocl/client/link/link.h"

namespace ckpt::ocl {
namespace {

// The ring keeps the order, so that the proxy copies before it takes the command that writes. Only
// a write to shared pages, which needs no command, has to wait here.
void settle(Mem &root) {
  static std::mutex mutex;  // another writer must not pass before the request is in the ring
  std::lock_guard lock(mutex);
  if (!root.owed.load(std::memory_order_relaxed)) return;
  Writer w;
  w.put(root.number);
  if (root.shared)
    link().round_trip(Op::Settle, 0, w.bytes());
  else
    link().send(Op::Settle, 0, w.bytes());
  root.owed.store(false, std::memory_order_release);
}

}  // namespace

void will_be_written(Mem &m) {
  Mem &root = *m.root();
  root.written.store(true, std::memory_order_relaxed);
  if (root.owed.load(std::memory_order_acquire) && link().usable()) settle(root);
}

}  // namespace ckpt::ocl
