// SPDX-License-Identifier: Apache-2.0
//
// The program's side of the node's Manager (common/managed/messages.api). Calls that change how
// much device memory the program uses ask here first and wait; the agent's thread reads what the
// Manager says, so that a program can be evicted that makes no calls. Leaving and coming back are
// the life cycle's suspend and wake.
//
// A program's first API is the one that it gets a device for. A further one is managed if that
// device serves it, too; otherwise the Manager has nothing to do with it (managed()).
//
// Whoever waits here stands outside its API's gate, so it never holds a checkpoint up.
//
// The Manager may die. Then everybody waits for another one, for the time that was told at the
// start; after that the program goes on *alone*: nothing waits any longer, what was evicted comes
// back by itself, and another Manager is looked for now and then. One that lives and does not
// answer is given up after the same time (liveness.h); it is asked by whoever waits for it, so
// nobody else is woken. While a tool speaks with the agent the connection is given up, since CRIU
// takes no process that has one.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "agent/ipc/own_fd.h"
#include "agent/lifecycle/lifecycle.h"
#include "common/managed/messages.h"
#include "manager-client/heartbeat.h"

namespace ckpt::manager_client {

// What a thread waits for the Manager's answer to.
struct ManagerRequest {
  enum class Fate : u8 { Waits, Granted, Denied };
  u64 bytes = 0;
  bool load = false, alone = false;  // of code; of code that needs a device for itself
  managed::Api api = managed::kCuda;
  bool ahead = false;  // taken of what was given ahead; nobody was asked
  Fate fate = Fate::Waits;
  std::string why;
};

class [[gnu::visibility("default")]] ManagerClient {
 public:
  using Api = managed::Api;
  explicit ManagerClient(agent::Lifecycle & life);

  // ---- any thread of the program

  // Where the program is to run. May wait for long.
  struct Place {
    std::string gpu;     // its UUID; empty: wherever it likes, nobody manages it
    std::string denied;  // why no device of this node will do; empty: it was not denied
    bool aside = false;  // there is a Manager, but it has nothing to do with this API here
  };
  static constexpr const char *kAside =
      "is not managed: the Manager's device for this program does not serve it";
  // Before the driver is started; again with each device variable that is found (MC-14).
  Place connect(u64 variables, bool exclusive, Api api = Api::kCuda);
  // The driver is started and the API has joined the agent: from now on it can be evicted.
  void ready();
  // A context was made.
  void context_made(Api api = Api::kCuda);
  // May the program have so many bytes more? A ticket, for done(); an error: there will not be so
  // much. Waits, and may be evicted meanwhile.
  Result<u32> ask(u64 bytes, Api api = Api::kCuda);
  // May it load code, with so many bytes of device variables? Its kernels need a device for
  // themselves if it is `exclusive`: then the program may be moved, or the others leave, before
  // this returns. A ticket, for done_loading().
  Result<u32> ask_to_load(u64 bytes, bool exclusive);
  // The request is over; `used`: bytes that the program holds now by this API.
  void done(u32 ticket, u64 used, Api api = Api::kCuda);
  // The load is over, or (ticket 0) code was unloaded; `variables`: bytes of all loaded code.
  void done_loading(u32 ticket, u64 used, u64 variables, bool exclusive);
  void freed(u64 used, Api api = Api::kCuda);
  // The process that has the program's device memory, where that is another one; 0: none has.
  // Also from the agent's thread.
  void held_by(u32 pid);
  // The program ends.
  void fin();

  // ---- the agent's thread

  int fd() const { return socket_.get(); }  // to be polled; negative: nothing
  // Until turn() wants to be called again, in milliseconds; negative: not before fd() can be read.
  int timeout();
  void turn(bool readable);
  // A tool is here, and gone.
  void pause();
  void go_on();

 private:
  using Request = ManagerRequest;
  using Fate = ManagerRequest::Fate;
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kSeekPause{50}, kAlonePause{2000};
  enum class Link : u8 {
    Off,       // nobody manages this program, or it was refused
    Seeking,   // was joined, or is about to be
    Greeting,  // has said Join, and was not welcomed yet
    Joined,
  };
  // With the lock held.
  void say(const managed::ToManager &message);
  managed::to_manager::Join introduction() const;
  void greet();
  void be_welcome(const managed::to_program::Welcome &m);
  bool waits() const;
  template <class Settled>
  void wait(std::unique_lock<std::mutex> & lock, Settled settled);
  void watch();
  std::chrono::milliseconds patience() const;
  std::chrono::milliseconds grace() const { return grace_.value_or(std::chrono::milliseconds(0)); }
  void lost(const std::string &why);
  void found_none(std::chrono::milliseconds most, const std::string &why);
  void be_alone();
  Result<u32> ask(Request request);
  void say_request(u32 ticket, const Request &r);
  bool take_ahead(Request & r);
  bool keep_ahead(u64 freed);
  void drop_ahead();
  void give_back();
  void settle(Request & r, Fate fate, std::string why = {});
  Place connect_first(std::unique_lock<std::mutex> & lock, Api api);
  Place connect_further(std::unique_lock<std::mutex> & lock, Api api);
  Place wait_for_place(std::unique_lock<std::mutex> & lock);
  void say_where_from();
  bool managed(Api api) const { return ((apis_ != 0 ? apis_ : Api::kCuda) & api) != 0; }
  u64 used() const { return used_by_[Api::kCuda] + used_by_[Api::kOpenCl]; }
  void note_peak() { peak_ = std::max(peak_, used() + variables_); }
  managed::Standing standing() const;

