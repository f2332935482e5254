// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-helper reads from callers: requests, and the files of an image that name capabilities.
#include <doctest/doctest.h>

#include "helper/core_file.h"
#include "helper/protocol.h"
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

constexpr u32 kUid = 1, kSavedGid = 6, kSecurebits = 13, kGroups = 14;

// What CRIU always writes: eight ids, and the securebits.
Bytes required(u32 without = 0) {
  Bytes all;
  for (u32 id = kUid; id <= 8; id++)
    if (id != without) all = std::move(all) + integer(id, id % 2 ? 100 : 101);
  return without == kSecurebits ? all : std::move(all) + integer(kSecurebits, 0);
}

Bytes thread_of(const Bytes &creds) { return field(kThread, integer(1, 0) + field(kCreds, creds)); }
Bytes with_creds(const Bytes &creds) { return core_file(integer(1, 1) + thread_of(creds)); }

ThreadIdentity identity_of(const Bytes &creds) {
  auto identity = identity_in_core(with_creds(creds));
  REQUIRE((identity && *identity));
  return **identity;
}

Message frame_of(Type type, Writer body) { return {static_cast<u16>(type), body.take(), {}}; }

}  // namespace

TEST_CASE("a core file without capabilities is passed on") {
  Bytes bounding = integer(12, 0x7f);
  CHECK(check_core_file(with_creds(required() + integer(10, 0) + bounding)));
  CHECK(check_core_file(with_creds(required() + field(9, Bytes(2, std::byte{0})))));
}

TEST_CASE("a core file with a capability in any set, in any form is refused") {
  for (u32 set : {9u, 10u, 11u, 19u}) {
    CHECK(!check_core_file(with_creds(required() + integer(set, 1))));
    CHECK(!check_core_file(with_creds(required() + integer(set, 0) + integer(set, 1))));
  }
  CHECK(!check_core_file(with_creds(required() + field(10, Bytes(1, std::byte{1})))));
  CHECK(!check_core_file(with_creds(required() + field(10, Bytes(3, std::byte{0})))));
  // A decoder merges two messages of one field.
  Bytes none = required() + integer(10, 0), one = required() + integer(10, 1);
  CHECK(!check_core_file(core_file(thread_of(none) + thread_of(one))));
  CHECK(!check_core_file(
      core_file(field(kThread, field(kCreds, none) + field(kCreds, integer(10, 1))))));
}

TEST_CASE("the identity in a core file is the one that CRIU gives to the thread") {
  ThreadIdentity t =
      identity_of(required() + integer(9, 1) + integer(10, 2) + integer(11, 4) +
                  integer(kGroups, 4) + integer(kGroups, 24) + integer(19, 0) + integer(19, 8));
  CHECK(t.uids == std::array<uid_t, 4>{100, 100, 100, 100});
  CHECK(t.gids == std::array<gid_t, 4>{101, 101, 101, 101});
  CHECK(t.groups == std::vector<gid_t>{4, 24});
  CHECK(t.inheritable == 1);
  CHECK(t.permitted == 2);
  CHECK(t.effective == 4);
  CHECK(t.ambient == u64{8} << 32);
  t = identity_of(required(kSavedGid) + integer(kSavedGid, 7));
  CHECK(t.gids == std::array<gid_t, 4>{101, 101, 7, 101});
  CHECK(identity_of(required(kSecurebits) + integer(kSecurebits, 0x2f)).securebits == 0x2f);
}

TEST_CASE("a core file with an id that is missing, twice or too large is refused") {
  for (u32 id : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, kSecurebits}) {
    CHECK(!identity_in_core(with_creds(required(id))));
    CHECK(!identity_in_core(with_creds(required() + integer(id, 0))));
    CHECK(!identity_in_core(with_creds(required(id) + field(id, Bytes(1, std::byte{0})))));
    Bytes large = integer(id, 0x80);
    for (u8 byte : {0x80, 0x80, 0x80, 0x10}) large.push_back(std::byte{byte});
    CHECK(!identity_in_core(with_creds(required(id) + large)));
  }
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
  Bytes sound = with_creds(required() + integer(10, 0));
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
  for (Type later : {Type::Userfaultfd, Type::Enough})
    CHECK(!add_frame(request, frame_of(later, Writer())));
  CHECK(!add_frame(request, frame_of(Type::Lazy, Writer().put<u8>(0))));
  CHECK(add_frame(request, frame_of(Type::Lazy, Writer())).value());
  Message frame = frame_of(Type::Dump, Writer().put<i32>(1).put<u8>(0));
  frame.fds.emplace_back(::dup(0));
  CHECK(!add_frame(request, std::move(frame)));  // PID 1
  frame = frame_of(Type::Dump, Writer().put<i32>(7).put<u8>(0));
  frame.fds.emplace_back(::dup(0));
  Result<bool> complete = add_frame(request, std::move(frame));
  CHECK((complete && *complete && request.root == 7));
}
