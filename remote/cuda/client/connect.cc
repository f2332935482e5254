// SPDX-License-Identifier: Apache-2.0
//
// How the link finds the server: through the session keeper, which starts ckpt-remote-proxy. That
// process connects to ckpt-devd. Without TLS it passes its socket on; otherwise it stands between,
// so that neither TLS nor the user's key is in the program.
#include <fcntl.h>
#include <unistd.h>

#include "agent/participant/participant.h"
#include "agent/protocol.h"
#include "common/ipc/unix_socket.h"
#include "remote/cuda/client/link.h"

namespace ckpt::remote::cuda {
namespace {

using protocol::Type;

constexpr std::chrono::seconds kTimeout{60};

Result<UniqueFd> ask_keeper() {
  std::string session = agent::session_socket();
  if (session.empty()) return fail_with_hint("no session", "start the program with ckpt-run");
  CKPT_TRY(UniqueFd socket, connect_unix(session));
  CKPT_CHECK(set_receive_timeout(socket.get(), kTimeout));
  UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  bool closed = ::fcntl(STDERR_FILENO, F_GETFD) < 0;
  int streams[] = {null.get(), closed ? null.get() : STDERR_FILENO};
  Writer w;
  w.put(protocol::kVersion).str("cuda");
  CKPT_CHECK(send_message(socket.get(), static_cast<u16>(Type::ProxyWanted), w.bytes(), streams));
  CKPT_TRY(std::optional<Message> answer, receive_message(socket.get()));
  if (!answer) return fail("ckpt-remote-proxy has ended; its own message says why");
  if (answer->type != static_cast<u16>(Type::Ok)) return fail("{}", answer->reader().str());
  if (!answer->fds.empty()) return std::move(answer->fds[0]);
  CKPT_CHECK(set_receive_timeout(socket.get(), {}));
  return socket;
}

}  // namespace

Result<> Link::open() {
  CKPT_TRY(UniqueFd socket, ask_keeper());
  connection_ = std::make_unique<Connection>(std::make_unique<Stream>(std::move(socket)));
  start_threads();
  return {};
}

}  // namespace ckpt::remote::cuda