  void seek();
  void read_one();
  // What the Manager says (messages.cc).
  void hear(const managed::to_program::Suspend &m) { leave(m.folder); }
  void hear(const managed::to_program::Migrate &m) { come_back(m.gpu); }
  void hear(const managed::to_program::Refused &m);
  void hear(const managed::to_program::Welcome &m);
  void hear(const managed::to_program::ReportProgress &m);
  void hear(const managed::to_program::Connect &m);
  void hear(const managed::to_program::ApiAdded &m);
  void hear(const managed::to_program::GoAhead &m);
  void hear(const managed::to_program::OutOfMemory &m);
  void hear(const managed::to_program::CCheckOk &m);
  void hear(const managed::to_program::CCheckFailed &);
  void hear(const managed::to_program::Credit &m);
  void hear(const managed::to_program::RevokeCredit &);
  void hear(const managed::to_program::Signal &);
  void hear(const managed::to_program::Pong &) {}    // that something was said is all of it
  void hear(const managed::to_program::Status &) {}  // for tools
  void hear(std::monostate) {}
  void answer_signal();
  bool reports() const;
  void report();
  bool may_leave();
  bool is_here() const;
  void leave(const std::string &folder);
  Result<u64> suspend(const std::string &folder);
  void complain(bool &said, const char *what, const std::string &why);
  void come_back(const std::string &gpu);
  Result<> wake(const std::string &gpu);
  void come_back_alone();

  agent::Lifecycle &life_;
  std::mutex mutex_;  // all below, but what only the agent's thread changes
  std::condition_variable changed_;
  agent::OwnFd socket_;  // only the agent's thread opens and closes it
  Link link_ = Link::Off;
  bool alone_ = true;  // nobody waits for the Manager
  Heartbeat liveness_;
  bool silent_ = false;               // it was given up, and the hang-up is ours
  managed::to_manager::Join joined_;  // what was said of this program
  std::mutex connecting_;             // one API at a time; before mutex_
  std::optional<Request> place_;      // a connect() that waits
  u32 further_ = 0;                   // … for this API, beside those that the Manager knows of
  u32 apis_ = 0;                      // that it knows of
  u32 holder_ = 0;
  std::map<u32, Request> requests_;
  u32 next_ticket_ = 1;

  std::string gpu_;
  u64 variables_ = 0, kept_ = 0;
  std::array<u64, managed::kAllApis> used_by_{};  // by API
  u64 peak_ = 0;                                  // bytes that it had at most, with its variables
  u64 told_ = 0;                                  // of their sum
  // What it was given ahead: in all, still to be taken, and being taken.
  u64 ahead_ = 0, left_ = 0, taking_ = 0;
  bool recalled_ = false;  // it is to be given back
  bool exclusive_ = false, on_disk_ = false;
  bool ready_ = false, signalled_ = false;
  bool context_ = false, context_seen_ = false;
  bool leaving_ = false;  // from the Manager's word on, until it is done or could not be
  bool evicted_ = false;  // suspended by the Manager's word
  bool said_cannot_leave_ = false, said_cannot_return_ = false;  // since it last could
  std::optional<u64> context_cost_;
  std::optional<u64> kind_;  // of program, once anybody wanted to know

  std::chrono::milliseconds report_every_{0};  // 0: nobody wants to know
  Clock::time_point next_report_{};
  u64 calls_ = 0;
  u32 counted_ = 0;  // of them, as the participants last told

  Clock::time_point born_ = Clock::now(), lost_at_ = born_;
  Clock::time_point next_try_{}, next_return_{}, check_again_{};
  std::optional<std::chrono::milliseconds> grace_;  // none: no Manager has told it
};

// The Manager's side of this process; null where the program is not managed (ckpt-run --managed).
[[gnu::visibility("default")]] ManagerClient *get();

}  // namespace ckpt::manager_client
