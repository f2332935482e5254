// SPDX-License-Identifier: Apache-2.0
//
// Where a member of a job is reached. Every process on the network can connect; a connection is let
// in when its peer has shown the job's key. Many peers may try at a time, and none of them is
// waited for (common/ipc/listener.h), so one without the key keeps no coordinator out.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "common/ipc/listener.h"
#include "tools/job/opening.h"

namespace ckpt::tools {

class Entrance {
 public:
  // `socket` listens.
  static Result<std::unique_ptr<Entrance>> open(UniqueFd socket, const storage::Key &key);
  Entrance(const Entrance &) = delete;

  // To be polled.
  int fd() const { return epoll_.get(); }
  // Those that are let in, to be called when fd() is readable.
  std::vector<Opening> turn(Listener::Time now);

 private:
  explicit Entrance(const storage::Key &key) : key_(key) {}
  Result<> watch(int fd, u64 id);
  void begin(Listener::Connection connection);
  void end(Listener::Id id);
  // Whether it is let in; otherwise it waits, or has ended.
  bool go_on(Listener::Id id);

  storage::Key key_;
  std::unique_ptr<Listener> listener_;
  std::map<Listener::Id, Opening> openings_;
  UniqueFd epoll_;
};

}  // namespace ckpt::tools
