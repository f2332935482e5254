// SPDX-License-Identifier: Apache-2.0
//
// The stream that the program's last call has waited for. Until its next call the stream stays
// idle, so waiting for it once more needs no round trip: as a copy to the program's memory and a
// wait behind it.
#pragma once

#include <mutex>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

class LastWait {
 public:
  // `calls`: how many calls the program has sent to the server, with that which has waited.
  void note(u64 context, u64 stream, u64 calls) {
    std::lock_guard lock(mutex_);
    context_ = context, stream_ = stream, calls_ = calls;
  }
  bool still_idle(u64 context, u64 stream, u64 calls) {
    std::lock_guard lock(mutex_);
    return context == context_ && stream == stream_ && calls == calls_ && calls != 0;
  }

 private:
  std::mutex mutex_;
  u64 context_ = 0, stream_ = 0, calls_ = 0;
};
inline LastWait &last_wait() {
  static LastWait *const kLastWait = new LastWait;
  return *kLastWait;
}

}  // namespace ckpt::remote::cuda
