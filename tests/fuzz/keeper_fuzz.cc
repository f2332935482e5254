// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a hostile program at the socket of its session: any requests in any order, on several
// connections, with and without descriptors. The keeper must answer or hang up, and end when its
// program has ended. There are no proxies here, and no program to dump.
#include <sys/mman.h>

#include <array>
#include <thread>

#include "common/base/log.h"
#include "tests/fuzz/scratch.h"
#include "tools/session/keeper.h"

namespace {

using namespace ckpt;
using namespace ckpt::tools;

constexpr size_t kConnections = 4;
constexpr size_t kMostRequests = 32;

// A step of the input: what to do on which connection.
struct Step {
  enum What : u8 { Request, RawBytes, HangUp };
  u8 connection, what, type, descriptors;
  ByteView body;

  explicit Step(Reader &in)
      : connection(in.get<u8>() % kConnections),
        what(in.get<u8>() % 4),
        type(in.get<u8>()),
        descriptors(in.get<u8>() % 5) {
    body = in.raw(std::min<size_t>(in.get<u16>(), in.left()));
  }
};

class Program {
 public:
  explicit Program(std::string session) : session_(std::move(session)) {}

  void take(const Step &s) {
    UniqueFd &socket = sockets_[s.connection];
    if (s.what == Step::HangUp) return socket.reset();
    if (!socket && !connect(socket)) return;
    if (s.what == Step::RawBytes)
      (void)!::send(socket.get(), s.body.data(), s.body.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    else
      request(socket.get(), s);
  }

  // Waits until the keeper has read everything and hangs up. All connections end at once, because
  // half of a message makes it wait for the rest for 5 seconds.
  void finish() {
    for (UniqueFd &socket : sockets_)
      if (socket) ::shutdown(socket.get(), SHUT_WR);
    char answers[4096];
    for (UniqueFd &socket : sockets_)
      while (socket && ::recv(socket.get(), answers, sizeof answers, 0) > 0) {
      }
  }

 private:
  bool connect(UniqueFd &socket) {
    Result<UniqueFd> fd = connect_unix(session_);
    if (fd) socket = std::move(*fd);
    return fd.has_value();
  }
  void request(int socket, const Step &s) {
    std::vector<int> fds(s.descriptors, file_.get());
    (void)send_message(socket, s.type, s.body, fds);
  }

  std::string session_;
  UniqueFd file_ = memory_file(view("A=1\0B=2"));
  std::array<UniqueFd, kConnections> sockets_;
};

// A thread of its own, because a keeper blocks all signals.
void keep(ByteView input) {
  Result<std::unique_ptr<Keeper>> keeper = Keeper::create({});
  if (!keeper) std::abort();
  std::thread program([&] {
    Program p((*keeper)->socket_path());
    Reader in(input);
    for (size_t i = 0; in.left() > 0 && i < kMostRequests; i++) p.take(Step(in));
    p.finish();
    (*keeper)->post([&] { (*keeper)->program_failed(Error{"the input has ended", ""}); });
  });
  (void)(*keeper)->run();
  program.join();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  ::setenv("CKPT_RUNTIME_DIR", scratch_folder().c_str(), 1);
  std::thread(keep, view(data, size)).join();
  return 0;
}
