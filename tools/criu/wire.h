// SPDX-License-Identifier: Apache-2.0
//
// The frames between CRIU and an image streamer, and the few bytes of protobuf in them.
#pragma once

#include <optional>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools::streamer {

// The name in a request; no value: CRIU has hung up.
Result<std::optional<std::string>> receive_request(int socket);
Result<> send_reply(int socket, bool exists);
Result<UniqueFd> receive_pipe(int socket);

// { string filename = 1 }; takes any bytes.
Result<std::string> parse_request(ByteView message);

}  // namespace ckpt::tools::streamer
