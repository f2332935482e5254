// SPDX-License-Identifier: Apache-2.0
//
// Memory that processes share: what the broker passes on, and what a process maps.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "common/ipc/shared_memory.h"
#include "softcuda/broker/broker.h"
#include "softcuda/device/memory.h"

using namespace ckpt;
using namespace ckpt::softcuda;

namespace {

class NoLimit : public Budget {
 public:
  bool take(u32, u64 bytes) override { return used += bytes, true; }
  void give(u32, u64 bytes) override { used -= bytes; }
  u64 used = 0;
};

// A broker in a thread of its own, and connections to it.
class TestBroker {
 public:
  TestBroker() {
    REQUIRE(mkdtemp(folder_) != nullptr);
    path_ = std::string(folder_) + "/s";
    Result<UniqueFd> listener = listen_unix(path_);
    REQUIRE(listener);
    loop_ = std::thread([this, l = std::move(*listener)]() mutable {
      broker::Broker b(*broker::parse_configuration("1x64M"), std::move(l), "seed");
      CHECK(b.run());
    });
  }
  ~TestBroker() {
    loop_.join();
    unlink(path_.c_str());
    rmdir(folder_);
  }
  UniqueFd connect() { return *connect_unix(path_); }

 private:
  char folder_[32] = "/tmp/softcuda-test-XXXXXX";
  std::string path_;
  std::thread loop_;
};

// No value: the broker has closed the connection.
std::optional<Message> ask(const UniqueFd &fd, broker::Request type, const Writer &w,
                           std::span<const int> fds = {}) {
  REQUIRE(send_message(fd.get(), static_cast<u16>(type), w.bytes(), fds));
  Result<std::optional<Message>> m = receive_message(fd.get());
  return m ? std::move(*m) : std::nullopt;
}

u64 identity(const UniqueFd &fd) {
  std::optional<Message> m = ask(fd, broker::Request::Identify, {});
  REQUIRE(m);
  return m->reader().get<u64>();
}

bool is_connected(const UniqueFd &fd, u64 identity) {
  Writer w;
  w.put(identity);
  return ask(fd, broker::Request::Connected, w)->reader().get<u8>() == 1;
}

Writer id_of(const broker::ShareId &id) {
  Writer w;
  w.raw(id.data(), id.size());
  return w;
}

std::optional<Message> open(const UniqueFd &fd, const broker::ShareId &id) {
  return ask(fd, broker::Request::Open, id_of(id));
}

broker::ShareId share(const UniqueFd &fd, std::string_view text) {
  UniqueFd file = *make_memfd("test", 4096);
  Writer w;
  w.str(text);
  int raw = file.get();
  std::optional<Message> m = ask(fd, broker::Request::Share, w, {&raw, 1});
  REQUIRE(m);
  Reader r = m->reader();
  CHECK(r.get<u8>() == 1);
  std::optional<broker::ShareId> id = broker::read_share_id(r);
  REQUIRE(id);
  return *id;
}

}  // namespace

TEST_CASE("the broker passes on what a process shares, until that process withdraws it or ends") {
  TestBroker b;
  UniqueFd owner = b.connect(), other = b.connect();
  u64 of_owner = identity(owner);
  CHECK(of_owner != identity(other));
  CHECK(of_owner == identity(owner));
  broker::ShareId one = share(owner, "one"), two = share(owner, "two");
  CHECK(one != two);

  std::optional<Message> m = open(other, two);
  REQUIRE(m);
  CHECK(m->fds.size() == 1);
  Reader r = m->reader();
  CHECK(r.get<u8>() == 1);
  CHECK(r.get<u64>() == of_owner);
  CHECK(r.str() == "two");

  auto found = [&](const broker::ShareId &id) { return open(other, id)->fds.size() == 1; };
  constexpr auto kWithdraw = static_cast<u16>(broker::Request::Withdraw);
  REQUIRE(send_message(other.get(), kWithdraw, id_of(one).bytes()));  // not its own
  CHECK(found(one));
  REQUIRE(send_message(owner.get(), kWithdraw, id_of(one).bytes()));
  CHECK(identity(owner) == of_owner);  // it has been served
  CHECK_FALSE(found(one));
  CHECK(found(two));
  CHECK(is_connected(other, of_owner));
  owner.reset();
  for (int i = 0; i < 500 && found(two); ++i) usleep(1000);
  CHECK_FALSE(found(two));
  CHECK_FALSE(is_connected(other, of_owner));
  CHECK_FALSE(found(broker::ShareId{}));
}

