// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/initialised_devices.h"

#include <fcntl.h>

#include "agent/participant/participant.h"
#include "agent/protocol.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::cuda {
namespace {

using protocol::Type;

// A driver that hangs in cuInit must not keep the program waiting.
constexpr std::chrono::seconds kTimeout{60};

}  // namespace

Result<UniqueFd> keep_devices_initialised() {
  CKPT_TRY(UniqueFd proxy, connect_unix(agent::session_socket()));
  CKPT_CHECK(set_receive_timeout(proxy.get(), kTimeout));
  UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Writer w;
  w.put(protocol::kVersion).str("cuda");
  int streams[] = {null.get(), null.get()};
  CKPT_CHECK(send_message(proxy.get(), static_cast<u16>(Type::ProxyWanted), w.bytes(), streams));
  CKPT_TRY(std::optional<Message> answer, receive_message(proxy.get()));
  if (answer && answer->type == static_cast<u16>(Type::Ok)) return proxy;
  return fail("no other process could initialise the CUDA devices");
}

}  // namespace ckpt::cuda
