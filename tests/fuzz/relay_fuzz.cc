// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a hostile ckpt-devd that serves an OpenCL program. The input is all that it sends to
// ckpt-remote-proxy, while the program waits for what it has asked for: bytes of buffers and
// images, information, events. A frame that is none of this protocol is an error; bytes land only
// where they were asked for.
#include <cstdlib>

#include "common/base/log.h"
#include "remote/opencl/near_relay.h"
#include "ring/table.h"
#include "tests/fuzz/input_stream.h"

namespace {

using namespace ckpt;
using namespace ckpt::remote;

constexpr u64 kImage = 7, kEvent = 9, kPlace = 4096, kBytes = 64;
constexpr int kMostFrames = 64;

ocl::Channel::Incoming command(ocl::Op op, u16 flags, u64 made, ByteView payload) {
  return {{static_cast<u32>(payload.size()), static_cast<u16>(op), flags, made}, payload};
}

// What the program has asked for; the second byte of the input chooses which of them waits.
void ask(NearRelay &relay, u8 which) {
  Writer image, read, info, read_image;
  image.put(u64{1});
  read.put(u64{1}).put(u64{2}).put(u64{0}).put(kBytes).put(kPlace).put(u32{0});
  read_image.put(u64{1}).put(kImage);
  for (u64 n : {0, 0, 0, 2, 2, 1}) read_image.put(n);
  read_image.put(kPlace).put(u32{0});
  if (which & 1) relay.carry_out(command(ocl::Op::CreateImage, ocl::kSync, kImage, image.bytes()));
  if (which & 2) relay.carry_out(command(ocl::Op::Read, 0, kEvent, read.bytes()));
  if (which & 4) relay.carry_out(command(ocl::Op::ReadImage, 0, kEvent + 1, read_image.bytes()));
  if (which & 8) relay.carry_out(command(ocl::Op::Info, ocl::kSync, 0, info.bytes()));
}

// A channel without a client: what arrives for it goes to a ring that nothing reads.
void receive(ByteView frames, u8 which) {
  Result<ocl::Channel> channel = ocl::Channel::make();
  if (!channel) std::abort();
  NearRelay relay(std::move(*channel),
                  std::make_unique<Connection>(std::make_unique<InputStream>(frames)),
                  {"node", 1, {}, {}});
  ask(relay, which);
  for (int i = 0; i < kMostFrames && relay.receive_one(); i++)
    if (i == 2) ask(relay, which);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  if (size >= 1) receive(view(data + 1, size - 1), data[0]);
  return 0;
}
