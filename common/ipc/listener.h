// SPDX-License-Identifier: Apache-2.0
//
// The listening sockets of a service, and the connections whose peers have not been admitted yet
// (newcomers.h). A connection is handed out when its first bytes have come: one that waits costs a
// descriptor, and neither a process nor a thread.
//
//   accepted ── waiting ── has spoken: handed out ── left(): admitted by the service, or ended
//                  │               │
//                  └───────────────┴─ the time is over, or another one needs the place: expelled
//
// The listener never blocks and has no thread: the service polls its one descriptor, an epoll(7)
// instance, and calls turn(). A timer in it wakes the service when a newcomer's time is over. For
// lack of descriptors or memory it pauses, because poll(2) would report the same connection again
// at once.
#pragma once

#include <map>
#include <memory>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/ipc/newcomers.h"

namespace ckpt {

class Listener {
 public:
  using Time = Newcomers::Time;
  using Id = Newcomers::Id;
  // `of`: the service, for its log.
  static Result<std::unique_ptr<Listener>> create(std::string of, Newcomers::Limits limits);
  Listener(const Listener &) = delete;

  // A socket that listens. `door` is what its connections are marked with.
  Result<> listen(UniqueFd socket, int door = 0);
  // How many connections the service can take. Without room they wait in the queues of the sockets.
  void set_room(size_t connections);

  int fd() const { return epoll_.get(); }
  struct Connection {
    UniqueFd socket;
    Id id;
    std::string source;  // peer_source.h
    int door;
  };
  struct Expelled {
    Id id;
    std::string source;
    bool late;        // otherwise another newcomer needed its place
    bool handed_out;  // the service has the connection, and must close it
  };
  struct Turn {
    std::vector<Connection> spoke;
    std::vector<Expelled> expelled;
  };
  // To be called when fd() is readable.
  Turn turn(Time now);
  // A connection that was handed out has been admitted, or has ended.
  void left(Id id);
  // How many have been handed out and have neither left nor been expelled.
  size_t greeting() const { return newcomers_.greeting(); }

 private:
  struct Newcomer {
    UniqueFd socket;  // none: handed out
    std::string source;
    int door = 0;
  };
  struct Door {
    UniqueFd socket;
    int mark = 0;
  };
  Listener(std::string of, Newcomers::Limits limits) : of_(std::move(of)), newcomers_(limits) {}
  Result<> watch(int fd, u64 key);
  void watch_doors(bool yes);
  void accept_from(Door &door, Time now, Turn &turn);
  void pause(Time now, int error);
  void note_speech(Id id);
  void hand_out(Time now, Turn &turn);
  void expel(Id id, bool late, Turn &turn);
  void forget(Newcomer &newcomer);
  void set_timer(Time now);
  void wake_at(std::chrono::nanoseconds from_now);

  std::string of_;
  Newcomers newcomers_;
  std::map<Id, Newcomer> all_;
  std::vector<Door> doors_;
  UniqueFd epoll_, timer_;
  size_t room_ = ~size_t{0};
  bool watching_ = false;
  std::optional<Time> paused_until_, warned_at_;
};

}  // namespace ckpt
