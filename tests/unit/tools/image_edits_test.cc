// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/image_edits.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>

#include "tools/criu/criu_file.h"

namespace ckpt::test {
using namespace tools;
namespace {

using Numbers = std::vector<std::pair<u32, u64>>;

// Numbers, and perhaps one message or text.
Bytes message(const Numbers &numbers, u32 field = 0, const Bytes &inner = {}) {
  Writer w;
  auto varint = [&w](u64 v) {
    for (; v >= 0x80; v >>= 7) w.put(static_cast<u8>(v | 0x80));
    w.put(static_cast<u8>(v));
  };
  for (auto [number, value] : numbers) {
    varint(u64{number} << 3);
    varint(value);
  }
  if (field == 0) return w.take();
  varint(u64{field} << 3 | 2);
  varint(inner.size());
  w.raw(inner.data(), inner.size());
  return w.take();
}

Bytes file(const Bytes &m) { return Writer().put<u64>(0).blob(m).take(); }

// Each message of the field in the file, after the edits.
std::vector<ProtoMessage> edited(const ImageManifest &m, const std::string &name, const Bytes &f,
                                 std::vector<u32> path, const CriuRights &rights = {}) {
  Bytes bytes = image_edits(m, GrownFiles::Refuse, rights).edited(name, f);
  std::vector<ProtoMessage> found;
  std::function<void(ProtoMessage &, size_t)> visit = [&](ProtoMessage &p, size_t depth) {
    if (depth == path.size()) return found.push_back(p);
    p.edit_each(path[depth], [&](ProtoMessage &inner) { visit(inner, depth + 1); });
  };
  (void)edit_criu_file(bytes, [&](ProtoMessage &p) { visit(p, 0); });
  return found;
}

constexpr u64 kTiB = u64{1} << 40;
constexpr u32 kVmas = 14, kStart = 1, kEnd = 2, kOffset = 3, kFlags = 6;

std::vector<ProtoMessage> pieces(u64 begin, u64 end, u64 offset, u64 flags) {
  Bytes vma = message({{kStart, begin},
                       {kEnd, end},
                       {kOffset, offset},
                       {5, PROT_READ | PROT_WRITE},
                       {kFlags, flags}});
  return edited({}, "mm-10.img", file(message({}, kVmas, vma)), {kVmas});
}

TEST_CASE("a huge private mapping is made of pieces next to each other") {
  for (u64 flags : {u64{MAP_PRIVATE | MAP_ANONYMOUS}, u64{MAP_PRIVATE}}) {
    u64 begin = 0x1000, at = begin, offset = 0x5000;
    std::vector<ProtoMessage> all = pieces(begin, begin + 9 * kTiB, offset, flags);
    REQUIRE(all.size() == 3);
    for (const ProtoMessage &p : all) {
      CHECK(p.number(kStart) == at);
      CHECK(p.number(kOffset) == ((flags & MAP_ANONYMOUS) ? offset : offset + (at - begin)));
      CHECK(p.number(kEnd) - at <= 4 * kTiB);
      CHECK(p.number(kFlags) == flags);
      at = p.number(kEnd);
    }
    CHECK(at == begin + 9 * kTiB);
  }
}

TEST_CASE("other mappings stay whole") {
  CHECK(pieces(0x1000, 0x1000 + 4 * kTiB, 0, MAP_PRIVATE | MAP_ANONYMOUS).size() == 1);
  CHECK(pieces(0x1000, 0x1000 + 9 * kTiB, 0, MAP_SHARED).size() == 1);
  CHECK(pieces(9 * kTiB, 0x1000, 0, MAP_PRIVATE).size() == 1);
}

ImageManifest with_threads(std::vector<pid_t> threads) {
  ImageManifest m;
  m.processes.push_back({10, 10, 10, std::move(threads), false, {}});
  return m;
}

TEST_CASE("the timer of a thread that has ended makes no signal") {
  constexpr u32 kNotify = 4, kThread = 11;
  for (u64 thread : {11, 12}) {
    Bytes timer = message({{1, 0}, {kNotify, SIGEV_THREAD_ID}, {kThread, thread}});
    Bytes core = message({{1, 1}}, 3, message({{1, 1}}, 7, message({}, 4, timer)));
    std::vector<ProtoMessage> timers =
        edited(with_threads({10, 11}), "core-10.img", file(core), {3, 7, 4});
    REQUIRE(timers.size() == 1);
    bool lives = thread == 11;
    CHECK(timers[0].number(kNotify) == (lives ? SIGEV_THREAD_ID : SIGEV_NONE));
    CHECK(timers[0].number(kThread) == (lives ? 11 : 0));
  }
}

// Of process 10 with the threads 10 and 11.
ProtoMessage edited_timer(ImageManifest m, i32 clock, u64 notify, u64 thread) {
  Bytes timer = message(
      {{1, 0}, {2, static_cast<u32>(clock)}, {3, SIGPROF}, {4, notify}, {9, 5}, {11, thread}});
  Bytes core = message({{1, 1}}, 3, message({{1, 1}}, 7, message({}, 4, timer)));
  return edited(m, "core-10.img", file(core), {3, 7, 4}).at(0);
}

i32 clock_of(const ProtoMessage &timer) { return static_cast<i32>(timer.number(2)); }

TEST_CASE("a timer on the CPU clock of a thread or process that has ended never expires") {
  ImageManifest m = with_threads({10, 11});
  m.processes.push_back({20, 10, 10, {20}, false, {}, true});
  for (i32 clock : {~12 * 8 + 6, ~20 * 8 + 2}) {
    ProtoMessage t = edited_timer(m, clock, SIGEV_SIGNAL, 0);
    CHECK(clock_of(t) == CLOCK_MONOTONIC);
    CHECK(t.number(4) == SIGEV_NONE);
    CHECK(t.number(9) == 0);
  }
  for (i32 clock : {~11 * 8 + 6, ~10 * 8 + 2, -6, CLOCK_MONOTONIC}) {
    ProtoMessage t = edited_timer(m, clock, SIGEV_SIGNAL, 0);
    CHECK(clock_of(t) == clock);
    CHECK(t.number(9) == 5);
  }
}

TEST_CASE("a timer on a thread's own CPU clock is of the thread that is notified") {
  ProtoMessage t = edited_timer(with_threads({10, 11}), -2, SIGEV_THREAD_ID, 11);
  CHECK(clock_of(t) == ~11 * 8 + 6);
  CHECK(t.number(4) == SIGEV_THREAD_ID);
  CHECK(clock_of(edited_timer(with_threads({10, 11}), -2, SIGEV_SIGNAL, 0)) == -2);
}

TEST_CASE("a renamed socket is bound to its present name") {
  Bytes old(4, std::byte{'o'});
  ImageManifest m = with_threads({10});
  m.renamed_sockets = {{77, "/new"}};
  for (u64 inode : {77, 78}) {
    Bytes socket = message({{2, inode}, {15, 1}}, 11, old);
    std::vector<ProtoMessage> found =
        edited(m, "files.img", file(message({{1, 5}}, 16, socket)), {16});
    REQUIRE(found.size() == 1);
    std::string name(text(found[0].bytes(11)));
    CHECK(name == (inode == 77 ? std::string("/new\0", 5) : "oooo"));
    CHECK(found[0].number(15) == (inode == 77 ? 0 : 1));
  }
}

TEST_CASE("a user's socket whose file is gone gets no other owner") {
  constexpr u32 kPermissions = 13, kUid = 2, kGid = 3;
  for (u64 owner : {0, 1000}) {
    Bytes socket = message({{2, 77}}, kPermissions, message({{1, 0755}, {kUid, owner}, {kGid, 5}}));
    CriuRights rights{.way = CriuRights::Way::Helper};
    rights.user.uid = rights.user.gid = 1000;
    std::vector<ProtoMessage> found =
        edited({}, "files.img", file(message({{1, 5}}, 16, socket)), {16, kPermissions}, rights);
    REQUIRE(found.size() == 1);
    CHECK(found[0].number(kUid) == 1000);
    CHECK(found[0].number(kGid) == (owner == 0 ? 1000 : 5));
  }
}

TEST_CASE("a user's terminal keeps the owner that the kernel gives to it") {
  constexpr u32 kUid = 14, kGid = 15;
  Bytes terminal = file(message({{1, 3}, {kUid, 1000}, {kGid, 5}}));
  std::vector<ProtoMessage> users =
      edited({}, "tty-info.img", terminal, {}, {.way = CriuRights::Way::Helper});
  REQUIRE(users.size() == 1);
  CHECK(users[0].number(kUid) == ~u32{0});
  CHECK(users[0].number(kGid) == ~u32{0});
  for (auto [way, wanted] :
       {std::pair{CriuRights::Way::Root, false}, std::pair{CriuRights::Way::ForUser, true}})
    CHECK(image_edits({}, GrownFiles::Refuse, {.way = way}).wanted("tty-info.img") == wanted);
}

}  // namespace
}  // namespace ckpt::test
