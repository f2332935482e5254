// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <string>

#include "common/base/result.h"

namespace ckpt::manager {

// Where metrics are served: "9400" (on 127.0.0.1), "10.0.0.5:9400", "[fd00::5]:9400". No names: one
// could lead to other addresses tomorrow.
struct MetricsAddress {
  sockaddr_storage address{};
  std::string text;  // with the address, for messages

  static Result<MetricsAddress> parse(const std::string &text);
};

}  // namespace ckpt::manager
