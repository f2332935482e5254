// SPDX-License-Identifier: Apache-2.0
//
// The connection by which a dump tells the keeper of the program what it does. While it is open,
// the keeper continues the program if this process ends.
#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class KeeperLink {
 public:
  // A dump of its program into `image` begins.
  Result<> announce(const Target &target, const std::string &image);
  // The image is complete, and the program will be ended, so that the keeper reports a checkpoint.
  // `host`: the machine to which the program is moved.
  Result<> tell_end(const std::string &image, const std::optional<std::string> &host);
  void close() { connection_.reset(); }
  int descriptor() const { return connection_.get(); }

 private:
  UniqueFd connection_;
};

// The image of a program that goes on is complete. By a connection of its own: an older keeper
// refuses the request and closes it.
void tell_keeper_of_image(const Target &target, const std::string &image);

}  // namespace ckpt::tools
