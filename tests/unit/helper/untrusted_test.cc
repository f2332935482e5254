// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-helper reads from callers: requests, and the files of an image that name capabilities.
#include <doctest/doctest.h>

#include "helper/protocol.h"
#include "helper/status.h"
#include "helper/vetting.h"

using namespace ckpt;
using namespace ckpt::helper;

namespace {

// A field of a message of protocol buffers.
Bytes field(u32 number, ByteView content) {
  Writer w;
  w.put<u8>(static_cast<u8>(number << 3 | 2)).put<u8>(static_cast<u8>(content.size()));
  w.raw(content.data(), content.size());
  return w.take();
}

Bytes integer(u32 number, u8 value) {
  Writer w;
  u32 tag = number << 3;
  if (tag >= 0x80) w.put<u8>(static_cast<u8>(tag | 0x80)).put<u8>(static_cast<u8>(tag >> 7));
  if (tag < 0x80) w.put<u8>(static_cast<u8>(tag));
  w.put<u8>(value);
  return w.take();
}

Bytes operator+(Bytes a, const Bytes &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr u32 kThread = 5, kCreds = 10, kTask = 3;

Bytes core_file(const Bytes &core) {
  Writer w;
  w.put<u64>(0).blob(core);
  return w.take();
}

Bytes with_creds(const Bytes &creds) {
  return core_file(integer(1, 1) + field(kThread, integer(1, 0) + field(kCreds, creds)));
}

Message frame_of(Type type, Writer body) { return {static_cast<u16>(type), body.take(), {}}; }

}  // namespace

TEST_CASE("a core file without capabilities is passed on") {
  Bytes bounding = integer(12, 0x7f);
  CHECK(check_core_file(with_creds(integer(1, 100) + integer(10, 0) + bounding)));
  CHECK(check_core_file(with_creds(field(9, Bytes(2, std::byte{0})))));
}

TEST_CASE("a core file with a capability in any set, in any form is refused") {
  for (u32 set : {9u, 10u, 11u, 19u}) {
    CHECK(!check_core_file(with_creds(integer(set, 1))));
    CHECK(!check_core_file(with_creds(integer(set, 0) + integer(set, 1))));
  }
  CHECK(!check_core_file(with_creds(field(10, Bytes(1, std::byte{1})))));
  // A decoder merges two messages of one field.
  Bytes twice =
      field(kThread, field(kCreds, integer(10, 0))) + field(kThread, field(kCreds, integer(10, 1)));
  CHECK(!check_core_file(core_file(twice)));
}

TEST_CASE("a core file that leaves CRIU's own capabilities in place is refused") {
  CHECK(!check_core_file(core_file(integer(1, 1))));
  CHECK(!check_core_file(core_file(field(kThread, integer(1, 0)))));
  CHECK(!check_core_file(core_file(field(kTask, integer(1, 1)))));
  // A zombie runs nothing.
  CHECK(check_core_file(core_file(field(kTask, integer(1, 2)))));
  CHECK(!check_core_file(core_file(field(kTask, integer(1, 2)) + field(kTask, integer(1, 1)))));
}

TEST_CASE("what two decoders could read differently is refused") {
  Bytes sound = with_creds(integer(10, 0));
  for (size_t n = 0; n < sound.size(); n++) CHECK(!check_core_file(ByteView(sound).first(n)));
  CHECK(!check_core_file(sound + Bytes(1, std::byte{0})));
  // A group (wire type 3) has no length of its own.
  CHECK(!check_core_file(core_file(Bytes(1, std::byte{kThread << 3 | 3}))));
}

TEST_CASE("a request is refused unless all of it is sound") {
  Request request;
  CHECK(!add_frame(request, frame_of(Type::Dump, Writer().put<i32>(7).put<u8>(0))));  // no log
  CHECK(!add_frame(request, frame_of(Type::Inherit, Writer())));
  CHECK(!add_frame(request, frame_of(Type::Streams, Writer())));
  Message frame = frame_of(Type::Dump, Writer().put<i32>(1).put<u8>(0));
  frame.fds.emplace_back(::dup(0));
  CHECK(!add_frame(request, std::move(frame)));  // PID 1
  frame = frame_of(Type::Dump, Writer().put<i32>(7).put<u8>(0));
  frame.fds.emplace_back(::dup(0));
  Result<bool> complete = add_frame(request, std::move(frame));
  CHECK((complete && *complete && request.root == 7));
}

TEST_CASE("a status file without one of its fields is not understood") {
  Result<Status> own = read_status(::getpid());
  REQUIRE(own);
  CHECK(own->has_uid(::getuid()));
  CHECK(!parse_status("Uid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\n"));
  CHECK(!parse_status(""));
}
