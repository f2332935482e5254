// SPDX-License-Identifier: Apache-2.0
//
// The Manager's orders to leave the device and to return to it (eviction.h), and what it is told of
// them. The orders are executed on the agent's thread, without the client's mutex; the other
// functions are called with it.
#pragma once

#include <optional>
#include <string>

#include "manager-client/client_state.h"

namespace ckpt::manager_client {

class Orders {
 public:
  explicit Orders(ClientState &state) : state_(state) {}

  // ---- without the mutex

  // An empty folder stands for host memory.
  void suspend(const std::string &folder);
  void suspend_memory(const std::string &folder);
  void deepen();
  void migrate(const std::string &gpu);
  // Without a Manager the program tries the GPU that it had, until there is room for it.
  void resume_standalone();

  // ---- with it

  // If a signal was received, and no API is being started, because a suspend would leave it behind.
  void answer_signal();
  // To a Manager that knows nothing of it.
  void introduce_what_stays();
  // From now on the program is not managed, and nothing waits for the Manager.
  void leave();

 private:
  std::optional<u64> evict(const std::string &folder, protocol::Depth depth);
  Result<> resume_on(const std::string &gpu);
  void cannot_migrate(const std::string &gpu, const std::string &why);
  bool left_without_devices();
  void tell_what_stays();

  ClientState &state_;
  bool told_stays_ = false;  // that something of the evicted program stays on its GPU
};

}  // namespace ckpt::manager_client
