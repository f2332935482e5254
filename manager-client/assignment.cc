// SPDX-License-Identifier: Apache-2.0
//
// connect(): which GPU the program is to use.
#include "manager-client/manager_client.h"

namespace ckpt::manager_client {

namespace in = managed::to_program;
namespace out = managed::to_manager;

ManagerClient::Place ManagerClient::connect(u64 variables, bool exclusive, Api api) {
  std::lock_guard one_at_a_time(connecting_);
  std::unique_lock lock(mutex_);
  bool first = program_.apis == 0 || program_.apis == api || program_.gpu.empty();
  if (api == Api::kCuda) {
    program_.memory.variables = variables;
    program_.exclusive = exclusive;
  }
  return first ? connect_first(lock, api) : connect_further(lock, api);
}

// Another API may have asked before, and found that no device of its kind is managed here.
ManagerClient::Place ManagerClient::connect_first(std::unique_lock<std::mutex> &lock, Api api) {
  u32 before = std::exchange(program_.apis, api);
  if (before != api) {
    program_.context.made = false;
    program_.memory.clear();
  }
  if (connection_.standalone()) return {};
  bool known = before == api || (before == 0 && api == Api::kCuda);  // CUDA is the default of Join
  if (!known) connection_.tell(out::Uses{program_.apis});
  return wait_for_place(lock, 0);
}

// The program is not evicted until this API is started as well (ready()), because a suspend would
// leave it behind.
ManagerClient::Place ManagerClient::connect_further(std::unique_lock<std::mutex> &lock, Api api) {
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
void ManagerClient::wait_until_on_device(std::unique_lock<std::mutex> &lock) {
  while (!eviction_.on_device()) changed_.wait_for(lock, Connection::kRetryPause);
}

ManagerClient::Place ManagerClient::wait_for_place(std::unique_lock<std::mutex> &lock,
                                                   u32 further_api) {
  connect_.emplace(PendingConnect{further_api, {}});
  if (connection_.joined()) ask_for_place();
  wait(lock, [this] { return connect_->answer.fate != Fate::Pending; });
  Answer answer = std::exchange(connect_, std::nullopt)->answer;
  if (answer.fate != Fate::Granted) return {"", answer.why, false};
  return {program_.gpu, "", program_.gpu.empty() && connection_.joined()};
}

void ManagerClient::ask_for_place() {
  if (connect_->further_api != 0) return connection_.send(out::AddApi{connect_->further_api});
  connection_.send(out::Connect{program_.memory.variables, program_.exclusive});
}

// ---- the answers

void ManagerClient::on(const in::Connect &m) {
  std::lock_guard lock(mutex_);
  if (!connect_ || connect_->further_api != 0) return;
  program_.gpu = m.gpu;
  settle(connect_->answer, Fate::Granted);
}

void ManagerClient::on(const in::ApiAdded &m) {
  std::lock_guard lock(mutex_);
  if (!connect_ || connect_->further_api == 0) return;
  if (m.managed) program_.apis |= connect_->further_api;
  settle(connect_->answer, Fate::Granted);
}

}  // namespace ckpt::manager_client
