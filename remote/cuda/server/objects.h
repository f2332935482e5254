// SPDX-License-Identifier: Apache-2.0
//
// The driver's objects by their numbers (handles.h). A number that the client invents leads
// nowhere.
//
// An object ends with its owner: a kernel with its library, a stream with its context. The driver
// may then give its handle to another object. What a kernel or a library is in one context (a
// function, a module) ends with that context, too.
#pragma once

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "remote/cuda/handles.h"

namespace ckpt::remote::cuda {

class Objects {
 public:
  // Null: there is no such object, or it is of another kind.
  void *real(Kind kind, u64 number) const;
  // The number of this object of the driver; `wanted` if it is new. 0: another object has that
  // number. `owner`: the number of its owner; 0: it has none. `made`: the driver has just made it,
  // so an earlier object with this address has ended, although end() may not have been called yet:
  // another thread may have made the call that ended it.
  // `context`: the current one, or 0.
  u64 number(u64 wanted, void *real, u64 owner, bool made = false, u64 context = 0);
  // The object has ended, with all that it owns. Returns the numbers of all these.
  std::vector<u64> end(u64 number);
  // The same for all that it owns, but not for itself.
  std::vector<u64> end_owned_by(u64 number);
  std::vector<void *> all_of(Kind kind) const;
  size_t size() const;

 private:
  struct Object {
    void *real;
    u64 owner;
    u64 context;

    bool ends_with(u64 number, Kind own_kind) const;
  };
  std::vector<u64> end_locked(std::vector<u64> ended);

  mutable std::mutex mutex_;
  std::unordered_map<u64, Object> all_;
  std::map<std::pair<Kind, void *>, u64> numbers_;
};

}  // namespace ckpt::remote::cuda
