// SPDX-License-Identifier: Apache-2.0
#include "remote/daemon.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/ipc/unix_socket.h"
#include "remote/error_body.h"

namespace ckpt::remote {
namespace {

// Peers that have not been admitted yet. The next ones wait in the queue of the socket.
constexpr size_t kMostGreeting = 64;
constexpr size_t kMaxNote = 64u << 10;
constexpr std::chrono::seconds kNoteTimeout{1};  // a note comes as a whole
constexpr std::chrono::seconds kMungeTrial{10};
constexpr u64 kNetwork = ~u64{0};  // all peers of the network together

sigset_t handled_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int s : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&set, s);
  return set;
}

// In the new process, which is single-threaded as the daemon is.
void leave_daemon() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

Result<> answer(int session, const Result<> &result) {
  if (result) return send_message(session, static_cast<u16>(Note::Granted));
  return send_message(session, static_cast<u16>(Note::Denied), body_of(result.error()));
}

}  // namespace

Daemon::Daemon(DaemonOptions options)
    : options_(std::move(options)), admission_(options_.users, options_.limits) {}

Daemon::~Daemon() {
  for (const Peer &p : peers_) ::kill(p.pid, SIGKILL);
  for (const Peer &p : peers_) ::waitpid(p.pid, nullptr, 0);
  if (unix_) ::unlink(options_.socket.c_str());
}

Result<std::unique_ptr<Daemon>> Daemon::create(DaemonOptions options) {
  std::unique_ptr<Daemon> d(new Daemon(std::move(options)));
  CKPT_CHECK(d->open());
  return d;
}

Result<> Daemon::open() {
  sigset_t set = handled_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC));
  if (!signals_) return fail_errno("cannot wait for signals");
  return listen();
}

// A munged that does not work is an error now and not at the first connection.
Result<> Daemon::set_up_identification() {
  if (!options_.munge) {
    CKPT_TRY(tls_, Tls::load(options_.certificates, Tls::Side::Server));
    return {};
  }
  CKPT_TRY(munge_, Munge::load(options_.munge_socket));
  auto deadline = std::chrono::steady_clock::now() + kMungeTrial;
  CKPT_TRY(std::string credential, munge_->encode({}, ::geteuid(), deadline));
  CKPT_TRY(tls_, Tls::unidentified(Tls::Side::Server));
  return {};
}

Result<> Daemon::listen() {
  if (options_.listen) {
    CKPT_CHECK(set_up_identification());
    CKPT_TRY(tcp_, listen_at(*options_.listen));
  }
  if (options_.socket.empty()) return {};
  CKPT_TRY(unix_, listen_at_path(options_.socket));
  return {};
}

size_t Daemon::greeting() const {
  return static_cast<size_t>(std::ranges::count(peers_, false, &Peer::inside));
}

Result<> Daemon::run() {
  std::vector<pollfd> polled;
  for (;;) {
    bool room = greeting() < kMostGreeting;
    polled.assign({{signals_.get(), POLLIN, 0},
                   {room ? unix_.get() : -1, POLLIN, 0},
                   {room ? tcp_.get() : -1, POLLIN, 0}});
    for (const Peer &p : peers_) polled.push_back({p.session.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR)
      return fail_errno("cannot wait");
    size_t i = 3;
    for (auto p = peers_.begin(); p != peers_.end(); i++, ++p)
      if (polled[i].revents && !serve(*p)) p->session.reset();  // reap() removes it
    if (polled[1].revents) accept(unix_.get(), false);
    if (polled[2].revents) accept(tcp_.get(), true);
    if (!polled[0].revents) continue;
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
    if (info.ssi_signo != SIGCHLD) return {};
    reap();
  }
}

void Daemon::accept(int listener, bool tcp) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  if (tcp) set_up_tcp(socket.get());
  u64 source = kNetwork;
  if (!tcp)
    if (Result<ucred> peer = peer_credentials(socket.get())) source = peer->uid;
  if (Result<> r = start_session(std::move(socket), tcp, source); !r)
    log_failure({0, {}, 0, false, source, {}}, r.error().what);
}

