// SPDX-License-Identifier: Apache-2.0
//
// Which GPU the program is to use: connect(). The client's mutex guards it.
//
// The first API of a program is the one that it gets a GPU for. A further API is managed if that
// GPU serves it; otherwise the Manager does not manage the program's use of that API.
#pragma once

#include <optional>
#include <string>

#include "manager-client/connection.h"
#include "manager-client/eviction.h"
#include "manager-client/program.h"
#include "manager-client/requests.h"
#include "manager-client/waiters.h"

namespace ckpt::manager_client {

// The GPU that the program is to use.
struct Place {
  std::string gpu;     // its UUID; empty: not assigned, the program may use any
  std::string denied;  // why no GPU of this node is suitable; empty: not denied
  bool aside = false;  // there is a Manager, but it does not manage this API here
};

class Assignment {
 public:
  Assignment(Connection &connection, Program &program, Eviction &eviction, Waiters &waiters)
      : connection_(connection), program_(program), eviction_(eviction), waiters_(waiters) {}

  // See ManagerClient. One thread at a time; the lock is released while it waits.
  Place connect(Waiters::Lock &lock, u64 variables, bool exclusive, managed::Api api);
  // Whether a thread asks for the program's first GPU.
  bool asks_for_first() const { return asked_ && asked_->further_api == 0; }

  // ---- the Manager: answers, if a thread waits for them

  void assign(const std::string &gpu);
  void add_api(bool managed);
  void deny(const std::string &why);
  // Without a Manager no thread waits.
  void grant();
  // A new Manager is asked again.
  void ask_again();

 private:
  // A thread in connect().
  struct Question {
    u32 further_api = 0;  // asked for in addition to those that the Manager knows of; 0: the first
    Answer answer;
  };

  Place connect_first(Waiters::Lock &lock, managed::Api api);
  Place connect_further(Waiters::Lock &lock, managed::Api api);
  Place wait_for_place(Waiters::Lock &lock, u32 further_api);
  void wait_until_on_device(Waiters::Lock &lock);

  Connection &connection_;
  Program &program_;
  Eviction &eviction_;
  Waiters &waiters_;
  std::optional<Question> asked_;
};

}  // namespace ckpt::manager_client
