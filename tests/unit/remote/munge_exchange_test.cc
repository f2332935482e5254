// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/munge_exchange.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "common/base/clock.h"
#include "common/ipc/unix_socket.h"
#include "remote/transport/authentication.h"
#include "remote/transport/error_body.h"
#include "remote/transport/pump.h"

using namespace ckpt;
using namespace ckpt::remote;

namespace {

auto soon() { return Clock::now() + std::chrono::seconds(20); }

// The munged of a cluster: what it has made, with the user and the only reader.
struct Cluster {
  struct Made {
    Bytes payload;
    uid_t uid, reader;
  };
  std::mutex mutex;
  std::map<std::string, Made> made;
};

// munge as a process of `uid` sees it.
class FakeMunge final : public CredentialService {
 public:
  FakeMunge(Cluster &cluster, uid_t uid) : cluster_(cluster), uid_(uid) {}

  Result<std::string> encode(ByteView payload, uid_t reader, Deadline) const override {
    std::lock_guard lock(cluster_.mutex);
    std::string name = fmt::format("MUNGE:{}:", cluster_.made.size());
    cluster_.made[name] = {Bytes(payload.begin(), payload.end()), uid_, reader};
    return name;
  }
  Result<Content> decode(const std::string &credential, Deadline) const override {
    std::lock_guard lock(cluster_.mutex);
    auto found = cluster_.made.find(credential);
    if (found == cluster_.made.end()) return fail("invalid credential");
    if (found->second.reader != uid_) return fail("unauthorized");
    return Content{found->second.payload, found->second.uid};
  }

 private:
  Cluster &cluster_;
  uid_t uid_;
};

struct End {
  std::unique_ptr<Connection> connection;
  Binding binding;
};

struct TlsEnds {
  End client, server;
};

Result<std::unique_ptr<Stream>> shake(Tls::Side side, UniqueFd socket, Tls::Peer &peer) {
  Result<Tls> tls = Tls::unidentified(side);
  REQUIRE(tls);
  return tls->handshake(std::move(socket), "node", soon(), &peer);
}

// A TLS connection without certificates.
TlsEnds encrypted() {
  ::signal(SIGPIPE, SIG_IGN);  // as all processes with TLS do
  auto pair = socket_pair();
  REQUIRE(pair);
  Tls::Peer client, server;
  Result<std::unique_ptr<Stream>> there = fail("");
  std::thread other([&] { there = shake(Tls::Side::Server, std::move(pair->second), server); });
  Result<std::unique_ptr<Stream>> here = shake(Tls::Side::Client, std::move(pair->first), client);
  other.join();
  REQUIRE(here);
  REQUIRE(there);
  (*here)->set_deadline(soon());
  (*there)->set_deadline(soon());
  return {{std::make_unique<Connection>(std::move(*here)), client.binding},
          {std::make_unique<Connection>(std::move(*there)), server.binding}};
}

struct Outcome {
  Result<> client = fail("");
  Result<uid_t> server = fail("");
};

// As the session of ckpt-devd does.
Result<uid_t> serve(End &end, const CredentialService &munge) {
  Result<uid_t> r = check_credential(*end.connection, munge, end.binding, soon());
  if (!r) (void)end.connection->send(Frame::Refused, body_of(r.error()));
  return r;
}

Outcome exchange(End &client, const CredentialService &of_client, End &server,
                 const CredentialService &of_server, const std::set<uid_t> &accepted) {
  Outcome out;
  std::thread other([&] { out.server = serve(server, of_server); });
  out.client = show_credential(*client.connection, of_client, client.binding, accepted, soon());
  client.connection->stream().shut_down();
  other.join();
  return out;
}

const uid_t kServer = ::geteuid(), kUser = kServer + 1000;

}  // namespace

TEST_CASE("both ends compute the same binding, and no other connection does") {
  TlsEnds a = encrypted(), b = encrypted();
  CHECK(a.client.binding.client == a.server.binding.client);
  CHECK(a.client.binding.server == a.server.binding.server);
  CHECK(a.client.binding.client != a.client.binding.server);
  CHECK(a.client.binding.client != b.client.binding.client);
}

TEST_CASE("the server learns the user, and each credential has one reader") {
  Cluster cluster;
  TlsEnds ends = encrypted();
  Outcome o = exchange(ends.client, FakeMunge(cluster, kUser), ends.server,
                       FakeMunge(cluster, kServer), {kServer});
  CHECK(o.client);
  REQUIRE(o.server);
  CHECK(*o.server == kUser);
  CHECK(cluster.made["MUNGE:0:"].reader == kServer);
  CHECK(cluster.made["MUNGE:1:"].reader == kUser);
}

TEST_CASE("a server of another user gets no credential") {
  Cluster cluster;
  TlsEnds ends = encrypted();
  Outcome o = exchange(ends.client, FakeMunge(cluster, kUser), ends.server,
                       FakeMunge(cluster, kServer), {kServer + 1});
  REQUIRE_FALSE(o.client);
  CHECK(o.client.error().hint.find("CKPT_DEVD_USER") != std::string::npos);
  CHECK_FALSE(o.server);
  CHECK(cluster.made.empty());
}

