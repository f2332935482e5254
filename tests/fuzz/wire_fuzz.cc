// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any bytes as what an application wrote into its command ring (libckpt-ocl/wire.h).
// They go the way of real ones: off the ring, then through the decoder of each function of
// opencl.api, and as a program's binary. No driver is called.
#include <sys/socket.h>

#include <algorithm>

#include "common/base/log.h"
#include "libckpt-ocl/container.h"
#include "libckpt-ocl/proxy/channel.h"
#include "libckpt-ocl/table.h"

namespace {

using namespace ckpt;
using namespace ckpt::ocl;

// Two of three numbers name something.
struct FarSide {
  void *object(u8, u64 number) const {
    static char thing;
    return number % 3 == 0 ? nullptr : &thing;
  }
};

template <auto Fn>
void decode(ByteView payload) {
  Reader r(payload);
  api::Arguments<Fn> call(r, FarSide{});
}

void decode_as(u16 op, ByteView payload) {
  switch (op) {
#define KEPT(fn, number, ...) \
  case number:                \
    return decode<&::fn>(payload);
#define LOCAL(fn, how)
#define REFUSED(fn, why)
#include "libckpt-ocl/opencl.api"
#undef KEPT
#undef LOCAL
#undef REFUSED
    default: (void)Container::unpack(payload);
  }
}

// The ring is filled as far as the bytes go; the other end of the socket is closed, so that a wait
// for more ends at once.
void take_all(Channel &channel, ByteView bytes) {
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
  static const bool quiet = (log::set_level(log::Level::Off), true);
  (void)quiet;
  Result<Channel> channel = Channel::make();
  int ends[2];
  if (!channel || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) std::abort();
  channel->connect(UniqueFd(ends[0]));
  UniqueFd(ends[1]).reset();
  take_all(*channel, view(data, size));
  // The payload alone, as every function.
  if (size >= sizeof(u16)) {
    u16 op;
    std::memcpy(&op, data, sizeof op);
    decode_as(op % 256, view(data + sizeof op, size - sizeof op));
  }
  return 0;
}