TEST_CASE(
    "the broker disconnects a client after a malformed share or open, and serves the others") {
  TestBroker b;
  UniqueFd good = b.connect();
  broker::ShareId id = share(good, "good");
  UniqueFd file = *make_memfd("test", 4096);
  int fds[] = {file.get(), file.get()};
  Writer description, too_long, cut, more;
  description.str("text");
  too_long.str(std::string(broker::kMaxDescription + 1, 'x'));
  cut.put<u32>(100).put<u8>(1);
  more.str("text").put<u8>(0);
  using broker::Request;
  auto closed = [&](Request type, const Writer &w, size_t n) {
    UniqueFd bad = b.connect();
    return !ask(bad, type, w, {fds, n});
  };
  CHECK(closed(Request::Share, description, 0));
  CHECK(closed(Request::Share, description, 2));
  CHECK(closed(Request::Share, too_long, 1));
  CHECK(closed(Request::Share, cut, 1));
  CHECK(closed(Request::Share, more, 1));
  CHECK(closed(Request::Open, cut, 0));
  CHECK(closed(Request::Open, too_long, 0));
  CHECK(closed(Request::Withdraw, cut, 0));
  CHECK(closed(Request::Connected, cut, 0));
  CHECK(open(good, id)->fds.size() == 1);
}

TEST_CASE("there is a limit to what processes share") {
  broker::Shares shares(2);
  auto add = [&](u64 owner) {
    broker::Share s;
    s.owner = owner;
    return shares.add(std::move(s));
  };
  REQUIRE(add(1));
  REQUIRE(add(2));
  CHECK_FALSE(add(1));
  shares.withdraw_all(1);
  CHECK(add(3));
}

TEST_CASE("shared device memory keeps its contents and addresses, and is the importer's memory") {
#if defined(__SANITIZE_THREAD__)
  MESSAGE("SKIPPED: device memory (ThreadSanitizer leaves too little address space)");
  return;
#endif
  NoLimit budget;
  Memory memory(budget), importer(budget);
  std::vector<u64> released;
  memory.on_release_of_exported = [&](u64 id) { released.push_back(id); };
  auto allocate = [&](u64 bytes) {
    return *memory.allocate(0, bytes, MemoryKind::Device, nullptr);
  };
  Allocation small = allocate(1000), neighbour = allocate(1000), large = allocate(3 << 20);
  std::snprintf(memory.host(small.base, 10), 10, "small");
  std::snprintf(memory.host(neighbour.base, 10), 10, "next");
  std::snprintf(memory.host(large.base + (2 << 20), 10), 10, "large");
  for (const Allocation &a : {large, small, neighbour}) {
    u64 used = budget.used;
    auto shared = memory.share(a.base);
    REQUIRE(shared);
    CHECK_FALSE(memory.share(a.base));
    CHECK(std::string(memory.host(small.base, 10)) == "small");
    CHECK(std::string(memory.host(neighbour.base, 10)) == "next");
    CHECK(std::string(memory.host(large.base + (2 << 20), 10)) == "large");
    std::optional<Allocation> mapped =
        importer.import(shared->first.get(), shared->second, 0, nullptr);
    REQUIRE(mapped);
    CHECK(budget.used == used);
    CHECK(mapped->bytes == a.bytes);
    CHECK(importer.find(mapped->base - 1) == std::nullopt);
    std::snprintf(importer.host(mapped->base + 512, 10), 10, "written");
    CHECK(std::string(memory.host(a.base + 512, 10)) == "written");
    CHECK(importer.release(mapped->base, MemoryKind::Imported));
    CHECK(importer.find(mapped->base) == std::nullopt);
  }
  // Without sharing, and after a checkpoint, the memory is private again.
  for (const Allocation &a : {large, small}) CHECK(memory.release(a.base, MemoryKind::Device));
  CHECK(released == std::vector<u64>{large.id, small.id});
  REQUIRE(memory.save_device_memory());
  REQUIRE(memory.restore_device_memory());
  CHECK(std::string(memory.host(neighbour.base, 10)) == "next");
  Allocation fresh = allocate(1000);
  auto shared = memory.share(fresh.base);
  REQUIRE(shared);
  std::optional<Allocation> mapped =
      importer.import(shared->first.get(), shared->second, 0, nullptr);
  REQUIRE(mapped);
  std::snprintf(importer.host(mapped->base, 10), 10, "fresh");
  CHECK(std::string(memory.host(fresh.base, 10)) == "fresh");
  for (const Allocation &a : {fresh, neighbour}) CHECK(memory.release(a.base, MemoryKind::Device));
  CHECK(released.back() == neighbour.id);
  CHECK(budget.used == 0);
}

