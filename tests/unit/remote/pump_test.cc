// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/pump.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "common/base/clock.h"
#include "remote/transport/tls.h"
#include "tests/unit/common/tcp_pair.h"

using namespace ckpt;
using namespace ckpt::remote;

namespace {

auto in_a_minute() { return Clock::now() + std::chrono::seconds(60); }

// Says `says`, and then waits until it is shut down, or ends at once.
class Scripted final : public Stream {
 public:
  enum class Then : u8 { Waits, Ends, Fails };
  Scripted(std::string says, Then then, std::string error_when_shut)
      : says_(std::move(says)), then_(then), error_when_shut_(std::move(error_when_shut)) {}

  Result<size_t> read_some(std::span<std::byte> into) override {
    std::unique_lock lock(mutex_);
    if (!says_.empty()) {
      size_t n = std::min(into.size(), says_.size());
      std::memcpy(into.data(), says_.data(), n);
      says_.erase(0, n);
      return n;
    }
    if (then_ == Then::Ends) return 0u;
    if (then_ == Then::Fails) return fail("cannot receive: no route");
    shut_.wait(lock, [&] { return is_shut_; });
    if (!error_when_shut_.empty()) return fail("{}", error_when_shut_);
    return 0u;
  }
  Result<> write(ByteView data) override {
    std::lock_guard lock(mutex_);
    got += text(data);
    return {};
  }
  void set_deadline(std::optional<Clock::time_point>) override {}
  void shut_down() override {
    std::lock_guard lock(mutex_);
    is_shut_ = true;
    shut_.notify_all();
  }
  int descriptor() const override { return -1; }
  bool is_plain() const override { return true; }

  std::string got;

 private:
  std::string says_;
  Then then_;
  std::string error_when_shut_;
  std::mutex mutex_;
  std::condition_variable shut_;
  bool is_shut_ = false;
};

}  // namespace

TEST_CASE("pump: an error that comes of the end of the other direction is none") {
  Scripted program("bye", Scripted::Then::Ends, "");
  Scripted server("", Scripted::Then::Waits, "cannot receive: Connection reset by peer");
  CHECK(pump(program, server));
  CHECK(server.got == "bye");
}

TEST_CASE("pump: a side that is lost while both are in use is an error") {
  Scripted program("", Scripted::Then::Waits, "");
  Scripted server("last words", Scripted::Then::Fails, "");
  Result<> r = pump(program, server);
  REQUIRE_FALSE(r);
  CHECK(r.error().what == "cannot receive: no route");
  CHECK(program.got == "last words");
}

TEST_CASE("TLS: a connection that the other node resets has ended, as without TLS") {
  ::signal(SIGPIPE, SIG_IGN);
  auto [client_socket, server_socket] = test::tcp_pair();
  int raw_server = server_socket.get();
  Result<Tls> server_tls = Tls::unidentified(Tls::Side::Server);
  Result<Tls> client_tls = Tls::unidentified(Tls::Side::Client);
  REQUIRE(server_tls);
  REQUIRE(client_tls);
  Tls::Peer server_peer, client_peer;
  Result<std::unique_ptr<Stream>> server = fail("not yet");
  std::thread other([&, &socket = server_socket] {
    server = server_tls->handshake(std::move(socket), "", in_a_minute(), &server_peer);
  });
  auto client =
      client_tls->handshake(std::move(client_socket), "localhost", in_a_minute(), &client_peer);
  other.join();
  REQUIRE(client);
  REQUIRE(server);
  // Closed with a linger of 0 s, a socket resets its connection (socket(7)).
  linger at_once{1, 0};
  REQUIRE(::setsockopt(raw_server, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  server->reset();
  std::byte into[16];
  (*client)->set_deadline(in_a_minute());
  Result<size_t> n = (*client)->read_some(into);
  REQUIRE(n);
  CHECK(*n == 0);
}
