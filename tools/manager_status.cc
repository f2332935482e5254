// SPDX-License-Identifier: Apache-2.0
#include "tools/manager_status.h"

#include "common/ipc/unix_socket.h"
#include "common/managed/messages.h"
#include "common/managed/socket.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kAnswerTimeout{10};

}  // namespace

Result<UniqueFd> connect_manager(const std::string &path) {
  Result<UniqueFd> socket = connect_unix(path.empty() ? managed::usual_socket() : path);
  if (!socket)
    return fail_with_hint(fmt::format("cannot connect to ckptd: {}", socket.error().what),
                          "start ckptd, or name its socket with --socket or CKPTD_SOCKET");
  CKPT_CHECK(set_receive_timeout(socket->get(), kAnswerTimeout));
  return socket;
}

Result<json> manager_status(int socket) {
  managed::ToManager question = managed::to_manager::StatusWanted{managed::kVersion};
  CKPT_CHECK(send_message(socket, managed::number_of(question), managed::encode(question).bytes()));
  CKPT_TRY(std::optional<Message> m, receive_message(socket, managed::kMaxStatusBytes));
  if (!m)
    return fail_with_hint("ckptd closed the connection", "see the log of ckptd, and try again");
  CKPT_TRY(managed::ToProgram answer, managed::decode_to_program(m->type, m->body));
  if (auto *no = std::get_if<managed::to_program::Refused>(&answer))
    return fail_with_hint(no->what, no->hint);
  auto *status = std::get_if<managed::to_program::Status>(&answer);
  json j = status ? json::parse(status->json, nullptr, false) : json();
  if (!j.is_object())
    return fail_with_hint("cannot parse the answer of ckptd",
                          "use ckptd and tools of the same version of ckpt");
  return j;
}

}  // namespace ckpt::tools
