// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/keeper_link.h"

#include <chrono>

#include "agent/protocol.h"
#include "common/ipc/unix_socket.h"
#include "tools/proc/process_root.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

Result<> ask_keeper(int fd, protocol::Type type, const std::string &image,
                    const std::optional<std::string> &host = {}) {
  Writer body;
  body.str(image);
  if (host) body.str(*host);
  CKPT_CHECK(send_message(fd, static_cast<u16>(type), body.bytes()));
  CKPT_CHECK(set_receive_timeout(fd, 10s));
  CKPT_TRY(std::optional<Message> m, receive_message(fd));
  if (!m) return fail("the session keeper closed the connection without an answer");
  if (static_cast<protocol::Type>(m->type) == protocol::Type::Ok) return {};
  Reader r = m->reader();
  return fail("{}", r.str());
}

}  // namespace

Result<> KeeperLink::announce(const Target &target, const std::string &image) {
  CKPT_TRY(connection_, connect_unix_of(target.keeper, target.session_socket));
  return ask_keeper(connection_.get(), protocol::Type::DumpBegin, image);
}

Result<> KeeperLink::tell_end(const std::string &image, const std::optional<std::string> &host) {
  return ask_keeper(connection_.get(), protocol::Type::DumpDone, image, host);
}

void tell_keeper_of_image(const Target &target, const std::string &image) {
  Result<UniqueFd> keeper = connect_unix_of(target.keeper, target.session_socket);
  if (keeper) (void)ask_keeper(keeper->get(), protocol::Type::ImageWritten, image);
}

}  // namespace ckpt::tools
