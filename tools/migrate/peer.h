// SPDX-License-Identifier: Apache-2.0
//
// The other machine: ckpt-migrate --receive, started there by ssh or another --rsh.
#pragma once

#include <sys/types.h>

#include <memory>

#include "tools/migrate/frame_link.h"
#include "tools/migrate/messages.h"
#include "tools/migrate/move_options.h"

namespace ckpt::tools {

class Peer {
 public:
  // Starts it and greets it. It serves the migration of this number.
  static Result<std::unique_ptr<Peer>> connect(const MoveOptions &o, const std::string &number,
                                               FrameLink::Check check);
  // Hangs up, and waits a moment for the end of ssh.
  ~Peer();

  FrameLink &link() { return link_; }
  const Welcome &welcome() const { return welcome_; }

 private:
  Peer(pid_t rsh, FrameLink link) : rsh_(rsh), link_(std::move(link)) {}
  Result<> greet(const MoveOptions &o, const std::string &number);

  pid_t rsh_;
  FrameLink link_;
  Welcome welcome_;
};

std::string this_host();

}  // namespace ckpt::tools
