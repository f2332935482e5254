// SPDX-License-Identifier: Apache-2.0
#include "remote/pump.h"

#include <sys/socket.h>

#include <thread>
#include <vector>

namespace ckpt::remote {
namespace {

constexpr size_t kPieceBytes = 256u << 10;

Result<> carry(Stream &from, Stream &to) {
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    CKPT_TRY(size_t n, from.read_some(piece));
    if (n == 0) return {};
    CKPT_CHECK(to.write(std::span(piece).first(n)));
  }
}

}  // namespace

Result<> pump(Stream &a, Stream &b) {
  Result<> back;
  std::thread other([&] {
    back = carry(b, a);
    a.shut_down();
  });
  Result<> there = carry(a, b);
  b.shut_down();
  other.join();
  return there ? back : there;
}

}  // namespace ckpt::remote
