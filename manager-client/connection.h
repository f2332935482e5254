// SPDX-License-Identifier: Apache-2.0
//
// The connection to the Manager: found, greeted, watched and lost.
//
//   Seeking ──connected──► Greeting ──Welcome──► Joined          Off: not managed, or refused
//      ▲                      │                    │
//      └──────── lost ────────┴────────────────────┘
//
// The Manager may die. The program then waits for another one, for the grace period that the last
// one has announced. After that it is *standalone*: no thread waits any longer, an evicted program
// resumes by itself, and the client still looks for a Manager every two seconds. A Manager that
// runs but does not answer is given up in the same way (heartbeat.h).
//
// A Manager that accepts connections and hangs up, or that does not welcome the program, counts as
// none: the client waits between the attempts, and gives up after the same grace period.
//
// The client's mutex guards all of it, with one exception: only the agent's thread changes the
// socket, so that thread reads fd() and receives without the lock.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "agent/ipc/own_fd.h"
#include "common/base/clock.h"
#include "common/managed/messages.h"
#include "manager-client/heartbeat.h"

namespace ckpt::manager_client {

class Connection {
 public:
  using milliseconds = std::chrono::milliseconds;
  static constexpr milliseconds kRetryPause{50}, kStandaloneRetryPause{2000};
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  // Without a path the program is not managed.
  explicit Connection(std::string path);

  int fd() const { return socket_.get(); }  // negative: not connected
  bool joined() const { return link_ == Link::Joined; }
  bool connected() const { return link_ == Link::Joined || link_ == Link::Greeting; }
  bool seeking() const { return link_ == Link::Seeking; }
  bool standalone() const { return standalone_; }

  void send(const managed::ToManager &message);
  // Sends if the program has joined. Otherwise the next Join contains the news.
  void tell(const managed::ToManager &message);

  // How long a thread waits for a Manager that is silent.
  milliseconds patience() const;
  // If something waits for the Manager: sends a heartbeat when it is due, and shuts the socket down
  // when the Manager has been silent for too long.
  void watch(bool something_waits);
  void stop_heartbeat() { heartbeat_.stop(); }
  std::optional<Clock::time_point> next_heartbeat() const { return heartbeat_.next(); }

  // ---- the agent's thread

  Clock::time_point next_attempt() const { return seeking() ? next_attempt_ : kNever; }

  struct Attempt {
    Result<agent::OwnFd> socket;
    bool queue_full = false;
  };
  // Tries to connect. Without the lock.
  Attempt attempt() const;
  enum class Outcome : u8 { Connected, Retry, GaveUp };
  Outcome adopt(Attempt attempt);
  // Waits for one message. Without the lock.
  Result<managed::ToProgram> receive() const;
  void heard() { heartbeat_.heard(); }
  // False: the program had joined before.
  bool welcome(milliseconds grace);
  // The Manager refuses the program.
  void refuse();
  // The connection broke. True: the program is standalone from now on.
  bool lost(const std::string &why);
  // Closes the connection for a tool; false: there is none.
  bool pause();
  void resume();

 private:
  enum class Link : u8 { Off, Seeking, Greeting, Joined };
  milliseconds grace() const { return grace_.value_or(milliseconds(0)); }
  void disconnect();
  void schedule_attempt();
  bool give_up_after(milliseconds limit, const std::string &why);

  const std::string path_;
  agent::OwnFd socket_;
  Link link_;
  bool standalone_;
  Heartbeat heartbeat_;
  bool silent_ = false;  // given up because of its silence; the hang-up is ours
  Clock::time_point lost_at_ = Clock::now(), next_attempt_{};
  std::optional<milliseconds> grace_;  // no value: no Manager has announced it yet
};

}  // namespace ckpt::manager_client
