// SPDX-License-Identifier: Apache-2.0
//
// The program's device memory as the Manager counts it: what the program asks for, what it holds,
// and what it may take without a request (credit.h). The client's mutex guards it.
#pragma once

#include <string>

#include "common/base/result.h"
#include "manager-client/connection.h"
#include "manager-client/credit.h"
#include "manager-client/program.h"
#include "manager-client/requests.h"
#include "manager-client/waiters.h"

namespace ckpt::manager_client {

class MemoryAccount {
 public:
  MemoryAccount(Connection &connection, Program &program, Waiters &waiters)
      : connection_(connection), program_(program), waiters_(waiters) {}

  // ---- the program's threads: see ManagerClient

  Result<u32> ask(Waiters::Lock &lock, const Request &request);
  void done(u32 ticket, u64 used, managed::Api api);
  void done_loading(u32 ticket, u64 used, u64 variables, bool exclusive);
  void freed(u64 used, managed::Api api);

  // ---- the Manager

  // Its answer to a request, if there is one with this ticket.
  void settle(u32 ticket, Answer::Fate fate, const std::string &why = {});
  void grant_all();
  void grant_credit(u64 bytes) { credit_.grant(bytes); }
  void revoke_credit();
  // The credit is void, with the connection or the device.
  void drop_credit();
  // It has been told, in another message, what the program uses now.
  void note_told() { told_used_ = program_.memory.used(); }
  // Unless it knows it.
  void tell_used();
  // A new Manager is asked again.
  void ask_again();

 private:
  void settle(Request &request, Answer::Fate fate, const std::string &why = {});
  bool take_credit(Request &request);
  void return_credit();

  Connection &connection_;
  Program &program_;
  Waiters &waiters_;
  Requests requests_;
  Credit credit_;
  u64 told_used_ = 0;  // the bytes that the Manager was told last
};

}  // namespace ckpt::manager_client
