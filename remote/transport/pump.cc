// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/pump.h"

#include <sys/socket.h>

#include <mutex>
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

// The direction that ends first says how the connection has ended. The other one ends because of
// that: an error there is no news. (Linux resets a TCP connection that is shut down and still gets
// data.)
Result<> pump(Stream &a, Stream &b) {
  std::once_flag ended;
  Result<> first;
  auto carry_until_end = [&](Stream &from, Stream &to) {
    Result<> r = carry(from, to);
    std::call_once(ended, [&] { first = std::move(r); });
    to.shut_down();
  };
  std::thread other([&] { carry_until_end(b, a); });
  carry_until_end(a, b);
  other.join();
  return first;
}

}  // namespace ckpt::remote
