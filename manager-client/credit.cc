// SPDX-License-Identifier: Apache-2.0
//
// Memory that the Manager gave ahead: it is taken, and freed again, without a question.
#include <algorithm>

#include "manager-client/manager_client.h"

namespace ckpt::manager_client {

namespace out = managed::to_manager;

// ---- the program's threads

void ManagerClient::done(u32 ticket, u64 used, Api api) {
  std::lock_guard lock(mutex_);
  auto r = requests_.extract(ticket);
  if (!managed(api)) return;
  used_by_[api] = used;
  note_peak();
  if (!r.empty() && r.mapped().ahead) {
    taking_ -= r.mapped().bytes;
    if (recalled_ && taking_ == 0) give_back();
    return;
  }
  told_ = this->used();
  if (link_ == Link::Joined) say(out::MallocDone{ticket, told_});
}

void ManagerClient::freed(u64 used, Api api) {
  std::lock_guard lock(mutex_);
  if (!managed(api)) return;
  u64 before = std::exchange(used_by_[api], used);
  if (keep_ahead(before > used ? before - used : 0)) return;
  told_ = this->used();
  if (link_ == Link::Joined) say(out::CudaFree{told_});
}

// ---- with the lock held

// What does not suffice is given back: with the answer there may come new.
bool ManagerClient::take_ahead(Request &r) {
  r.ahead = !r.load && r.bytes <= left_;
  if (r.ahead) {
    left_ -= r.bytes;
    taking_ += r.bytes;
    r.fate = Fate::Granted;
  } else if (ahead_ > 0 && taking_ == 0) {
    give_back();
  }
  return r.ahead;
}

// What it has taken of it and freed again it may take again; the Manager has not heard of either.
bool ManagerClient::keep_ahead(u64 freed) {
  u64 room = ahead_ > left_ + taking_ ? ahead_ - left_ - taking_ : 0;
  left_ += std::min(room, freed);
  return ahead_ > 0 && freed <= room;
}

// The device is left, or the Manager. Who has taken some and not done so with it is in the same
// place as all who were answered.
void ManagerClient::drop_ahead() {
  ahead_ = left_ = taking_ = 0;
  recalled_ = false;
  for (auto &[ticket, r] : requests_) {
    if (std::exchange(r.ahead, false) && link_ == Link::Joined) say_request(ticket, r);
  }
}

void ManagerClient::give_back() {
  ahead_ = left_ = 0;
  recalled_ = false;
  told_ = used();
  if (link_ == Link::Joined) say(out::CreditReturned{told_});
}

}  // namespace ckpt::manager_client
