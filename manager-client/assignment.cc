// SPDX-License-Identifier: Apache-2.0
#include "manager-client/assignment.h"

namespace ckpt::manager_client {

namespace out = managed::to_manager;
using Fate = Answer::Fate;
using managed::Api;

Place Assignment::connect(Waiters::Lock &lock, u64 variables, bool exclusive, Api api) {
  if (api == managed::kCuda) {
    program_.memory.variables = variables;
    program_.exclusive = exclusive;
  }
  bool first = program_.apis == 0 || program_.apis == api || program_.gpu.empty();
  return first ? connect_first(lock, api) : connect_further(lock, api);
}

// Another API may have asked before, and found that no device of its kind is managed here.
Place Assignment::connect_first(Waiters::Lock &lock, Api api) {
  u32 before = std::exchange(program_.apis, api);
  if (before != api) {
    program_.context.made = false;
    program_.memory.clear();
  }
  if (connection_.standalone()) return {};
  bool known = before == api || (before == 0 && api == managed::kCuda);  // the default of Join
  if (!known) connection_.tell(out::Uses{program_.apis});
  return wait_for_place(lock, 0);
}

// The program is not evicted until this API is started as well (ready()), because a suspend would
// leave it behind.
Place Assignment::connect_further(Waiters::Lock &lock, Api api) {
  eviction_.set_ready(false);
  wait_until_on_device(lock);
  if (!program_.manages(api) && !connection_.standalone()) {
    Place place = wait_for_place(lock, api);
    if (!place.denied.empty()) return place;
    wait_until_on_device(lock);
  }
  return program_.manages(api) ? Place{program_.gpu, {}, false} : Place{{}, {}, true};
}

// An eviction that has begun is completed first; the GPU may be another one afterwards.
void Assignment::wait_until_on_device(Waiters::Lock &lock) {
  while (!eviction_.on_device()) waiters_.pause(lock);
}

Place Assignment::wait_for_place(Waiters::Lock &lock, u32 further_api) {
  asked_.emplace(Question{further_api, {}});
  if (connection_.joined()) ask_again();
  waiters_.wait(lock, asked_->answer);
  Answer answer = std::exchange(asked_, std::nullopt)->answer;
  if (answer.fate != Fate::Granted) return {"", answer.why, false};
  return {program_.gpu, "", program_.gpu.empty() && connection_.joined()};
}

void Assignment::ask_again() {
  if (!asked_) return;
  if (asked_->further_api != 0) return connection_.send(out::AddApi{asked_->further_api});
  connection_.send(out::Connect{program_.memory.variables, program_.exclusive});
}

// ---- answers

void Assignment::assign(const std::string &gpu) {
  if (!asks_for_first()) return;
  program_.gpu = gpu;
  grant();
}

void Assignment::add_api(bool managed) {
  if (!asked_ || asked_->further_api == 0) return;
  if (managed) program_.apis |= asked_->further_api;
  grant();
}

void Assignment::deny(const std::string &why) {
  if (asked_) waiters_.settle(asked_->answer, Fate::Denied, why);
}

void Assignment::grant() {
  if (asked_) waiters_.settle(asked_->answer, Fate::Granted);
}

}  // namespace ckpt::manager_client
