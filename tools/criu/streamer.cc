// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/streamer.h"

#include <sys/socket.h>
#include <unistd.h>

#include "common/ipc/unix_socket.h"

namespace ckpt::tools::streamer {
namespace {

constexpr u32 kMaxRequestBytes = 4096;
constexpr u8 kFilenameTag = 1 << 3 | 2;  // field 1, length-delimited
constexpr u8 kExistsTag = 1 << 3 | 0;    // field 1, varint

Result<u64> varint(Reader &in) {
  u64 value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    u8 byte = in.get<u8>();
    value |= static_cast<u64>(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return in.ok() ? Result<u64>(value) : fail("CRIU sent an incomplete request");
  }
  return fail("CRIU sent a malformed request");
}

}  // namespace

Result<std::string> parse_request(ByteView message) {
  Reader in(message);
  if (in.get<u8>() != kFilenameTag) return fail("CRIU sent a request of an unknown type");
  CKPT_TRY(u64 length, varint(in));
  ByteView name = in.raw(length);
  if (!in.done() || name.empty()) return fail("CRIU sent a malformed request");
  return std::string(text(name));
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
