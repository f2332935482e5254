// SPDX-License-Identifier: Apache-2.0
#include "manager-client/credit.h"

#include <algorithm>
#include <utility>

namespace ckpt::manager_client {

void Credit::grant(u64 bytes) { granted_ = left_ = bytes; }

bool Credit::take(u64 bytes) {
  if (bytes > left_) return false;
  left_ -= bytes;
  in_flight_ += bytes;
  return true;
}

bool Credit::finish(u64 bytes) {
  in_flight_ -= bytes;
  return revoked_ && in_flight_ == 0;
}

bool Credit::refill(u64 freed) {
  u64 allocated = granted_ > left_ + in_flight_ ? granted_ - left_ - in_flight_ : 0;
  left_ += std::min(allocated, freed);
  return granted_ > 0 && freed <= allocated;
}

// Without a credit it was returned already, perhaps before the Manager sent the revocation.
bool Credit::revoke() {
  if (granted_ == 0) return false;
  granted_ = left_ = 0;
  revoked_ = true;
  return in_flight_ == 0;
}

void Credit::returned() {
  granted_ = left_ = 0;
  revoked_ = false;
}

}  // namespace ckpt::manager_client
