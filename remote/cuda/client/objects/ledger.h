// SPDX-License-Identifier: Apache-2.0
//
// The objects of the program that live, each with the call that made it, and what is set. In the
// order in which they were sent, these calls make the same objects under the same numbers on
// another server (replay.h). It is no log: what has ended leaves nothing behind.
//
// Example: a program that has made 1000 events and destroyed 999 of them has one entry.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "remote/cuda/client/link/site.h"
#include "remote/cuda/client/objects/loaded_code.h"

namespace ckpt::remote::cuda {

// A call as it was sent.
struct LedgerCall {
  u16 op = 0;
  u64 context = 0;
  Bytes arguments;
  Site::By by = Site::By::Context;
  CUdevice device = 0;  // if by is Device

  Site site() const { return {by, context, device}; }
};

// Thread-safe.
class Ledger {
 public:
  // The number of an object that a call will make. None is used twice.
  u64 new_number(Kind kind);

  struct Object {
    u64 number = 0;
    u64 owner = 0;       // it ends with this one; 0: with none
    u64 when = 0;        // the order of the calls
    unsigned times = 1;  // how often the call was made: a primary context counts its users
    LedgerCall call;
    std::shared_ptr<const LoadedCode> code;  // of a module or library that was loaded
  };
  // The object exists. If it was known already (cuModuleGetFunction), nothing changes.
  void add(u64 number, u64 owner, LedgerCall call, std::shared_ptr<const LoadedCode> code = {});
  // `key`: of all calls that set the same thing, the last one counts. `of`: the object that has it.
  void set(u64 of, std::string key, LedgerCall call);
  // The object has ended, with all that it owned. Returns the numbers of all these.
  std::vector<u64> end(u64 number);
  // Everything has ended that was made in the context; not the context itself, no library
  // and no pool.
  std::vector<u64> end_all_of(u64 context);

  bool lives(u64 number) const;
  // It is of new_number(), whether the object lives or has ended.
  bool was_numbered(u64 number) const;
  // The object that it ends with; 0: none, or it does not live.
  u64 owner_of(u64 number) const;
  // The code that it was found in, or that it is; null: there is none.
  std::shared_ptr<const LoadedCode> code_of(u64 number) const;
  // The context that was current when it was made; no value: it does not live.
  std::optional<u64> context_of(u64 number) const;

  // Where it was made.
  Site site_of(u64 number) const;

  void set_device(u64 context, CUdevice device);
  std::optional<CUdevice> device_of(u64 context) const;
  bool has_several_contexts() const;
  // The device's primary context; 0: nothing uses it.
  u64 primary_of(CUdevice device) const;
  // One more user of a primary context, or one less. False: it was the last one.
  void retain(u64 context, CUdevice device);
  bool release(u64 context);

  // Whether a launch of this shape has succeeded on this device, and its function lives, so that
  // another one cannot be wrong.
  bool knows_shape(u64 shape, u64 function) const;
  void add_shape(u64 shape);
  void forget_shapes();

  // Copies of the objects of a kind (Kind::None: all), and of the calls that set something, in the
  // order of the calls.
  std::vector<Object> objects(Kind kind = Kind::None) const;
  std::vector<Object> settings() const;

 private:
  std::vector<u64> end_locked(std::vector<u64> numbers);

  mutable std::mutex mutex_;
  u64 last_serial_ = 0, last_when_ = 0;
  std::unordered_map<u64, Object> objects_;
  std::map<std::string, Object> settings_;  // `number`: the object that has it
  std::unordered_map<u64, CUdevice> devices_;
  std::unordered_map<CUdevice, u64> primary_;
  std::unordered_set<u64> shapes_;
};
Ledger &ledger();

}  // namespace ckpt::remote::cuda
