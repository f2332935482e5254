// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/stream.h"

#include <doctest/doctest.h>
#include <linux/tcp.h>

#include <thread>

#include "remote/transport/address.h"
#include "tests/unit/common/tcp_pair.h"

using namespace ckpt;
using namespace ckpt::remote;

namespace {

constexpr size_t kPending = 16u << 20;  // more than the sockets take

// All of it arrives, although the reader begins late.
void write_to_late_reader(std::chrono::milliseconds silence, std::chrono::milliseconds late) {
  auto [a, b] = ckpt::test::tcp_pair();
  set_up_tcp(a.get());
  set_up_tcp(b.get());
  SocketStream from(std::move(a), silence), to(std::move(b), silence);
  Result<> written;
  std::thread writer([&from, &written] {
    written = from.write(Bytes(kPending, std::byte{7}));
    from.shut_down();
  });
  std::this_thread::sleep_for(late);
  Bytes piece(1u << 20);
  size_t all = 0;
  for (;;) {
    Result<size_t> n = to.read_some(piece);
    if (!n || *n == 0) break;
    all += *n;
  }
  writer.join();
  CHECK(written);
  CHECK(all == kPending);
}

}  // namespace

TEST_CASE("a TCP peer that does not read for long is waited for") {
  write_to_late_reader(std::chrono::milliseconds(300), std::chrono::milliseconds(2500));
}

TEST_CASE("a TCP peer is lost if it answers nothing, and not if it was not asked") {
  constexpr std::chrono::milliseconds kLimit{20'000};
  tcp_info s{};
  s.tcpi_last_ack_recv = s.tcpi_last_data_recv = 60'000;
  CHECK_FALSE(is_silent(s, kLimit));  // nothing was sent, or the window is closed
  s.tcpi_probes = 1;                  // the probe is on its way
  CHECK_FALSE(is_silent(s, kLimit));
  s.tcpi_probes = 3;
  CHECK(is_silent(s, kLimit));
  s.tcpi_probes = 0;
  s.tcpi_unacked = 5;  // sent a moment ago, or the window was closed over it
  CHECK_FALSE(is_silent(s, kLimit));
  s.tcpi_retransmits = 7;
  CHECK(is_silent(s, kLimit));
  s.tcpi_last_data_recv = 100;
  CHECK_FALSE(is_silent(s, kLimit));
  s.tcpi_last_data_recv = 60'000;
  s.tcpi_last_ack_recv = 19'999;
  CHECK_FALSE(is_silent(s, kLimit));
}
