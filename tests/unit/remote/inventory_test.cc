// SPDX-License-Identifier: Apache-2.0
#include "remote/server/inventory.h"

#include <doctest/doctest.h>

#include "remote/opencl/questions.h"

using namespace ckpt;
using namespace ckpt::remote;
using ocl::Op;

namespace {

ocl::CommandHeader sync(Op op) { return {0, static_cast<u16>(op), ocl::kSync, 0}; }

Bytes bytes(std::string_view s) {
  ByteView b = view(s);
  return {b.begin(), b.end()};
}

Bytes info(ocl::InfoOf of, u32 param) {
  return Writer().put(of).put(u64{2}).put(u64{0}).put(param).take();
}

constexpr u32 kDeviceVersion = 0x102f,
              kFreeMemory = 0x4039;  // CL_DEVICE_VERSION, …_GLOBAL_FREE_MEMORY_AMD

const Inventories::Owner kAda{"ada", "--serve"};

}  // namespace

TEST_CASE("questions are the devices' mapping and what is asked about them, up to the first use") {
  Questions q;
  auto mapping = q.key(sync(Op::MapDevices), bytes("two devices"));
  REQUIRE(mapping);
  CHECK(question_of(*mapping).op == Op::MapDevices);
  CHECK(text(question_of(*mapping).payload) == "two devices");
  auto version = q.key(sync(Op::Info), info(ocl::InfoOf::Device, kDeviceVersion));
  REQUIRE(version);
  CHECK(question_of(*version).op == Op::Info);
  CHECK_FALSE(q.key(sync(Op::Staging), bytes("")));
  CHECK_FALSE(q.key(sync(Op::Info), info(ocl::InfoOf::Device, kDeviceVersion)));
}

TEST_CASE("the same query about other devices is another question") {
  Questions a, b;
  a.key(sync(Op::MapDevices), bytes("these"));
  b.key(sync(Op::MapDevices), bytes("those"));
  CHECK(a.key(sync(Op::Info), info(ocl::InfoOf::Device, kDeviceVersion)) !=
        b.key(sync(Op::Info), info(ocl::InfoOf::Device, kDeviceVersion)));
}

TEST_CASE("what may change, what names no device, and what makes an object is no question") {
  auto later = [](const ocl::CommandHeader &h, const Bytes &payload) {
    Questions q;
    q.key(sync(Op::MapDevices), bytes("these"));
    return q.key(h, payload);
  };
  CHECK_FALSE(later(sync(Op::Info), info(ocl::InfoOf::Device, kFreeMemory)));
  CHECK_FALSE(later(sync(Op::Info), info(ocl::InfoOf::Kernel, kDeviceVersion)));
  CHECK_FALSE(later(sync(Op::Info), bytes("short")));
  CHECK_FALSE(later(sync(Op::MapDevices), bytes("those")));
  CHECK_FALSE(
      later({0, static_cast<u16>(Op::Info), 0, 0}, info(ocl::InfoOf::Device, kDeviceVersion)));
  CHECK_FALSE(Questions().key(sync(Op::Info), info(ocl::InfoOf::Device, kDeviceVersion)));
}

TEST_CASE("answers are kept for the user who got them") {
  Inventories all;
  all.answered(kAda, bytes("q"), {0, bytes("before the greeting")});
  CHECK(all.find(kAda) == nullptr);
  all.greeted(kAda, bytes("platforms"));
  all.answered(kAda, bytes("q"), {0, bytes("yes")});
  REQUIRE(all.find(kAda));
  Inventory copy = Inventory::read(Reader(all.find(kAda)->encoded()));
  CHECK(copy.platforms == bytes("platforms"));
  CHECK(copy.answers.at(bytes("q")).bytes == bytes("yes"));
  CHECK(all.find({"bob", "--serve"}) == nullptr);
  CHECK(all.find({"ada", "--serve\n--portable"}) == nullptr);
}

TEST_CASE("answers are forgotten when a proxy, or a list of devices, says something else") {
  Inventories all;
  auto learn = [&] {
    all.greeted(kAda, bytes("platforms"));
    all.answered(kAda, bytes("q"), {0, bytes("yes")});
    REQUIRE(all.find(kAda)->answers.size() == 1);
  };
  learn();
  learn();  // the same again changes nothing
  all.greeted(kAda, bytes("others"));
  CHECK(all.find(kAda)->answers.empty());
  learn();
  all.answered(kAda, bytes("q"), {0, bytes("no")});
  CHECK(all.find(kAda) == nullptr);
  learn();
  all.listed("ada", 1);
  all.listed("ada", 1);
  all.listed("bob", 2);
  CHECK(all.find(kAda) != nullptr);
  all.listed("ada", 2);
  CHECK(all.find(kAda) == nullptr);
}

TEST_CASE("what is kept is bounded") {
  Inventories all;
  all.greeted(kAda, bytes("platforms"));
  for (u32 i = 0; i < 10'000; i++) all.answered(kAda, Writer().put(i).take(), {0, Bytes(100)});
  CHECK(all.find(kAda)->encoded().size() < 64u << 10);
  for (u32 i = 0; i < 1000; i++) all.greeted({"ada", std::to_string(i)}, bytes("platforms"));
  CHECK(all.find(kAda) == nullptr);
  CHECK(all.find({"ada", "999"}) != nullptr);
  all.greeted(kAda, Bytes(1u << 20));
  CHECK(all.find(kAda) == nullptr);
}

TEST_CASE("an inventory of wrong bytes is empty") {
  Inventories all;
  all.greeted(kAda, bytes("platforms"));
  all.answered(kAda, bytes("q"), {0, bytes("yes")});
  Bytes encoded = all.find(kAda)->encoded();
  for (size_t n = 0; n < encoded.size(); n++)
    CHECK(Inventory::read(Reader(ByteView(encoded).first(n))).platforms.empty());
}

TEST_CASE("a user's entries take no place of another one's") {
  Inventories all;
  const Inventories::Owner kBob{"bob", "--serve"};
  all.greeted(kBob, bytes("platforms"));
  for (int i = 0; i < 1000; i++) all.greeted({"ada", std::to_string(i)}, bytes("platforms"));
  CHECK(all.find(kBob));
  CHECK(all.find({"ada", "999"}));
  CHECK_FALSE(all.find({"ada", "0"}));
}
