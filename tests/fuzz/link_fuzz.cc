// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a damaged OpenCL proxy. The client connects through a session's socket, sends commands
// and receives what the input says as the greeting, as replies and as completions. Whatever
// arrives, each call must return.
#include <poll.h>

#include <thread>

#include "common/base/futex.h"
#include "common/base/log.h"
#include "libckpt-ocl/client/link/link.h"
#include "ring/channel.h"
#include "tests/fuzz/scratch.h"

namespace {

using namespace ckpt;
using namespace ckpt::ocl;

constexpr u64 kCommands = 4;

// Reads its greeting and its answers from the input.
class FakeProxy {
 public:
  FakeProxy(int listener, ByteView input) : listener_(listener), in_(input) {}

  void run() {
    Result<UniqueFd> socket = accept_unix(listener_);
    if (!socket || !receive_message(socket->get())) return;
    Result<Channel> channel = Channel::make();
    if (!channel || !greet(*channel, socket->get())) return;
    ring_ = std::move(*Mapping::map(channel->memory_fd(), kRingBytes));
    channel->connect(std::move(*socket));
    while (std::optional<Channel::Incoming> c = channel->next()) {
      if (in_.left() == 0) return;
      if (c->header.made != 0) complete(c->header.made);
      if (c->header.flags & kSync) reply(channel->socket());
      channel->done();
      ckpt::ring(header().client_bell, header().client_waits);
    }
  }

 private:
  Header &header() { return *reinterpret_cast<Header *>(ring_.data()); }

  bool greet(Channel &channel, int socket) {
    u8 how = in_.get<u8>();
    ByteView body = in_.raw(std::min<size_t>(in_.get<u16>(), in_.left()));
    Writer w;
    if (how & 1) w.put(kWireVersion).put(u64{1});
    w.raw(body.data(), body.size());
    std::vector<int> fds((how >> 1) % 3, channel.memory_fd());
    return send_message(socket, how & 8 ? u16{2} : kGreeting, w.bytes(), fds).has_value();
  }

  void complete(u64 made) {
    Header &h = header();
    for (u8 n = in_.get<u8>() % 8; n > 0; n--) {
      u64 head = h.completion_head.load();
      Completion c{made - in_.get<u8>() % 2,
                   in_.get<u8>() % 3 - i32{1},
                   in_.get<u32>(),
                   in_.get<u64>(),
                   in_.get<u64>(),
                   1,
                   in_.get<u64>()};
      std::memcpy(ring_.data() + kCompletionsAt + head % kCompletions * sizeof c, &c, sizeof c);
      h.completion_head.store(head + 1 + (in_.get<u8>() == 255 ? in_.get<u64>() : 0));
    }
  }

  void reply(int socket) {
    Header &h = header();
    u8 how = in_.get<u8>();
    ByteView bytes = in_.raw(std::min<size_t>(in_.get<u16>(), in_.left()));
    std::memcpy(ring_.data() + kReplyAt, bytes.data(), std::min(bytes.size(), kReplyBytes));
    h.reply_status = static_cast<signed char>(in_.get<u8>());
    h.reply_bytes = how & 2 ? in_.get<u32>() : static_cast<u32>(bytes.size());
    h.reply_on_socket = how & 1;
    if (how & 1) (void)send_message(socket, how & 4 ? u16{9} : kPayload, bytes);
    h.reply_ready = 1;
  }

  int listener_;
  Reader in_;
  Mapping ring_;
};

void use(Link &link, const std::string &session) {
  Result<Greeting> greeting = link.open(session, "a device");
  if (!greeting) return;
  for (u64 i = 0; i < kCommands; i++) {
    auto *e = new Event;
    Ref<Event> event(e);
    e->drop();
    link.expect(e);
    (void)link.send(Op::Marker, e->number, {});
    Bytes reply;
    (void)link.round_trip(Op::Info, 0, {}, &reply);
    link.drain();
    link.unexpect(e);
  }
  link.close();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  static const std::string session = scratch_folder() + "/session.sock";
  static const Result<UniqueFd> listener = listen_unix(session);
  if (!listener) std::abort();
  std::thread proxy([&] { FakeProxy(listener->get(), view(data, size)).run(); });
  Link link;
  use(link, session);
  proxy.join();
  return 0;
}
