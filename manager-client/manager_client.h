// SPDX-License-Identifier: Apache-2.0
//
// The program's side of the node's Manager (common/managed/messages.api): a façade over the
// connection, the requests, the credit, the eviction and the progress reports.
//
// A call of an API that changes how much device memory the program uses asks here first and waits
// for the Manager's answer. It waits outside its API's gate, so it never delays a checkpoint. The
// agent's thread reads the Manager's messages, so a program that makes no calls can be evicted,
// too.
//
// Example: cudaMalloc() → ask() → CudaMalloc{ticket, bytes} → the Manager evicts another program →
// GoAhead{ticket} → ask() returns the ticket → the driver allocates → done() → MallocDone.
//
// The first API of a program is the one that it gets a GPU for. A further API is managed if that
// GPU serves it; otherwise the Manager does not manage the program's use of that API.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "agent/lifecycle/lifecycle.h"
#include "common/base/clock.h"
#include "common/managed/messages.h"
#include "manager-client/connection.h"
#include "manager-client/credit.h"
#include "manager-client/eviction.h"
#include "manager-client/program.h"
#include "manager-client/progress_report.h"
#include "manager-client/requests.h"

namespace ckpt::manager_client {

// libckpt.so exports only what libckpt-ocl and libckpt-cuda call.
#define CKPT_PRIVATE_API [[gnu::visibility("default")]]

class ManagerClient {
 public:
  using Api = managed::Api;
  ManagerClient(agent::Lifecycle &lifecycle, std::string socket_path);

  // ---- any thread of the program

  // The GPU that the program is to use.
  struct Place {
    std::string gpu;     // its UUID; empty: not assigned, the program may use any
    std::string denied;  // why no GPU of this node is suitable; empty: not denied
    bool aside = false;  // there is a Manager, but it does not manage this API here
  };
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

  int fd() const { return connection_.fd(); }
  int timeout();
  void dispatch(bool readable);
  void pause();
  void resume();

 private:
  using Fate = Answer::Fate;
  // A thread in connect().
  struct PendingConnect {
    u32 further_api = 0;  // asked for in addition to those that the Manager knows of; 0: the first
    Answer answer;
  };

  // With the lock held. The waits release it.
  void wait(std::unique_lock<std::mutex> &lock, const std::function<bool()> &settled);
  bool something_waits() const;
  void settle(Answer &answer, Fate fate, std::string why = {});
  void settle(Request &request, Fate fate, std::string why = {});
  void grant_all();
  Result<u32> ask(const Request &request);
  bool take_credit(Request &request);
  void return_credit();
  void drop_credit();
  void tell_used();

  // connect() (assignment.cc)
  Place connect_first(std::unique_lock<std::mutex> &lock, Api api);
  Place connect_further(std::unique_lock<std::mutex> &lock, Api api);
  Place wait_for_place(std::unique_lock<std::mutex> &lock, u32 further_api);
  void wait_until_on_device(std::unique_lock<std::mutex> &lock);
  void ask_for_place();

  // The connection as the program experiences it (messages.cc)
  void seek();
  void receive();
  void lost(const std::string &why);
  void introduce();
  managed::to_manager::Join introduction() const;
  managed::Standing standing() const;
  void on(const managed::to_program::Welcome &m);
  void on(const managed::to_program::Refused &m);
  void on(const managed::to_program::Connect &m);
  void on(const managed::to_program::ApiAdded &m);
  void on(const managed::to_program::GoAhead &m);
  void on(const managed::to_program::OutOfMemory &m);
  void on(const managed::to_program::CCheckOk &m);
  void on(const managed::to_program::CCheckFailed &);
  void on(const managed::to_program::Credit &m);
  void on(const managed::to_program::RevokeCredit &);
  void on(const managed::to_program::Signal &);
  void on(const managed::to_program::Suspend &m);
  void on(const managed::to_program::SuspendMemory &m);
  void on(const managed::to_program::Deepen &);
  void on(const managed::to_program::Migrate &m);
  void on(const managed::to_program::ReportProgress &m);
  void on(const managed::to_program::Pong &) {}    // only shows that the Manager answers
  void on(const managed::to_program::Status &) {}  // for tools
  void on(std::monostate) {}
  void answer_signal();
  std::optional<u64> evict(const std::string &folder, protocol::Depth depth);
  void tell_what_stays();
  bool reports() const;
  void report();
  Clock::time_point next_while_evicted() const;
  Result<> resume_on(const std::string &gpu);  // without the lock
  void leave();
  bool left_without_devices();
  void resume_standalone();

  agent::Lifecycle &lifecycle_;
  std::mutex connecting_;  // one connect() at a time; locked before mutex_
  std::mutex mutex_;       // guards all below, except for the socket (connection.h)
  std::condition_variable changed_;
  Connection connection_;
  Program program_;
  Requests requests_;
  std::optional<PendingConnect> connect_;
  Credit credit_;
  Eviction eviction_;
  ProgressReport progress_;
  managed::to_manager::Join told_;  // what the Manager was told in the last Join
  u64 told_used_ = 0;               // the bytes that it was told last
  bool told_stays_ = false;         // something of the evicted program stays on its GPU
};

// The client of this process; null: the program is not managed (ckpt-run --managed).
CKPT_PRIVATE_API ManagerClient *get();

#undef CKPT_PRIVATE_API

}  // namespace ckpt::manager_client
