// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/host_calls.h"

#include <memory>

namespace ckpt::remote::cuda {

CUresult HostCalls::enqueue(CUstream stream, u64 token, Send send) {
  auto pending = std::make_unique<Pending>(Pending{*this, token, std::move(send)});
  CUresult e = driver().cuLaunchHostFunc(stream, run, pending.get());
  if (e == CUDA_SUCCESS) (void)pending.release();  // run() has it
  return e;
}

void HostCalls::run(void *data) {
  std::unique_ptr<Pending> p(static_cast<Pending *>(data));
  HostCalls &all = p->all;
  {
    std::lock_guard lock(all.mutex_);
    all.running_.insert(p->token);
  }
  p->send(p->token);
  std::unique_lock lock(all.mutex_);
  all.changed_.wait(lock, [&] { return !all.running_.contains(p->token); });
}

bool HostCalls::done(u64 token) {
  std::lock_guard lock(mutex_);
  bool was = running_.erase(token) > 0;
  changed_.notify_all();
  return was;
}

}  // namespace ckpt::remote::cuda
