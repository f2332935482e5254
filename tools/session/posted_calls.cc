// SPDX-License-Identifier: Apache-2.0
#include "tools/session/posted_calls.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/bytes.h"

namespace ckpt::tools {

Result<> PostedCalls::open() {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return fail_errno("cannot create an eventfd");
  return {};
}

void PostedCalls::add(std::function<void()> f) {
  std::lock_guard lock(mutex_);
  all_.push_back(std::move(f));
  u64 one = 1;
  if (::write(wake_.get(), &one, sizeof one) <
      0) { /* the counter is full, so the loop wakes anyway */
  }
}

void PostedCalls::run() {
  u64 count;
  if (::read(wake_.get(), &count, sizeof count) < 0) return;
  std::vector<std::function<void()>> now;
  {
    std::lock_guard lock(mutex_);
    now.swap(all_);
  }
  for (auto &f : now) f();
}

}  // namespace ckpt::tools
