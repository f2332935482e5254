// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a hostile node in a job of several programs. The first byte says what it is: a peer
// without the job's key, whose bytes are the input; a member, whose messages the coordinator gets;
// or the coordinator, whose messages a member gets. Whatever they say, both sides return.
#include <sys/socket.h>

#include <thread>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"
#include "tests/fuzz/scratch.h"
#include "tools/job/crew.h"
#include "tools/job/member_link.h"
#include "tools/job/opening.h"
#include "tools/job/tcp.h"

namespace {

using namespace ckpt;
using namespace ckpt::tools;

constexpr int kMostChecks = 50;
constexpr const char *kMember = "a";

const JobFolder &folder() {
  static const Result<JobFolder> made = JobFolder::create(scratch_folder() + "/job");
  if (!made) std::abort();
  return *made;
}

// Ends a wait that nothing else ends.
struct Patience {
  int left = kMostChecks;
  Result<> operator()() { return left-- > 0 ? Result<>() : fail("cancelled"); }
};

// Messages {u8 type, u8 bytes, bytes}, sealed with the job's key.
void say(UniqueFd socket, Channel::Side side, ByteView input) {
  Result<Channel> c = Channel::open(std::move(socket), folder().key(), side);
  Reader in(input);
  while (c && in.left() > 0) {
    u16 type = in.get<u8>();
    ByteView body = in.raw(std::min<size_t>(in.get<u8>(), in.left()));
    if (!c->send(type, body)) return;
  }
}

// A connection on which the input has come, and nothing more will.
std::pair<UniqueFd, UniqueFd> connection_with(ByteView input) {
  auto ends = socket_pair();
  if (!ends) std::abort();
  (void)!::send(ends->second.get(), input.data(), std::min<size_t>(input.size(), 32 << 10),
                MSG_NOSIGNAL);
  ::shutdown(ends->second.get(), SHUT_WR);
  return std::move(*ends);
}

void as_stranger(ByteView input) {
  for (auto side : {Channel::Side::Coordinator, Channel::Side::Member}) {
    auto ends = connection_with(input);
    Result<Channel> c = Channel::open(std::move(ends.first), folder().key(), side);
    if (c) (void)c->receive(Clock::now() + std::chrono::seconds(1));
  }
  auto ends = connection_with(input);
  Result<Opening> opening = Opening::begin(std::move(ends.first));
  while (opening) {
    Result<bool> has_key = opening->receive(folder().key());
    if (!has_key) return;
    if (*has_key) std::abort();
  }
}

void as_member(ByteView input) {
  static const Result<std::pair<UniqueFd, u16>> listener = listen_tcp({});
  if (!listener) std::abort();
  std::thread member([&] {
    UniqueFd socket(::accept4(listener->first.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) say(std::move(socket), Channel::Side::Member, input);
  });
  Patience patience{1};
  bool connected = false;
  Crew crew(folder(), [&]() -> Result<> { return connected ? patience() : Result<>(); });
  connected = true;
  if (crew.add(kMember, {.addresses = {"127.0.0.1"}, .port = listener->second}, {})) {
    patience.left = kMostChecks;
    if (crew.gather(Stage::Ready)) (void)crew.go(Stage::Ready);
    (void)crew.gather(Stage::Durable);
    crew.abort("over");
  }
  member.join();
}

Result<MemberLink> accept(UniqueFd socket) {
  CKPT_TRY(Channel c, Channel::open(std::move(socket), folder().key(), Channel::Side::Member));
  return MemberLink::accept(std::move(c), kMember, Task::Dump);
}

void as_coordinator(ByteView input) {
  auto ends = socket_pair();
  if (!ends) std::abort();
  std::thread coordinator([&] { say(std::move(ends->second), Channel::Side::Coordinator, input); });
  Result<MemberLink> link = accept(std::move(ends->first));
  if (link && link->meet({.stage = Stage::Ready}, Patience()))
    (void)link->meet({.stage = Stage::Locked}, Patience());
  link = fail("");  // hangs up
  coordinator.join();
}

// What parses must be what its own encoding says.
void parse(ByteView input) {
  if (std::optional<Begin> b = parse_begin(input); b && !parse_begin(encode(*b))) std::abort();
  if (std::optional<Reached> r = parse_reached(input); r && !parse_reached(encode(*r)))
    std::abort();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  if (size == 0) return 0;
  ByteView rest = view(data + 1, size - 1);
  switch (data[0] % 4) {
    case 0: as_stranger(rest); break;
    case 1: as_member(rest); break;
    case 2: as_coordinator(rest); break;
    case 3: parse(rest); break;
  }
  return 0;
}