TEST_CASE("a server that is not of the user that it announces is refused") {
  Cluster cluster;
  TlsEnds ends = encrypted();
  struct Liar final : CredentialService {
    explicit Liar(Cluster &c) : reader(c, kServer), maker(c, kServer + 7) {}
    Result<std::string> encode(ByteView p, uid_t r, Deadline d) const override {
      return maker.encode(p, r, d);
    }
    Result<Content> decode(const std::string &c, Deadline d) const override {
      return reader.decode(c, d);
    }
    FakeMunge reader, maker;
  };
  Outcome o =
      exchange(ends.client, FakeMunge(cluster, kUser), ends.server, Liar(cluster), {kServer});
  CHECK_FALSE(o.client);
}

TEST_CASE("a credential that is passed on over another connection is refused") {
  Cluster cluster;
  TlsEnds near = encrypted(), far = encrypted();  // the program's, and that to ckpt-devd
  std::thread between(
      [&] { (void)pump(near.server.connection->stream(), far.client.connection->stream()); });
  Outcome o = exchange(near.client, FakeMunge(cluster, kUser), far.server,
                       FakeMunge(cluster, kServer), {kServer});
  far.server.connection->stream().shut_down();
  between.join();
  REQUIRE_FALSE(o.server);
  CHECK(o.server.error().what.find("another connection") != std::string::npos);
  REQUIRE_FALSE(o.client);
  CHECK(o.client.error().what.find("another connection") != std::string::npos);
  CHECK(cluster.made.size() == 1);  // no credential of the server's
}

TEST_CASE("a client's credential that comes back proves nothing") {
  Cluster cluster;
  TlsEnds ends = encrypted();
  FakeMunge munge(cluster, kServer);  // both of one user
  std::thread mirror([&] {
    Connection &c = *ends.server.connection;
    (void)c.send(Frame::ServerUser, Writer().put(u32{kServer}).bytes());
    auto frame = c.receive(kMaxCredential);
    REQUIRE(frame);
    (void)c.send(Frame::ServerCredential, frame->body);
  });
  Result<> r =
      show_credential(*ends.client.connection, munge, ends.client.binding, {kServer}, soon());
  mirror.join();
  REQUIRE_FALSE(r);
  CHECK(r.error().what.find("another connection") != std::string::npos);
}

TEST_CASE("random messages in place of a credential are refused") {
  Cluster cluster;
  std::mt19937 random(1);
  for (int round = 0; round < 300; round++) {
    auto pair = socket_pair();
    REQUIRE(pair);
    Connection hostile(std::make_unique<SocketStream>(std::move(pair->first)));
    Connection server(std::make_unique<SocketStream>(std::move(pair->second)));
    Bytes noise(random() % (2 * kMaxCredential));
    for (std::byte &b : noise) b = static_cast<std::byte>(random());
    Frame type = round % 2 ? Frame::Credential : static_cast<Frame>(random() % 40);
    if (round % 3 == 0)
      (void)hostile.stream().write(noise);
    else
      (void)hostile.send(type, noise);
    ::shutdown(hostile.stream().descriptor(), SHUT_WR);
    CHECK_FALSE(check_credential(server, FakeMunge(cluster, kServer), {}, soon()));
  }
}

TEST_CASE("which way a program chooses") {
  CHECK(*choose_authentication("", true, true) == Authentication::Certificates);
  CHECK(*choose_authentication("", false, true) == Authentication::Munge);
  CHECK(*choose_authentication("", false, false) == Authentication::Certificates);
  CHECK(*choose_authentication("munge", true, false) == Authentication::Munge);
  CHECK(*choose_authentication("certificates", false, true) == Authentication::Certificates);
  CHECK_FALSE(choose_authentication("kerberos", true, true));
}

TEST_CASE("a munged that does not answer costs no more than the deadline") {
  char folder[] = "/tmp/munge-XXXXXX";
  REQUIRE(::mkdtemp(folder));
  std::string path = std::string(folder) + "/s";
  auto silent = listen_unix(path);
  REQUIRE(silent);
  // Without libmunge there is nothing to wait for.
  if (Result<Munge> munge = Munge::load(path); munge) {
    auto begin = Clock::now();
    auto r = munge->decode("MUNGE:x:", begin + std::chrono::milliseconds(100));
    REQUIRE_FALSE(r);
    CHECK(r.error().what.find("does not answer") != std::string::npos);
    CHECK(Clock::now() - begin < std::chrono::milliseconds(1500));
  }
  ::unlink(path.c_str());
  ::rmdir(folder);
}

TEST_CASE("what munge says comes with what to do, on which node") {
  auto hint = [](int status) { return munge_error(status, "step", "detail", "gpu1").hint; };
  CHECK(munge_error(6, "makes no credential", "no socket", "gpu1").what ==
        "munge on gpu1 makes no credential: no socket");
  CHECK(hint(6).find("restart munged on gpu1") != std::string::npos);
  CHECK(hint(14).find("munge.key") != std::string::npos);
  CHECK(hint(15).find("clocks") != std::string::npos);
  CHECK(hint(16).find("clocks") != std::string::npos);
  CHECK(hint(17).find("counts once") != std::string::npos);
  CHECK(hint(1).find("log of munged on gpu1") != std::string::npos);
}
