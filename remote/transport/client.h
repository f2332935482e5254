// SPDX-License-Identifier: Apache-2.0
//
// The client's first frames: a connection to a ckpt-devd that has answered.
#pragma once

#include <memory>
#include <string>

#include "remote/transport/address.h"
#include "remote/transport/connection.h"

namespace ckpt::remote {

struct Wanted {
  Purpose purpose = Purpose::List;
  std::string devices;  // IDs on that node, separated by commas; empty: all
  bool portable = false;
  std::string question;  // of a check: what it reads
};

struct Admitted {
  std::unique_ptr<Connection> connection;
  int exit_code = 0;  // of Frame::Answer
  Bytes body;         // of Frame::Greeting, or the text of Frame::Answer
};

// Fails within half a minute if the server does not answer, and with its words if it refuses.
Result<Admitted> ask_server(const Address &address, const Wanted &wanted);

}  // namespace ckpt::remote
