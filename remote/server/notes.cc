// SPDX-License-Identifier: Apache-2.0
#include "remote/server/notes.h"

#include "common/ipc/unix_socket.h"
#include "remote/transport/error_body.h"

namespace ckpt::remote {
namespace {

constexpr size_t kMaxAnswer = 64u << 10;

}  // namespace

Result<Bytes> ask_daemon(int daemon, Note note, ByteView body) {
  CKPT_CHECK(send_message(daemon, static_cast<u16>(note), body));
  CKPT_TRY(std::optional<Message> m, receive_message(daemon, kMaxAnswer));
  if (!m) return fail("ckpt-devd has ended");
  if (m->type == static_cast<u16>(Note::Granted)) return std::move(m->body);
  return Failure(read_error(m->reader()));
}

bool ask_for_memory(int daemon, i64 change) {
  return ask_daemon(daemon, Note::Memory, Writer().put(change).bytes()).has_value();
}

}  // namespace ckpt::remote
