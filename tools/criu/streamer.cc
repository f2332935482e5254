// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/streamer.h"

#include <sys/socket.h>
#include <unistd.h>

#include "common/base/proto_fields.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::tools::streamer {
namespace {

constexpr u32 kMaxRequestBytes = 4096;
constexpr u8 kExistsTag = 1 << 3 | 0;  // field 1, varint

}  // namespace

// One field, of which the message consists.
Result<std::string> parse_request(ByteView message) {
  constexpr u32 kFilename = 1, kBytes = 2;
  ProtoFields fields(message);
  std::optional<ProtoField> name = fields.next();
  if (name && (name->number != kFilename || name->type != kBytes))
    return fail("CRIU sent a request of an unknown type");
  if (!name || name->bytes.empty() || fields.next() || !fields.sound())
    return fail("CRIU sent a malformed request");
  return std::string(text(name->bytes));
}

Result<std::optional<std::string>> receive_request(int socket) {
  u32 size = 0;
  ssize_t n;
  while ((n = ::recv(socket, &size, sizeof size, MSG_PEEK | MSG_WAITALL)) < 0 && errno == EINTR) {
  }
  if (n == 0 || (n < 0 && errno == ECONNRESET)) return std::nullopt;
  CKPT_CHECK(read_exactly(socket, &size, sizeof size));
  if (size > kMaxRequestBytes)
    return fail("CRIU announced a request of {} bytes, more than {}", size, kMaxRequestBytes);
  Bytes message(size);
  CKPT_CHECK(read_exactly(socket, message.data(), size));
  CKPT_TRY(std::string name, parse_request(message));
  return name;
}

Result<> send_reply(int socket, bool exists) {
  Writer w;
  w.put<u32>(2).put<u8>(kExistsTag).put<u8>(exists);
  return write_all(socket, w.bytes());
}

}  // namespace ckpt::tools::streamer
