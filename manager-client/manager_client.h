// SPDX-License-Identifier: Apache-2.0
//
// The program's side of the node's Manager (common/managed/messages.api), as the program's threads
// and the agent's thread call it.
//
// A call of an API that changes how much device memory the program uses asks here first and waits
// for the Manager's answer. It waits outside its API's gate, so it never delays a checkpoint. The
// agent's thread reads the Manager's messages, so a program that makes no calls can be evicted,
// too.
//
// Example: cudaMalloc() → ask() → CudaMalloc{ticket, bytes} → the Manager evicts another program →
// GoAhead{ticket} → ask() returns the ticket → the driver allocates → done() → MallocDone.
#pragma once

#include <mutex>
#include <string>

#include "agent/lifecycle/lifecycle.h"
#include "common/base/clock.h"
#include "common/managed/messages.h"
#include "manager-client/client_state.h"
#include "manager-client/dialogue.h"
#include "manager-client/orders.h"

namespace ckpt::manager_client {

// libckpt.so exports only what libckpt-ocl and libckpt-cuda call.
#define CKPT_PRIVATE_API [[gnu::visibility("default")]]

class ManagerClient {
 public:
  using Api = managed::Api;
  using Place = manager_client::Place;
  ManagerClient(agent::Lifecycle &lifecycle, std::string socket_path);

  // ---- any thread of the program

  static constexpr const char *kAside =
      "is not managed: the Manager's device for this program does not serve it";
  // Before the driver is started, and again with each device variable that is found later (MC-14).
  // `variables`: bytes of all device variables. May wait for a long time.
  CKPT_PRIVATE_API Place connect(u64 variables, bool exclusive, Api api = Api::kCuda);
  // The driver is started and the API has joined the agent: from now on it can be evicted.
  CKPT_PRIVATE_API void ready();
  CKPT_PRIVATE_API void context_made(Api api = Api::kCuda);
  // Asks for `bytes` of device memory. Returns a ticket for done(), or the reason why the memory
  // will not become available. May wait, and be evicted meanwhile.
  CKPT_PRIVATE_API Result<u32> ask(u64 bytes, Api api = Api::kCuda);
  // Asks to load code with `bytes` of device variables. If its kernels need a GPU for themselves
  // (`exclusive`), the program may be moved, or others evicted, before this returns. The ticket is
  // for done_loading().
  CKPT_PRIVATE_API Result<u32> ask_to_load(u64 bytes, bool exclusive);
  // The allocation is over, successful or not. `used`: bytes that the program now holds by this
  // API.
  CKPT_PRIVATE_API void done(u32 ticket, u64 used, Api api = Api::kCuda);
  // The load is over, or (ticket 0) code was unloaded. `variables`: bytes of all loaded code.
  CKPT_PRIVATE_API void done_loading(u32 ticket, u64 used, u64 variables, bool exclusive);
  CKPT_PRIVATE_API void freed(u64 used, Api api = Api::kCuda);
  // The process that holds the program's device memory, if it is another one; 0: none. Also from
  // the agent's thread.
  CKPT_PRIVATE_API void held_by(u32 pid);
  // The program ends.
  void exiting();

  // ---- the agent's thread: see agent/runtime/event_source.h

  int fd() const { return state_.connection.fd(); }
  int timeout();
  void dispatch(bool readable);
  void pause();
  void resume();

 private:
  Result<u32> ask(const Request &request);
  Clock::time_point next_while_evicted() const;

  std::mutex connecting_;  // one connect() at a time; locked before the state's
  ClientState state_;
  Orders orders_{state_};
  Dialogue dialogue_{state_, orders_};
};

// The client of this process; null: the program is not managed (ckpt-run --managed).
CKPT_PRIVATE_API ManagerClient *get();

#undef CKPT_PRIVATE_API

}  // namespace ckpt::manager_client
