// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/daemon.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/units.h"
#include "common/ipc/unix_socket.h"
#include "manager/daemon/io/bounded_message.h"
#include "manager/daemon/report/metrics.h"
#include "manager/daemon/report/status.h"

namespace ckpt::manager {

namespace in = managed::to_manager;
namespace out = managed::to_program;

namespace {

// Programs that wait for their first message to be read; there is a turn of the loop for each.
constexpr Newcomers::Limits kNewcomers{.waiting = 1024, .waiting_of_source = 256};
constexpr std::chrono::seconds kWarningInterval{60};  // that all connections are in use
constexpr std::chrono::milliseconds kTick{50};        // while a program waits
// After a status, none is sent for this many times the time that it took.
constexpr int kStatusPause = 9;
// Scrapes in between read the same text: every user of the machine may scrape.
constexpr std::chrono::milliseconds kMetricsAge{100};

Result<> check_version(u32 version) {
  if (version == managed::kVersion) return {};
  return fail_with_hint(fmt::format("the Manager speaks version {} of its protocol, not {}",
                                    managed::kVersion, version),
                        "use ckptd, ckpt-run and ckpt-top of the same version of ckpt");
}

}  // namespace

Daemon::Daemon(DaemonOptions options, std::unique_ptr<Meter> meter)
    : options_(std::move(options)),
      measurements_(std::move(meter)),
      policy_(options_.settings, measurements_.gpus()),
      profiles_file_(options_.profiles_file) {}

Result<std::unique_ptr<Daemon>> Daemon::create(DaemonOptions options,
                                               std::unique_ptr<Meter> meter) {
  if (meter->gpus().empty())
    return fail_with_hint("this node has no GPU to manage",
                          "manage OpenCL devices that are not GPUs with --opencl-devices");
  std::unique_ptr<Daemon> d(new Daemon(std::move(options), std::move(meter)));
  CKPT_CHECK(d->listen());
  CKPT_CHECK(d->watch_signals());
  if (!d->options_.journal.empty()) {
    d->journal_.open(d->options_.journal, std::ios::app);
    if (!d->journal_) return fail_errno("cannot write {}", d->options_.journal);
  }
  CKPT_TRY(std::vector<ProfileFacts> profiles, d->profiles_file_.load(d->now()));
  d->policy_.learn(d->now(), profiles);
  d->measure(nullptr);
  if (d->options_.metrics) CKPT_CHECK(d->serve_metrics());
  return d;
}

// A connection that cannot be accepted now stays in the queue of the socket. It is not refused,
// because a refusal is final, while a program that waits in the queue continues unmanaged after a
// time and is accepted later.
Result<> Daemon::listen() {
  CKPT_TRY(UniqueFd socket, socket_file_.listen(options_.socket));
  CKPT_TRY(listener_, Listener::create("ckptd", kNewcomers));
  return listener_->listen(std::move(socket));
}

Result<> Daemon::serve_metrics() {
  CKPT_TRY(metrics_server_, MetricsServer::open(*options_.metrics, [this] { return metrics(); }));
  return {};
}

std::string Daemon::metrics() {
  if (metrics_.empty() || now() - metrics_at_ >= kMetricsAge) {
    measure(nullptr);
    metrics_ = metrics_text(policy_, measurements_.meter(), counters_, measurements_.energy());
    metrics_at_ = now();
  }
  return metrics_;
}

Result<> Daemon::watch_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int s : {SIGINT, SIGTERM}) ::sigaddset(&set, s);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail_errno("cannot create a signalfd");
  return {};
}

Time Daemon::now() const {
  return std::chrono::duration_cast<Time>(Clock::now().time_since_epoch());
}

// ---- the loop

Result<> Daemon::run() {
  while (!ended_) turn();
  profiles_file_.save(policy_.profiles(), now());
  return {};
}

