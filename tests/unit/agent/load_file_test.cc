// SPDX-License-Identifier: Apache-2.0
//
// A load whose contents are in a file of the tool's.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/unit/agent/fake.h"

using namespace ckpt;
using namespace ckpt::test;

namespace {

constexpr u64 kPiece = 32u << 20;  // of a file
constexpr u64 kBytes = kPiece + 5000;

std::string contents() {
  std::string all(kBytes, 'a');
  for (u64 at = 0; at < kBytes; at += 4093) all[at] = static_cast<char>('b' + at % 20);
  return all;
}

void run_with_places(App &app) {
  app.one.places = app.hear() == "places";
  app.one.memory = {{"a", contents()}};
  app.two.memory = {{"b", "short"}};
  app.start();
  app.wait_for_end();
}

UniqueFd file_of(const std::string &bytes, int seals = F_SEAL_SHRINK) {
  UniqueFd fd(::memfd_create("contents", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes.size())) == 0);
  REQUIRE(::pwrite(fd.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

// A copy that has its devices, and the tool that loads them.
class Load {
 public:
  explicit Load(const char *how) : subject_(&first_, run_with_places) {
    subject_.tell(how);
    subject_.expect({"ready"});
    Copy copy = to_restored(first_, second_, subject_);
    tool_.emplace(std::move(copy.keeper));
    tool_->hello();
    CHECK(tool_->attach(second_.socket()) == Type::Ok);
    subject_.expect({"one.attach", "two.attach"});
  }
  Message offer(const UniqueFd &file, u64 bytes) {
    return tool_->ask(Type::ContentsLoadable, Writer().put(bytes), {file.get()});
  }
  void begin() {
    UniqueFd staging = file_of("short");
    REQUIRE(::ftruncate(staging.get(), 4096) == 0);
    Message begun = tool_->ask(Type::Load, Writer().put(u32{1}).put(u32{4096}), {staging.get()});
    REQUIRE(Tool::type(begun) == Type::Ok);
    tool_->send(Type::Region, Writer().put(u32{0}).str("one/a").put(kBytes));
    tool_->send(Type::Region, Writer().put(u32{1}).str("two/b").put(u64{5}));
  }
  void place(u32 region, u64 offset, u64 bytes, u64 at, u64 ready = kBytes) {
    tool_->send(Type::ContentsIn, Writer().put(region).put(offset).put(bytes).put(at).put(ready));
  }
  void slot() {
    tool_->send(Type::SlotFull, Writer().put(u32{0}).put(u32{1}).put(u64{0}).put(u32{5}));
  }
  Type end() {
    tool_->send(Type::LoadEnd);
    for (;;) {
      std::optional<Message> m = tool_->receive();
      REQUIRE(m);
      if (Tool::type(*m) != Type::SlotFree) return Tool::type(*m);
    }
  }

 private:
  Session first_, second_;
  Subject subject_;
  std::optional<Tool> tool_;
};

}  // namespace

TEST_CASE("contents in a file are loaded from there, beside others in slots") {
  Load load("places");
  UniqueFd file = file_of(contents());
  Message offered = load.offer(file, kBytes);
  REQUIRE(Tool::type(offered) == Type::Ok);
  CHECK(offered.reader().str() == "one");
  file.reset();
  load.begin();
  load.place(0, kPiece, kBytes - kPiece, kPiece, 0);
  load.slot();
  load.place(0, 0, 4096, 0, kPiece);
  load.place(0, 4096, kPiece - 4096, 4096);
  CHECK(load.end() == Type::Ok);
}

TEST_CASE("a malformed place in a file ends the load") {
  Load load("places");
  UniqueFd file = file_of(contents());
  REQUIRE(Tool::type(load.offer(file, kBytes)) == Type::Ok);
  load.begin();
  SUBCASE("beyond the file") { load.place(0, 0, 4096, kBytes - 1000); }
  SUBCASE("far beyond the file") { load.place(0, 0, 4096, ~u64{0} - 4096); }
  SUBCASE("beyond the region") { load.place(0, kBytes - 4095, 4096, 0); }
  SUBCASE("across the end of a piece") { load.place(0, 0, 4097, kPiece - 4096); }
  SUBCASE("without bytes") { load.place(0, 0, 0, 0); }
  SUBCASE("more ready than there is") { load.place(0, 0, 4096, 0, kBytes + 1); }
  SUBCASE("of a region that was not announced") { load.place(2, 0, 4, 0); }
  SUBCASE("of a participant that takes slots only") { load.place(1, 0, 4, 0); }
  CHECK(load.end() == Type::Failed);
}

TEST_CASE("without a file there is no place in it") {
  Load load("places");
  load.begin();
  load.place(0, 0, 4096, 0, 0);
  CHECK(load.end() == Type::Failed);
}

TEST_CASE(
    "a file that could shrink or is too short is refused, and by those that take slots only") {
  UniqueFd file = file_of("0123456789"), loose = file_of("0123456789", F_SEAL_GROW);
  {
    Load load("places");
    CHECK(Tool::type(load.offer(loose, 10)) == Type::Failed);
    CHECK(Tool::type(load.offer(file, 11)) == Type::Failed);
    CHECK(Tool::type(load.offer(file, 0)) == Type::Failed);
    CHECK(Tool::type(load.offer(file, 10)) == Type::Ok);
  }
  Load load("slots");
  CHECK(Tool::type(load.offer(file, 10)) == Type::Failed);
}
