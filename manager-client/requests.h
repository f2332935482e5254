// SPDX-License-Identifier: Apache-2.0
//
// The requests of the program's threads for device memory, each with a ticket, the program's own
// number for it. The client's mutex guards them.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/managed/messages.h"

namespace ckpt::manager_client {

// The state of a request.
struct Answer {
  enum class Fate : u8 { Pending, Granted, Denied };
  Fate fate = Fate::Pending;
  std::string why;  // denied
};

struct Request {
  u64 bytes = 0;
  bool load = false;       // of code with `bytes` of device variables; otherwise of memory
  bool exclusive = false;  // the kernels of the code need a GPU for themselves
  managed::Api api = managed::kCuda;
  bool from_credit = false;  // granted out of the credit; the Manager does not know of it
  Answer answer;

  bool pending() const { return answer.fate == Answer::Fate::Pending; }
  managed::ToManager message(u32 ticket) const;
};

class Requests {
 public:
  // Returns the ticket.
  u32 add(const Request &request);
  // Null: there is no such request. The pointer is valid until remove().
  Request *find(u32 ticket);
  std::optional<Request> remove(u32 ticket);

  // Calls f(ticket, request) for each.
  template <class F>
  void for_each(F f) {
    for (auto &[ticket, request] : requests_) f(ticket, request);
  }

 private:
  std::map<u32, Request> requests_;
  u32 next_ticket_ = 1;  // 0 is no ticket
};

}  // namespace ckpt::manager_client
