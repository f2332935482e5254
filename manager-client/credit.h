// SPDX-License-Identifier: Apache-2.0
//
// Credit: device memory that the program may allocate without a request, and allocate again after
// it was freed. The Manager grants it while memory is plentiful and may revoke it at any time.
//
//   granted = left + in flight + allocated
//
// `in flight` are allocations that were taken out of the credit while the driver is still executing
// them. A revoked credit is returned when none is in flight, because only then the bytes that the
// program uses, which the answer reports, are known. Uses no socket; the client's mutex guards it.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::manager_client {

class Credit {
 public:
  void grant(u64 bytes);
  // Takes an allocation out of the credit; false: it does not suffice.
  bool take(u64 bytes);
  // An allocation of take() has ended. True: the credit must be returned now.
  bool finish(u64 bytes);
  // Memory was freed. True: all of it goes back into the credit, so the Manager is not told.
  bool refill(u64 freed);
  // The Manager wants the credit back. True: it must be returned now.
  bool revoke();
  // Whether there is a credit that can be returned.
  bool returnable() const { return granted_ > 0 && in_flight_ == 0; }
  // The credit was returned.
  void returned();
  // The credit is void, with the connection or the device.
  void drop() { *this = {}; }

 private:
  u64 granted_ = 0, left_ = 0, in_flight_ = 0;  // bytes
  bool revoked_ = false;
};

}  // namespace ckpt::manager_client