TEST_CASE("memory of another process is mapped only if it is what it should be") {
#if defined(__SANITIZE_THREAD__)
  MESSAGE("SKIPPED: device memory (ThreadSanitizer leaves too little address space)");
  return;
#endif
  NoLimit budget;
  Memory memory(budget);
  UniqueFd file = *make_memfd("test", 2 * kGranuleBytes);
  UniqueFd loose(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(loose.get(), 2 * kGranuleBytes) == 0);
  const SharedPart good{2 * kGranuleBytes, kGranuleBytes, 1000, 1024};
  auto fails = [&](const std::function<void(SharedPart &)> &change, int fd) {
    SharedPart part = good;
    change(part);
    return !memory.import(fd, part, 0, nullptr);
  };
  int fd = file.get();
  CHECK_FALSE(fails([](SharedPart &) {}, fd));
  CHECK(fails([](SharedPart &) {}, loose.get()));  // it can shrink
  CHECK(fails([](SharedPart &) {}, -1));
  CHECK(fails([](SharedPart &p) { p.file_bytes = 4 * kGranuleBytes; }, fd));
  CHECK(fails([](SharedPart &p) { p.file_bytes = 0; }, fd));
  CHECK(fails([](SharedPart &p) { p.file_bytes -= 4096; }, fd));
  CHECK(fails([](SharedPart &p) { p.offset = 2 * kGranuleBytes; }, fd));
  CHECK(fails([](SharedPart &p) { p.offset = ~u64{511}; }, fd));
  CHECK(fails([](SharedPart &p) { p.offset += 8; }, fd));
  CHECK(fails([](SharedPart &p) { p.reserved = kGranuleBytes + 1; }, fd));
  CHECK(fails([](SharedPart &p) { p.bytes = 1025; }, fd));
  CHECK(fails([](SharedPart &p) { p.bytes = 0; }, fd));
}

TEST_CASE("memory in a file counts once, as long as a process has it") {
  using broker::Request;
  static constexpr u64 kBytes = 40u << 20, kAll = 64u << 20, kFile = 7;
  TestBroker b;
  UniqueFd first = b.connect(), second = b.connect();
  auto tell = [](const UniqueFd &fd, Request type, const Writer &w) {
    REQUIRE(send_message(fd.get(), static_cast<u16>(type), w.bytes()));
  };
  auto free_bytes = [](const UniqueFd &fd) {
    std::optional<Message> m = ask(fd, Request::Info, Writer().put(u32{0}));
    REQUIRE(m);
    Reader r = m->reader();
    CHECK(r.get<u64>() == kAll);
    return r.get<u64>();
  };
  auto hold = [](bool own) { return Writer().put(kFile).put(u32{0}).put(kBytes).put<u8>(own); };
  REQUIRE(ask(first, Request::Take, Writer().put(u32{0}).put(kBytes)));
  tell(first, Request::Hold, hold(true));
  CHECK(free_bytes(first) == kAll - kBytes);
  tell(second, Request::Hold, hold(false));
  CHECK(free_bytes(second) == kAll - kBytes);
  tell(first, Request::Drop, Writer().put(kFile));
  tell(first, Request::Drop, Writer().put(kFile));  // no longer its own
  CHECK(free_bytes(first) == kAll - kBytes);
  UniqueFd liar = b.connect();
  CHECK(!ask(liar, Request::Hold, hold(true)));  // it has taken nothing
  second.reset();
  for (int i = 0; i < 500 && free_bytes(first) != kAll; i++) ::usleep(1000);
  CHECK(free_bytes(first) == kAll);
}
