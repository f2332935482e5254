// SPDX-License-Identifier: Apache-2.0
#include "remote/server/daemon.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/clock.h"
#include "common/base/fnv.h"
#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/ipc/unix_socket.h"
#include "remote/transport/error_body.h"

namespace ckpt::remote {
namespace {

enum Door { kUnix, kTcp };
constexpr size_t kMaxNote = 64u << 10;
constexpr int kLastWords = 64;  // receptions from a process that has ended
constexpr std::chrono::seconds kMungeTrial{10};

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

bool expects_answer(Note note) {
  return note == Note::Enter || note == Note::Memory || note == Note::Known;
}

}  // namespace

Daemon::Peer::Peer(Listener::Id newcomer, std::string source, pid_t pid, UniqueFd session)
    : pid(pid),
      session(std::move(session)),
      newcomer(newcomer),
      source(std::move(source)),
      notes(kMaxNote) {}

Daemon::Daemon(DaemonOptions options)
    : options_(std::move(options)), admission_(options_.users, options_.limits) {}

Daemon::~Daemon() {
  for (const Peer &p : peers_) ::kill(p.pid, SIGKILL);
  for (const Peer &p : peers_) ::waitpid(p.pid, nullptr, 0);
  if (listener_ && !options_.socket.empty()) ::unlink(options_.socket.c_str());
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
  auto deadline = Clock::now() + kMungeTrial;
  CKPT_TRY(std::string credential, munge_->encode({}, ::geteuid(), deadline));
  CKPT_TRY(tls_, Tls::unidentified(Tls::Side::Server));
  return {};
}

Result<> Daemon::listen() {
  CKPT_TRY(std::unique_ptr<Listener> listener, Listener::create("ckpt-devd", {}));
  if (options_.listen) {
    CKPT_CHECK(set_up_identification());
    CKPT_TRY(UniqueFd tcp, listen_at(*options_.listen));
    CKPT_CHECK(listener->listen(std::move(tcp), kTcp));
  }
  if (!options_.socket.empty()) {
    CKPT_TRY(UniqueFd local, listen_at_path(options_.socket));
    CKPT_CHECK(listener->listen(std::move(local), kUnix));
  }
  listener_ = std::move(listener);
  return {};
}

Result<> Daemon::run() {
  std::vector<pollfd> polled;
  for (;;) {
    polled.assign({{signals_.get(), POLLIN, 0}, {listener_->fd(), POLLIN, 0}});
    for (const Peer &p : peers_) polled.push_back({p.session.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR)
      return fail_errno("cannot wait");
    size_t i = 2;
    for (auto p = peers_.begin(); p != peers_.end(); i++, ++p)
      if (polled[i].revents && !serve(*p)) p->session.reset();  // reap() removes it
    if (polled[1].revents) turn_listener();
    if (!polled[0].revents) continue;
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
    if (info.ssi_signo != SIGCHLD) return {};
    reap();
  }
}

void Daemon::turn_listener() {
  Listener::Turn turn = listener_->turn(Clock::now());
  for (const Listener::Expelled &e : turn.expelled) expel(e);
  for (Listener::Connection &c : turn.spoke) {
    Listener::Id newcomer = c.id;
    std::string source = c.source;
    Result<> started = start_session(std::move(c));
    if (started) continue;
    log_failure(source, started.error().what);
    listener_->left(newcomer);
  }
}

void Daemon::expel(const Listener::Expelled &e) {
  log_failure(e.source, e.late ? "the peer did not identify itself in time"
                               : "the peer was slow to identify itself, and others need its place");
  if (!e.handed_out) return;
  auto p = std::ranges::find(peers_, e.id, &Peer::newcomer);
  if (p != peers_.end()) ::kill(p->pid, SIGKILL);
}

Result<> Daemon::start_session(Listener::Connection c) {
  CKPT_TRY(auto pair, socket_pair());
  CKPT_CHECK(name_senders(pair.first.get()));
  bool tcp = c.door == kTcp;
  if (tcp) set_up_tcp(c.socket.get());
  pid_t daemon = ::getpid(), pid = ::fork();
  if (pid < 0) return fail_errno("cannot start a process for a connection");
  if (pid == 0) {
    leave_daemon();
    if (::getppid() != daemon) _exit(1);
    listener_.reset();
    signals_.reset();
    pair.first.reset();
    for (Peer &p : peers_) p.session.reset();
    serve_session(std::move(c.socket), std::move(pair.second),
                  {tcp ? &*tls_ : nullptr, tcp && munge_ ? &*munge_ : nullptr, options_.account,
                   options_.starter});
    _exit(0);
  }
  peers_.emplace_back(c.id, std::move(c.source), pid, std::move(pair.first));
  return {};
}

// False: the session has ended, or will.
bool Daemon::serve(Peer &peer) {
  Result<bool> more = peer.notes.receive(peer.session.get(), MSG_DONTWAIT);
  if (!more || !*more) return false;
  if (!peer.notes.ready()) return true;
  pid_t sender = 0;
  Message m = peer.notes.take(&sender);
  Note note = static_cast<Note>(m.type);
  if (sender == 0 || (sender != peer.pid && sender != peer.server))
    return refuse_stranger(peer, note, sender);
  return take_note(peer, note, m.reader());
}

// The session reads each answer before it asks again, so there is always room for one.
bool Daemon::answer(const Peer &peer, const Result<> &result) {
  Note note = result ? Note::Granted : Note::Denied;
  return send_message_at_once(peer.session.get(), static_cast<u16>(note),
                              result ? Bytes() : body_of(result.error()))
      .has_value();
}

// Its user has taken the socket from a process of the connection.
bool Daemon::refuse_stranger(const Peer &peer, Note note, pid_t sender) {
  std::string why = fmt::format(
      "process {} has sent a note for a connection of the user \"{}\" that it does not serve",
      sender, peer.user);
  log_failure(peer.source, why);
  return !expects_answer(note) || answer(peer, fail("{}", why));
}

bool Daemon::take_note(Peer &peer, Note note, Reader r) {
  switch (note) {
    case Note::Enter: return answer(peer, admit(peer, r.str()));
    case Note::Memory: {
      bool ok = admission_.change_memory(peer.newcomer, r.get<i64>());
      return answer(peer, ok ? Result<>() : fail("the user's limit of memory is reached"));
    }
    case Note::Failed: log_failure(peer.source, r.str()); return true;
    case Note::Serves:
      if (peer.inside && peer.server == 0) peer.server = static_cast<pid_t>(r.get<u32>());
      return r.done();
    default: return peer.inside && keep_inventory(peer, note, r);
  }
}

// Once, before anything of the user runs in the connection's processes.
Result<> Daemon::admit(Peer &peer, std::string_view user) {
  if (peer.inside) return fail("the user of the connection is \"{}\"", peer.user);
  CKPT_CHECK(admission_.admit(peer.newcomer, std::string(user)));
  peer.user = user;
  peer.inside = true;
  listener_->left(peer.newcomer);
  return {};
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
      return send_message_at_once(peer.session.get(), static_cast<u16>(Note::Granted),
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

void Daemon::log_failure(const std::string &source, std::string_view why) {
  auto now = std::chrono::duration_cast<LogLimit::Time>(Clock::now().time_since_epoch());
  std::optional<u64> left_out = log_limit_.admit(now, fnv1a(source));
  if (!left_out) return;
  std::string before = *left_out ? fmt::format(" ({} lines were left out)", *left_out) : "";
  log::warn("a connection failed{}: {}", before, printable(std::string(why)));
}

// Its last words are what it has sent. Another process may have its end of the socket pair, and
// send without an end.
void Daemon::reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    auto p = std::ranges::find(peers_, pid, &Peer::pid);
    if (p == peers_.end()) continue;
    for (int i = 0; p->session && i < kLastWords && serve(*p); i++) {
    }
    listener_->left(p->newcomer);
    admission_.left(p->newcomer);
    peers_.erase(p);
  }
}

}  // namespace ckpt::remote
