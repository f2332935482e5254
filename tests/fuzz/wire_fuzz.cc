// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer target: arbitrary bytes as the contents of an application's command ring
// (ring/wire.h). They take the path of real commands: off the ring, through the decoder of
// each function of opencl.api, and as a program's binary. No driver is called.
#include <sys/socket.h>

#include <algorithm>

#include "common/base/log.h"
#include "libckpt-ocl/container.h"
#include "ring/channel.h"
#include "ring/table.h"

namespace {

using namespace ckpt;
using namespace ckpt::ocl;

// Two of three numbers name an object.
struct ProxySide {
  void *object(u8, u64 number) const {
    static char thing;
    return number % 3 == 0 ? nullptr : &thing;
  }
};

template <auto Fn>
void decode(ByteView payload) {
  Reader r(payload);
  api::Arguments<Fn> call(r, ProxySide{});
}

void decode_as(u16 op, ByteView payload) {
  switch (op) {
#define FORWARDED(fn, number, ...) \
  case number:                     \
    return decode<&::fn>(payload);
#define LOCAL(fn, how)
#define REFUSED(fn, why)
#include "ring/opencl.api"
#undef FORWARDED
#undef LOCAL
#undef REFUSED
    default: (void)Container::unpack(payload);
  }
}

// Fills the ring with the bytes. The other end of the socket is closed, so waiting for more
// commands ends at once.
void decode_ring(Channel &channel, ByteView bytes) {
  Result<Mapping> ring = Mapping::map(channel.memory_fd(), kRingBytes);
  if (!ring) std::abort();
  auto *header = reinterpret_cast<Header *>(ring->data());
  size_t n = std::min(bytes.size(), kCommandRingBytes);
  std::copy_n(bytes.data(), n, ring->data() + kCommandsAt);
  header->command_head.store(n);
  while (channel.ready()) {
    std::optional<Channel::Incoming> c = channel.next();
    if (!c) return;
    decode_as(c->header.op, c->payload);
    channel.done();
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  Result<Channel> channel = Channel::make();
  int ends[2];
  if (!channel || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) std::abort();
  channel->connect(UniqueFd(ends[0]));
  UniqueFd(ends[1]).reset();
  decode_ring(*channel, view(data, size));
  // The bytes as the payload of one command.
  if (size >= sizeof(u16)) {
    u16 op;
    std::memcpy(&op, data, sizeof op);
    decode_as(op % 256, view(data + sizeof op, size - sizeof op));
  }
  return 0;
}
