// SPDX-License-Identifier: Apache-2.0
#include "manager-client/memory_account.h"

namespace ckpt::manager_client {

namespace out = managed::to_manager;
using Fate = Answer::Fate;

Result<u32> MemoryAccount::ask(Waiters::Lock &lock, const Request &request) {
  u32 ticket = requests_.add(request);
  Request &r = *requests_.find(ticket);
  bool managed = program_.manages(r.api);
  if (managed && take_credit(r)) return ticket;
  if (connection_.standalone() || !managed) settle(r, Fate::Granted);
  if (r.pending()) connection_.tell(r.message(ticket));
  waiters_.wait(lock, r.answer);
  if (r.answer.fate == Fate::Granted) return ticket;
  return fail("{}", requests_.remove(ticket)->answer.why);
}

void MemoryAccount::done(u32 ticket, u64 used, managed::Api api) {
  std::optional<Request> request = requests_.remove(ticket);
  if (!program_.manages(api)) return;
  program_.memory.set(api, used);
  program_.memory.note_peak();
  if (request && request->from_credit) {
    if (credit_.finish(request->bytes)) return_credit();
    return;
  }
  note_told();
  connection_.tell(out::MallocDone{ticket, told_used_});
}

void MemoryAccount::done_loading(u32 ticket, u64 used, u64 variables, bool exclusive) {
  requests_.remove(ticket);
  if (!program_.manages(managed::kCuda)) return;
  program_.memory.set(managed::kCuda, used);
  program_.memory.variables = variables;
  program_.memory.note_peak();
  program_.exclusive = exclusive;
  note_told();
  connection_.tell(out::LoadDone{ticket, told_used_, variables, exclusive});
}

void MemoryAccount::freed(u64 used, managed::Api api) {
  if (!program_.manages(api)) return;
  u64 before = program_.memory.used_by(api);
  program_.memory.set(api, used);
  if (credit_.refill(before > used ? before - used : 0)) return;
  note_told();
  connection_.tell(out::CudaFree{told_used_});
}

// ---- answers

void MemoryAccount::settle(u32 ticket, Fate fate, const std::string &why) {
  if (Request *r = requests_.find(ticket)) settle(*r, fate, why);
}

// A granted load makes the program exclusive at once, even if the connection breaks before it is
// done.
void MemoryAccount::settle(Request &request, Fate fate, const std::string &why) {
  if (request.exclusive && fate == Fate::Granted) program_.exclusive = true;
  waiters_.settle(request.answer, fate, why);
}

void MemoryAccount::grant_all() {
  requests_.for_each([this](u32, Request &r) {
    if (r.pending()) settle(r, Fate::Granted);
  });
}

void MemoryAccount::ask_again() {
  requests_.for_each([this](u32 ticket, const Request &r) {
    if (r.pending()) connection_.send(r.message(ticket));
  });
}

// ---- credit

// A credit that does not suffice is returned: the answer to the request may bring a new one.
bool MemoryAccount::take_credit(Request &request) {
  request.from_credit = !request.load && credit_.take(request.bytes);
  if (request.from_credit)
    request.answer.fate = Fate::Granted;
  else if (credit_.returnable())
    return_credit();
  return request.from_credit;
}

void MemoryAccount::return_credit() {
  credit_.returned();
  note_told();
  connection_.tell(out::CreditReturned{told_used_});
}

void MemoryAccount::revoke_credit() {
  if (credit_.revoke()) return_credit();
}

// In-flight credit allocations become ordinary granted requests.
void MemoryAccount::drop_credit() {
  credit_.drop();
  requests_.for_each([this](u32 ticket, Request &r) {
    if (std::exchange(r.from_credit, false)) connection_.tell(r.message(ticket));
  });
}

void MemoryAccount::tell_used() {
  if (told_used_ == program_.memory.used()) return;
  note_told();
  connection_.tell(out::CudaFree{told_used_});
}

}  // namespace ckpt::manager_client
