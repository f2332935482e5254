// SPDX-License-Identifier: Apache-2.0
//
// Credit is memory that a program may allocate without asking, so that frequent allocations need
// not wait for an answer each time.
//
// It is reserved like a granted request (accounting.h), so the same memory is never promised twice.
// A program may use credit again only for what it has freed, so at most `Credit::bytes` can come in
// addition to what was measured. The program reports how much of it is in use when it returns the
// credit, or leaves its GPU.
//
// Credit is granted only while memory is plentiful and no program waits. It is revoked as soon as a
// program waits, before any program is evicted.
#pragma once

#include "manager/policy/state.h"

namespace ckpt::manager {

class Credits {
 public:
  explicit Credits(State &state) : state_(state) {}

  // To a program that has just been granted a request.
  void grant(Program &p);
  // All of it, if a program waits.
  void revoke();
  // The program has returned it, and holds `used` bytes.
  static void returned(Program &p, u64 used);
  // Credit on `gpu` that was revoked, or will be, and that its program is expected to return.
  bool returning(GpuIndex gpu) const;

 private:
  State &state_;
};

}  // namespace ckpt::manager
