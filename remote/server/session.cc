// SPDX-License-Identifier: Apache-2.0
#include "remote/server/session.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fnv.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/ipc/unix_socket.h"
#include "remote/server/opencl_session.h"
#include "remote/transport/account.h"
#include "remote/transport/error_body.h"
#include "remote/transport/munge_exchange.h"
#include "remote/transport/packed_stream.h"
#include "remote/transport/pump.h"

namespace ckpt::remote {
namespace {

// The daemon ends a process whose peer has not been admitted in time (common/ipc/listener.h).
constexpr std::chrono::seconds kHandshakeTime{14};
constexpr std::chrono::seconds kLinger{2};
// From the beginning; it leaves time to say what is wrong with munge.
constexpr std::chrono::seconds kMungeTime{11};

struct Hello {
  Purpose purpose{};
  std::string devices;
  bool portable = false;
  std::string question;
};

// The last words get lost if what the peer has sent was not read when the socket is closed: the
// kernel then resets the connection (tcp(7)). So its bytes are taken until it has hung up.
void close_gently(int socket) {
  ::shutdown(socket, SHUT_WR);
  auto end = Clock::now() + kLinger;
  std::array<char, 4096> unread;
  while (wait_for_socket(socket, POLLIN, end)) {
    ssize_t n = ::recv(socket, unread.data(), unread.size(), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

Result<Hello> read_hello(Connection &c) {
  CKPT_TRY(Connection::Received frame, c.receive(kMaxFirstBody));
  Reader r(frame.body);
  if (frame.type != Frame::Hello || r.get<u32>() != kMagic)
    return fail("the peer is no tool of ckpt");
  if (u32 version = r.get<u32>(); version != kVersion)
    return fail_with_hint(
        fmt::format("ckpt-devd speaks version {} of its protocol, not {}", kVersion, version),
        "use the same version of ckpt on both nodes");
  Hello h;
  h.purpose = r.get<Purpose>();
  h.devices = r.str();
  h.portable = r.get<u8>() != 0;
  if (!r.done() || h.purpose < Purpose::List || h.purpose > Purpose::CheckCuda)
    return fail("the peer sent a malformed greeting");
  return h;
}

class Session {
 public:
  Session(Connection &connection, int daemon, const SessionOptions &options)
      : connection_(connection), daemon_(daemon), options_(options) {}

  Result<> run(const Identity &peer) {
    CKPT_TRY(Hello hello, read_hello(connection_));
    CKPT_CHECK(ask_daemon(daemon_, Note::Enter, Writer().str(peer.user).bytes()));
    CKPT_CHECK(become_account_of(peer));
    if (::chdir("/") < 0) return fail_errno("cannot enter /");
    if (hello.purpose == Purpose::ServeCuda) return serve_cuda(hello);
    return hello.purpose == Purpose::Serve ? serve(hello) : answer(std::move(hello));
  }

 private:
  // This process has not executed another program since it was root's: so the user cannot take the
  // daemon's socket from it (ptrace(2), on PTRACE_MODE_ATTACH_REALCREDS and "dumpable").
  Result<> become_account_of(const Identity &peer) {
    bool local = options_.tls == nullptr, chosen = !options_.account.empty();
    std::optional<Account> account = chosen ? account_named(options_.account) : peer.account;
    if (account) return become(*account, local || chosen);
    if (::geteuid() != 0) return {};
    return fail_with_hint(
        fmt::format("this node has no account \"{}\"", chosen ? options_.account : peer.user),
        "make one, or start ckpt-devd with --account");
  }

  std::vector<std::string> arguments(const Hello &hello, const char *verb) {
    std::vector<std::string> all{verb};
    if (!hello.devices.empty()) all.insert(all.end(), {"--device", hello.devices});
    if (hello.portable) all.push_back("--portable");
    return all;
  }

  Result<> answer(Hello hello) {
    bool check = is_check(hello.purpose);
    bool cuda = hello.purpose == Purpose::ListCuda || hello.purpose == Purpose::CheckCuda;
    if (check) {
      CKPT_TRY(Connection::Received frame, connection_.receive());
      Reader r(frame.body);
      hello.question = r.str();
      if (frame.type != Frame::Question || !r.done()) return fail("the peer sent no question");
    }
    CKPT_TRY(ProxyStarter::Answer a,
             options_.starter.ask(
                 cuda ? "cuda" : "ocl",
                 check ? arguments(hello, "--check") : std::vector<std::string>{"--list"},
                 hello.question));
    if (hello.purpose == Purpose::List) report_list(a.output);
    Writer w;
    w.put(i32{a.exit_code}).str(a.output);
    return connection_.send(Frame::Answer, w.bytes());
  }

  // What is known of the devices may be out of date (inventory.h).
  void report_list(const std::string &list) const {
    (void)send_message(daemon_, static_cast<u16>(Note::Listed), Writer().put(fnv1a(list)).bytes());
  }

  Result<> serve(const Hello &hello) {
    // Never destroyed: the relay's threads run until the process ends.
    auto *session =
        new OpenClSession(connection_, daemon_, options_.starter, arguments(hello, "--serve"));
    return session->run();
  }

  // Without TLS the process with the driver goes on with the peer's socket. From now on it alone
  // asks the daemon.
  Result<> serve_cuda(const Hello &hello) {
    bool plain = connection_.stream().is_plain();
    CKPT_TRY(auto pair, socket_pair());
    int socket = plain ? connection_.stream().descriptor() : pair.second.get();
    CKPT_TRY(pid_t pid, options_.starter.start_cuda(hello.devices, socket, daemon_));
    pair.second.reset();
    CKPT_CHECK(send_message(daemon_, static_cast<u16>(Note::Serves),
                            Writer().put(static_cast<u32>(pid)).bytes()));
    CKPT_CHECK(connection_.send(Frame::Greeting));
    pack(connection_);
    Result<> pumped;
    if (!plain) {
      SocketStream server(std::move(pair.first));
      pumped = pump(connection_.stream(), server);
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) return fail("ckpt-cuda-server has ended; the node's log may say why");
    return pumped;
  }

  Connection &connection_;
  int daemon_;
  const SessionOptions &options_;
};

Result<std::unique_ptr<Stream>> open_stream(UniqueFd peer, const Tls *tls, Tls::Peer &shown) {
  if (tls) {
    int socket = peer.get();
    UniqueFd again(::fcntl(socket, F_DUPFD_CLOEXEC, 3));
    auto deadline = Clock::now() + kHandshakeTime;
    Result<std::unique_ptr<Stream>> s = tls->handshake(std::move(peer), "", deadline, &shown);
    if (!s) close_gently(again.get());  // the peer is to read why
    return s;
  }
  return std::make_unique<SocketStream>(std::move(peer));
}

Result<Identity> identify_by_munge(Connection &c, const CredentialService &munge,
                                   const Binding &binding, CredentialService::Deadline deadline) {
  c.stream().set_deadline(deadline);
  CKPT_TRY(uid_t uid, check_credential(c, munge, binding, deadline));
  c.stream().set_deadline({});
  if (Identity identity = identity_of(uid); identity.account) return identity;
  return fail_with_hint(fmt::format("the program's user has the uid {}, which no user of the node "
                                    "with the devices has",
                                    uid),
                        "munge needs the same users on all nodes; add the user there");
}

Result<Identity> identify(Connection &c, const Tls::Peer &shown, const SessionOptions &options,
                          CredentialService::Deadline deadline) {
  if (options.munge) return identify_by_munge(c, *options.munge, shown.binding, deadline);
  if (options.tls) return identity_named(shown.user);
  CKPT_TRY(ucred credentials, peer_credentials(c.stream().descriptor()));
  return identity_of(credentials.uid);
}

Result<> converse(UniqueFd peer, int daemon, const SessionOptions &options) {
  auto munge_deadline = Clock::now() + kMungeTime;
  Tls::Peer shown;
  CKPT_TRY(std::unique_ptr<Stream> stream, open_stream(std::move(peer), options.tls, shown));
  // Never destroyed, as the relay refers to it.
  auto *connection = new Connection(std::move(stream));
  Identity identity;
  Result<> r = guarded([&]() -> Result<> {
    CKPT_TRY(identity, identify(*connection, shown, options, munge_deadline));
    return Session(*connection, daemon, options).run(identity);
  });
  if (r) return r;
  (void)connection->send(Frame::Refused, body_of(r.error()));
  close_gently(connection->stream().descriptor());
  if (identity.user.empty()) return r;
  return Failure(std::move(r.error()).in(fmt::format("user \"{}\"", identity.user)));
}

}  // namespace

void serve_session(UniqueFd peer, UniqueFd daemon, const SessionOptions &options) {
  ::signal(SIGPIPE, SIG_IGN);
  Result<> r = guarded([&] { return converse(std::move(peer), daemon.get(), options); });
  if (r) return;
  (void)send_message(daemon.get(), static_cast<u16>(Note::Failed),
                     Writer().str(r.error().text()).bytes());
}

}  // namespace ckpt::remote