Result<> Daemon::start_session(UniqueFd socket, bool tcp, u64 source) {
  CKPT_TRY(auto pair, socket_pair());
  CKPT_CHECK(set_receive_timeout(pair.first.get(), kNoteTimeout));
  pid_t daemon = ::getpid(), pid = ::fork();
  if (pid < 0) return fail_errno("cannot start a process for a connection");
  if (pid == 0) {
    leave_daemon();
    if (::getppid() != daemon) _exit(1);
    unix_.reset();
    tcp_.reset();
    signals_.reset();
    pair.first.reset();
    for (Peer &p : peers_) p.session.reset();
    serve_session(std::move(socket), std::move(pair.second),
                  {tcp ? &*tls_ : nullptr, tcp && munge_ ? &*munge_ : nullptr, options_.account,
                   options_.starter});
    _exit(0);
  }
  peers_.push_back({pid, std::move(pair.first), ++last_id_, false, source, {}});
  return {};
}

// False: the session has ended, or will.
bool Daemon::serve(Peer &peer) {
  Result<std::optional<Message>> m = receive_message(peer.session.get(), kMaxNote);
  if (!m || !*m) return false;
  return take_note(peer, static_cast<Note>((*m)->type), (*m)->reader());
}

bool Daemon::take_note(Peer &peer, Note note, Reader r) {
  switch (note) {
    case Note::Enter: {
      peer.user = r.str();
      Result<> admitted = admission_.admit(peer.id, peer.user);
      peer.inside = admitted.has_value();
      return answer(peer.session.get(), admitted).has_value();
    }
    case Note::Memory: {
      bool ok = admission_.change_memory(peer.id, r.get<i64>());
      Result<> granted = ok ? Result<>() : fail("the user's limit of memory is reached");
      return answer(peer.session.get(), granted).has_value();
    }
    case Note::Failed: log_failure(peer, r.str()); return true;
    default: return peer.inside && keep_inventory(peer, note, r);
  }
}

bool Daemon::keep_inventory(const Peer &peer, Note note, Reader r) {
  if (note == Note::Listed) {
    inventories_.listed(peer.user, r.get<u64>());
    return r.done();
  }
  Inventories::Owner owner{peer.user, std::string(r.str())};
  switch (note) {
    case Note::Known: {
      const Inventory *known = inventories_.find(owner);
      return send_message(peer.session.get(), static_cast<u16>(Note::Granted),
                          known ? known->encoded() : Inventory().encoded())
          .has_value();
    }
    case Note::Greeted: inventories_.greeted(owner, r.blob()); return r.done();
    case Note::Answered: {
      ByteView key = r.blob();
      i32 status = r.get<i32>();
      ByteView bytes = r.blob();
      if (r.done()) inventories_.answered(owner, key, {status, {bytes.begin(), bytes.end()}});
      return r.done();
    }
    case Note::Changed: inventories_.forget(owner); return true;
    default: return false;
  }
}

void Daemon::log_failure(const Peer &peer, std::string_view why) {
  auto now = std::chrono::duration_cast<LogLimit::Time>(
      std::chrono::steady_clock::now().time_since_epoch());
  std::optional<u64> left_out = log_limit_.admit(now, peer.source);
  if (!left_out) return;
  std::string before = *left_out ? fmt::format(" ({} lines were left out)", *left_out) : "";
  log::warn("a connection failed{}: {}", before, printable(std::string(why)));
}

void Daemon::reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    auto p = std::ranges::find(peers_, pid, &Peer::pid);
    if (p == peers_.end()) continue;
    while (p->session && serve(*p)) {  // its last words
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
      log_failure(*p, "the peer did not identify itself in time");
    admission_.left(p->id);
    peers_.erase(p);
  }
}

}  // namespace ckpt::remote
