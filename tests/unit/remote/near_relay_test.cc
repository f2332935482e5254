// SPDX-License-Identifier: Apache-2.0
//
// What a server of OpenCL devices may send, and when.
#include "remote/opencl/near_relay.h"

#include <doctest/doctest.h>

#include "ring/table.h"
#include "tests/fuzz/input_stream.h"

using namespace ckpt;
using namespace ckpt::remote;

namespace {

constexpr u64 kPlace = 4096, kBytes = 64, kEvent = 9;

Bytes frame(Frame type, const Writer &body) {
  FrameHeader h{static_cast<u32>(body.size()), static_cast<u16>(type), 0};
  return Writer().raw(&h, sizeof h).raw(body.bytes().data(), body.size()).take();
}
Bytes reply(const Writer &value, u64 bulk = 0) {
  return frame(Frame::Reply, Writer().put(i32{CL_SUCCESS}).put(bulk).blob(value.bytes()));
}
Bytes completion(u64 event, u64 bulk) {
  ocl::Completion c{event, CL_COMPLETE, 0, 1, 2, 3, 4};
  return frame(Frame::Completion, Writer().raw(&c, sizeof c).put(bulk));
}
Bytes operator+(Bytes a, const Bytes &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A relay whose server says this.
struct Relay {
  explicit Relay(Bytes what) : says(std::move(what)) {
    Result<ocl::Channel> channel = ocl::Channel::make();
    REQUIRE(channel);
    relay.emplace(std::move(*channel),
                  std::make_unique<Connection>(std::make_unique<InputStream>(says)),
                  NearRelay::Session{"node", 1, {}, {}});
  }
  void command(ocl::Op op, u16 flags, u64 made, const Writer &payload) {
    relay->carry_out(
        {{static_cast<u32>(payload.size()), static_cast<u16>(op), flags, made}, payload.bytes()});
  }
  void read() {
    Writer w;
    w.put(u64{1}).put(u64{2}).put(u64{0}).put(kBytes).put(kPlace).put(u32{0});
    command(ocl::Op::Read, 0, kEvent, w);
  }
  std::string refused() {
    Result<> r = relay->receive_one();
    return r ? "" : r.error().what;
  }

  Bytes says;
  std::optional<NearRelay> relay;
};

}  // namespace

TEST_CASE("a reply comes once, to a command that waits for it") {
  Relay r(reply({}) + reply({}));
  r.command(ocl::Op::Info, ocl::kSync, 0, {});
  CHECK(r.refused() == "");
  CHECK(r.refused() == "it sent a reply that nothing waits for");
}

TEST_CASE("the bytes of a read come with its completion, and no others do") {
  Relay right(completion(kEvent, kBytes) + Bytes(kBytes));
  right.read();
  CHECK(right.refused() == "");
  for (u64 bytes : {u64{0}, kBytes - 1, kBytes + 1, ~u64{0}}) {
    Relay r(completion(kEvent, bytes) + Bytes(kBytes));
    r.read();
    CHECK_FALSE(r.refused().empty());
  }
  Relay unasked(completion(kEvent, kBytes) + Bytes(kBytes));
  CHECK(unasked.refused() == "it sent bytes that nothing asked for");
}

TEST_CASE("the elements of an image have a size that exists") {
  for (u64 bytes : {u64{0}, u64{65}, ~u64{0}}) {
    Relay r(reply(Writer().put(bytes)));
    r.command(ocl::Op::CreateImage, ocl::kSync, 7, {});
    CHECK(r.refused() == "it made an image of an unknown kind");
  }
  Relay right(reply(Writer().put(u64{16})));
  right.command(ocl::Op::CreateImage, ocl::kSync, 7, {});
  CHECK(right.refused() == "");
}
