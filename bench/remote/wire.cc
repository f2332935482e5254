// SPDX-License-Identifier: Apache-2.0
//
// What the connection itself can do, for bench/remote/run: round trips of 64 bytes, and bulk in one
// direction, between two processes on one node. Prints JSON.
//
//   wire                       plain TCP on the loopback interface
//   wire SERVER CLIENT NAME    the same with TLS; the folders of two certificates, the server's
//                              name
//   wire --serve ADDRESS       one end of plain TCP; prints "listening"
//   wire --connect ADDRESS     the other end, with fewer trips and bytes
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "remote/transport/address.h"
#include "remote/transport/tls.h"

using namespace ckpt;
using namespace ckpt::remote;

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kPiece = 1u << 20;

struct Size {
  int round_trips;
  size_t bulk;
};
constexpr Size kHere{20'000, 1u << 30}, kThere{500, 128u << 20};

std::unique_ptr<Stream> open_stream(UniqueFd socket, char **argv, Tls::Side side) {
  if (!argv[1]) return std::make_unique<SocketStream>(std::move(socket));
  auto tls = Tls::load(argv[side == Tls::Side::Server ? 1 : 2], side);
  auto s = tls->handshake(std::move(socket), argv[3], Clock::now() + std::chrono::seconds(10));
  if (!s) std::fprintf(stderr, "%s\n", s.error().text().c_str());
  return std::move(*s);
}

void read_all(Stream &s, std::span<std::byte> into) {
  while (!into.empty()) into = into.subspan(*s.read_some(into));
}

void serve(Stream &s, Size size) {
  Bytes small(64), piece(kPiece);
  for (int i = 0; i < size.round_trips; i++) {
    read_all(s, small);
    (void)s.write(small);
  }
  for (size_t at = 0; at < size.bulk; at += kPiece) read_all(s, piece);
  (void)s.write(small);
}

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

void measure(Stream &s, Size size) {
  Bytes small(64), piece(kPiece);
  std::vector<double> trips;
  for (int i = 0; i < size.round_trips; i++) {
    auto begin = Clock::now();
    (void)s.write(small);
    read_all(s, small);
    trips.push_back(seconds_since(begin));
  }
  std::sort(trips.begin(), trips.end());
  auto begin = Clock::now();
  for (size_t at = 0; at < size.bulk; at += kPiece) (void)s.write(piece);
  read_all(s, small);
  std::printf("{\"round_trip_us\": %.2f, \"bulk_gb_s\": %.3f}\n", trips[trips.size() / 2] * 1e6,
              static_cast<double>(size.bulk) / seconds_since(begin) / 1e9);
}

UniqueFd accept_one(int listener) {
  UniqueFd socket(::accept(listener, nullptr, nullptr));
  set_up_tcp(socket.get());
  return socket;
}

int between_nodes(bool serves, const char *where) {
  auto address = Address::parse(where);
  if (!address) return 2;
  if (!serves) {
    auto socket = connect_to(*address, Clock::now() + std::chrono::seconds(10));
    if (!socket) return 1;
    SocketStream stream(std::move(*socket));
    measure(stream, kThere);
    return 0;
  }
  auto listener = listen_at(*address);
  if (!listener) return 1;
  std::puts("listening");
  std::fflush(stdout);
  SocketStream stream(accept_one(listener->get()));
  serve(stream, kThere);
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  std::string first = argc > 1 ? argv[1] : "";
  if (argc == 3 && (first == "--serve" || first == "--connect"))
    return between_nodes(first == "--serve", argv[2]);
  auto address = Address::parse("127.0.0.1:7999");
  auto listener = listen_at(*address);
  if (!listener) return 1;
  pid_t child = ::fork();
  if (child == 0) {
    serve(*open_stream(accept_one(listener->get()), argv, Tls::Side::Server), kHere);
    return 0;
  }
  auto socket = connect_to(*address, Clock::now() + std::chrono::seconds(10));
  measure(*open_stream(std::move(*socket), argv, Tls::Side::Client), kHere);
  ::waitpid(child, nullptr, 0);
  return 0;
}
