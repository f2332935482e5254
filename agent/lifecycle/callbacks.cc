// SPDX-License-Identifier: Apache-2.0
#include "agent/lifecycle/callbacks.h"

#include <algorithm>

#include "common/base/reversed.h"

namespace ckpt::agent {

namespace {

Failure refusal(const std::string &reason) {
  return fail_with_hint(
      "the program refuses the checkpoint: " + (reason.empty() ? "it gives no reason" : reason),
      "try again when the program is ready");
}

}  // namespace

int Callbacks::add(ckpt_before_fn before, ckpt_after_fn after, void *user) {
  std::scoped_lock lock(mutex_);
  pairs_.push_back({next_id_, before, after, user});
  return next_id_++;
}

bool Callbacks::remove(int id) {
  std::unique_lock lock(mutex_);
  if (!find(id)) return false;
  std::erase_if(pairs_, [&](const Pair &p) { return p.id == id; });
  idle_.wait(lock, [&] { return running_ != id || caller_ == std::this_thread::get_id(); });
  return true;
}

size_t Callbacks::count_before() {
  std::scoped_lock lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(pairs_, [](const Pair &p) { return p.before != nullptr; }));
}

Result<> Callbacks::before() {
  for (int id : ids()) CKPT_CHECK(call_before(id));
  return {};
}

void Callbacks::after(ckpt_outcome outcome) {
  std::vector<int> all = ids();
  for (int id : reversed(all)) call_after(id, outcome);
}

std::vector<int> Callbacks::ids() {
  std::scoped_lock lock(mutex_);
  std::vector<int> ids;
  for (const Pair &p : pairs_) ids.push_back(p.id);
  return ids;
}

Result<> Callbacks::call_before(int id) {
  std::unique_lock lock(mutex_);
  Pair *pair = find(id);
  if (!pair) return {};
  int refused = 0;
  std::string reason;
  if (ckpt_before_fn before = pair->before)
    run_unlocked(lock, id, [&, user = pair->user] {
      const char *text = nullptr;
      refused = before(user, &text);
      if (refused != 0 && text) reason = text;
    });
  if (refused != 0) return refusal(reason);
  // The callback may have removed itself or added others, so `pair` may be invalid.
  if (Pair *still = find(id)) still->agreed = true;
  return {};
}

void Callbacks::call_after(int id, ckpt_outcome outcome) {
  std::unique_lock lock(mutex_);
  Pair *pair = find(id);
  if (!pair || !std::exchange(pair->agreed, false) || !pair->after) return;
  run_unlocked(lock, id, [=, after = pair->after, user = pair->user] { after(user, outcome); });
}

Callbacks::Pair *Callbacks::find(int id) {
  auto it = std::ranges::find(pairs_, id, &Pair::id);
  return it == pairs_.end() ? nullptr : &*it;
}

template <class Call>
void Callbacks::run_unlocked(std::unique_lock<std::mutex> &lock, int id, Call call) {
  running_ = id;
  caller_ = std::this_thread::get_id();
  lock.unlock();
  call();
  lock.lock();
  running_ = 0;
  idle_.notify_all();
}

}  // namespace ckpt::agent