// In milliseconds: until there is something to do without a message; negative: never.
int Daemon::poll_timeout() const {
  Time time = now();
  int most = policy_.waits() ? static_cast<int>(kTick.count()) : -1;
  auto sooner = [&most](int other) {
    if (other >= 0) most = most < 0 ? other : std::min(most, other);
  };
  sooner(metrics_server_ ? metrics_server_->timeout() : -1);
  sooner(profiles_file_.timeout(policy_.profiles(), time));
  sooner(measurements_.timeout(time, policy_));
  for (const Peer &p : peers_)
    if (std::optional<Time> next = next_of(p))
      sooner(static_cast<int>(
          std::chrono::ceil<std::chrono::milliseconds>(std::max(*next - time, Time{0})).count()));
  return most;
}

// When there is something to do for the peer without a message of it.
std::optional<Time> Daemon::next_of(const Peer &peer) const {
  if (peer.ready()) return Time{0};
  return peer.asks() ? next_status_ : peer.read_by();
}

void Daemon::turn() {
  // poll(2) ignores negative descriptors.
  listener_->set_room(room());
  std::vector<pollfd> fds{{listener_->fd(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
  for (const Peer &p : peers_) fds.push_back({p.fd(), p.events(), 0});
  if (metrics_server_) fds.push_back({metrics_server_->fd(), POLLIN, 0});
  if (::poll(fds.data(), fds.size(), poll_timeout()) < 0) return;
  if (fds[1].revents != 0) ended_ = true;
  size_t i = 2;
  for (Peer &p : peers_) serve(p, fds[i++].revents);
  send_statuses();
  if (fds[0].revents != 0) turn_listener();
  if (metrics_server_) metrics_server_->turn();
  tick();
  if (measurements_.timeout(now(), policy_) == 0) measure(nullptr);
  close_connections();
  if (profiles_file_.timeout(policy_.profiles(), now()) == 0)
    profiles_file_.save(policy_.profiles(), now());
}

// By the clock and not when poll(2) times out: a peer may send all the time.
void Daemon::tick() {
  if (!policy_.waits() || now() - last_tick_ < kTick) return;
  last_tick_ = now();
  measure(nullptr);
  Orders orders = policy_.tick(last_tick_);
  counters_.ordered(last_tick_, orders);
  carry_out(orders);
}

size_t Daemon::room() const {
  return options_.connections - std::min(peers_.size(), options_.connections);
}

void Daemon::turn_listener() {
  Listener::Turn turn = listener_->turn(Clock::now());
  for (const Listener::Expelled &e : turn.expelled) expel(e);
  for (Listener::Connection &c : turn.spoke) accept(std::move(c));
  if (room() > 0 || turn.spoke.empty()) return;
  if (said_full_ && now() - *said_full_ < kWarningInterval) return;
  said_full_ = now();
  log::warn("no program can join for now: all {} connections are in use", options_.connections);
}

// Of a peer that has not sent a whole message in time.
void Daemon::expel(const Listener::Expelled &e) {
  for (Peer &p : peers_) {
    if (!e.handed_out || p.newcomer != e.id) continue;
    warn_of(p.uid, fmt::format("closing the connection of process {} (uid {}): it has not sent a "
                               "message in time",
                               p.pid, p.uid));
    close(p);
  }
}

void Daemon::accept(Listener::Connection c) {
  Result<ucred> who = peer_credentials(c.socket.get());
  if (!who) return listener_->left(c.id);
  bool may_stay = has_free_share(who->uid);
  Peer &peer = peers_.emplace_back(std::move(c.socket), next_id_++, who->uid, who->pid, c.id);
  if (!is_allowed(peer.uid))
    refuse(peer, fmt::format("the Manager does not serve the user with uid {}", peer.uid),
           "ask its administrator to admit the user with ckptd --users");
  else if (!may_stay)
    refuse(peer,
           fmt::format(
               "the user with uid {} already has as many connections to the Manager as are free",
               peer.uid),
           "run fewer managed programs at a time");
}

bool Daemon::is_allowed(uid_t uid) const {
  return options_.all_users || uid == 0 || uid == ::geteuid() ||
         std::ranges::find(options_.users, uid) != options_.users.end();
}

// One user alone can have half of all connections, a second user half of the rest, and so on, so no
// user can shut out the others. Root is always admitted.
bool Daemon::has_free_share(uid_t uid) const {
  if (uid == 0) return true;
  return static_cast<size_t>(std::ranges::count(peers_, uid, &Peer::uid)) < room();
}

// ---- peers

void Daemon::serve(Peer &peer, short events) {
  if ((events & POLLOUT) && !peer.flush()) return close(peer);
  bool over = (events & (POLLHUP | POLLERR)) || now() >= peer.read_by().value_or(Time::max());
  if (peer.awaits_status() && over) return close(peer);
  if (!peer.awaits_status() && ((events & ~POLLOUT) || peer.ready())) read_from(peer);
}

// Nothing more is read from a peer that is refused. If its socket is full because the peer does not
// read, the reason is lost.
void Daemon::read_from(Peer &peer) {
  if (std::ranges::find(closing_, peer.id) != closing_.end()) return;
  if (!peer.ready()) {
    Result<bool> more = peer.receive();
    if (!more || !*more) return close(peer);
  }
  if (Result<> heard = process_next(peer); !heard)
    refuse(peer, heard.error().what, heard.error().hint);
}

Result<> Daemon::process_next(Peer &peer) {
  CKPT_TRY(std::optional<Frames::Frame> frame, peer.next());
  if (!frame) return {};
  listener_->left(peer.newcomer);
  CKPT_TRY(managed::ToManager message, managed::decode_to_manager(frame->type, frame->body));
  return process(peer, message);
}

Result<> Daemon::welcome(Peer &peer, const in::Join &m) {
  CKPT_CHECK(check_version(m.version));
  if (m.name.size() > managed::kMaxNameBytes)
    return fail("the program's name has {} bytes, more than {}", m.name.size(),
                managed::kMaxNameBytes);
  const Settings &s = options_.settings;
  bool wants_progress = s.placement != PlacementMode::FirstFit || s.victim == Victim::Cheapest;
  if (!peer.joined)
    CKPT_CHECK(peer.send(
        out::Welcome{managed::kVersion, static_cast<u32>(options_.reconnect_timeout.count())}));
  if (!peer.joined && wants_progress)
    CKPT_CHECK(
        peer.send(out::ReportProgress{static_cast<u32>(s.progress_interval.count() / 1000)}));
  peer.joined = true;
  measurements_.joined(peer);
  return {};
}

Result<> Daemon::process(Peer &peer, const managed::ToManager &message) {
  if (auto *m = std::get_if<in::StatusWanted>(&message)) {
    CKPT_CHECK(check_version(m->version));
    peer.ask_status();
    return {};
  }
  if (auto *m = std::get_if<in::Join>(&message)) CKPT_CHECK(welcome(peer, *m));
  if (auto *m = std::get_if<in::Holder>(&message)) Measurements::note_holder(peer, m->pid);
  bool may_be_first = std::holds_alternative<in::Uses>(message);
  if (!peer.joined && !may_be_first)
    return fail("the first message is {} instead of Join", managed::name_of(message));
  if (std::holds_alternative<in::Ping>(message)) return peer.send(out::Pong{});
  write_journal("from", peer.id, managed::name_of(message));
  if (std::holds_alternative<in::Fin>(message)) measurements_.exits(now(), peer);
  measure(&peer);
  decide(peer, message);
  return {};
}

// One status for all peers that ask, and only as often as it costs little.
void Daemon::send_statuses() {
  Time began = now();
  if (began < next_status_ || std::ranges::none_of(peers_, &Peer::asks)) return;
  measure(nullptr);
  auto frame = std::make_shared<const Bytes>(as_frame(status()));
  for (Peer &p : peers_)
    if (p.asks() && !p.answer(frame, began + options_.reading)) close(p);
  next_status_ = now() + kStatusPause * (now() - began);
}

managed::ToProgram Daemon::status() {
  Users users;
  for (const Peer &p : peers_) users.emplace(p.id, p.uid);
  std::string json =
      status_as_json(policy_, measurements_.meter(), users, now(), measurements_.energy());
  if (json.size() + sizeof(u32) <= managed::kMaxStatusBytes) return out::Status{std::move(json)};
  return out::Refused{fmt::format("the status of this node has {}, which is too large",
                                  mebibytes_needed(json.size())),
                      "read the metrics of ckptd instead (ckptd --metrics)"};
}

void Daemon::refuse(Peer &peer, std::string what, std::string hint) {
  warn_of(peer.uid, fmt::format("refusing the connection of process {} (uid {}): {}", peer.pid,
                                peer.uid, what));
  (void)peer.send(out::Refused{std::move(what), std::move(hint)});
  close(peer);
}

void Daemon::warn_of(uid_t uid, const std::string &what) {
  std::optional<u64> left_out = log_limit_.admit(now(), uid);
  if (!left_out) return;
  if (*left_out > 0)
    log::warn("{} messages about processes of uid {} were left out, because there were too many",
              *left_out, uid);
  log::warn("{}", what);
}

void Daemon::close(Peer &peer) {
  if (std::ranges::find(closing_, peer.id) == closing_.end()) closing_.push_back(peer.id);
}

// The memory of a program that has ended becomes free a moment later, when its driver notices.
// Until then the measurement counts.
void Daemon::close_connections() {
  while (!closing_.empty()) {
    std::vector<ProgramId> dead = std::exchange(closing_, {});
    bool programs = false;
    for (const Peer &peer : peers_) {
      if (std::ranges::find(dead, peer.id) == dead.end()) continue;
      programs = programs || peer.joined;
      listener_->left(peer.newcomer);
      measurements_.disconnected(peer, policy_);
    }
    std::erase_if(peers_,
                  [&](const Peer &p) { return std::ranges::find(dead, p.id) != dead.end(); });
    if (programs) measure(nullptr);
    for (ProgramId id : dead) {
      if (policy_.find(id) != nullptr) write_journal("gone", id, "");
      counters_.gone(id);
      Time time = now();
      Orders orders = policy_.gone(time, id);
      counters_.ordered(time, orders);
      carry_out(orders);
    }
  }
}

// ---- the policy

void Daemon::measure(const Peer *about) { measurements_.report(now(), peers_, about, policy_); }

void Daemon::decide(const Peer &peer, const managed::ToManager &message) {
  Counters::Before before = Counters::before(policy_.find(peer.id));
  Time time = now();
  auto begin = Clock::now();
  Orders orders = policy_.receive(time, peer.id, bounded(peer, message));
  counters_.decided(Clock::now() - begin);
  counters_.heard(time, peer.id, message, before);
  counters_.ordered(time, orders);
  carry_out(orders);
}

void Daemon::carry_out(const Orders &orders) {
  for (const Order &o : orders) {
    write_journal("to", o.to, managed::name_of(o.message));
    for (Peer &p : peers_)
      if (p.id == o.to)
        if (Result<> sent = p.send(o.message); !sent) {
          warn_of(p.uid, fmt::format("closing the connection of process {} (uid {}): {}", p.pid,
                                     p.uid, sent.error().what));
          close(p);
        }
  }
}

void Daemon::write_journal(const char *direction, ProgramId program, const char *message) {
  if (!journal_.is_open() && !log::enabled(log::Level::Debug)) return;
  const Program *p = policy_.find(program);
  std::string line = journal_line(now(), direction, program, message, p);
  log::debug("{}", line);
  if (journal_.is_open()) journal_ << line << std::endl;
}

}  // namespace ckpt::manager
