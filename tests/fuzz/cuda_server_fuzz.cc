// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a hostile program on a CUDA device of another node. The input is a sequence of calls,
// each {u8 number, u8 1: an Op, u8 context, u8 length, arguments}. Whatever they ask for, the
// server copies only to what the program has mapped.
#include <cstdlib>

#include "common/ipc/unix_socket.h"
#include "remote/cuda/server/server.h"
#include "tests/unit/remote/agreeing_driver.h"

void ckpt::remote::cuda::test::copied_elsewhere() { std::abort(); }

namespace {

using namespace ckpt;
using namespace ckpt::remote;
using namespace ckpt::remote::cuda;

constexpr i64 kMostBytes = 8 << 20;

void run_calls(Server &server, Reader &in) {
  while (in.left() >= 4) {
    u16 number = in.get<u8>(), is_op = in.get<u8>() & 1;
    u64 context = in.get<u8>();
    ByteView arguments = in.raw(std::min<size_t>(in.get<u8>(), in.left()));
    CallHeader h{1, static_cast<u16>(is_op ? static_cast<u16>(Op::First) + number : number), 0,
                 context ? make_number(Kind::Context, context) : 0};
    Writer frame;
    frame.raw(&h, sizeof h).raw(arguments.data(), arguments.size());
    server.execute(frame.bytes());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  auto ends = socket_pair();
  if (!ends) std::abort();
  ends->second = {};  // replies go nowhere
  i64 used = 0;
  Server server(
      std::make_unique<Connection>(std::make_unique<SocketStream>(std::move(ends->first))),
      [&](i64 change) {
        bool fits = used + change <= kMostBytes;
        if (fits) used += change;
        return fits;
      });
  Reader in(view(data, size));
  run_calls(server, in);
  return 0;
}
