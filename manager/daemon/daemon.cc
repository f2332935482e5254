// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/daemon.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/log.h"
#include "manager/daemon/report/metrics.h"
#include "manager/daemon/report/status.h"

namespace ckpt::manager {

namespace in = managed::to_manager;
namespace out = managed::to_program;

namespace {

constexpr std::chrono::milliseconds kTick{50};  // while anybody waits
// After a status comes this many times the time that it took without one.
constexpr int kStatusPause = 9;
// Who scrapes more often than that reads the same again: anybody on the machine may.
constexpr std::chrono::milliseconds kMetricsAge{100};

std::vector<Gpu> gpus_of(const Meter &meter) {
  std::vector<Gpu> all;
  for (const MeteredGpu &g : meter.gpus())
    all.push_back({.uuid = g.uuid,
                   .total = g.total,
                   .free = g.measured ? 0 : g.total,
                   .apis = g.apis,
                   .measured = g.measured});
  return all;
}

Result<> check_version(u32 version) {
  if (version == managed::kVersion) return {};
  return fail_with_hint(fmt::format("the Manager speaks version {} of its protocol, not {}",
                                    managed::kVersion, version),
                        "use the ckptd and the ckpt-run of one version of ckpt");
}

// Nobody makes us keep and show a long story.
managed::ToManager as_kept(uid_t uid, managed::ToManager message) {
  auto cut = [](std::string &text) {
    if (text.size() > managed::kMaxReasonBytes) text.resize(managed::kMaxReasonBytes);
  };
  if (auto *m = std::get_if<in::Workload>(&message); m != nullptr && m->hash != 0)
    m->hash = hash_of_user(uid, m->hash);
  if (auto *m = std::get_if<in::Failed>(&message)) cut(m->what);
  if (auto *m = std::get_if<in::Unsuited>(&message)) cut(m->why);
  return message;
}

}  // namespace

Daemon::Daemon(DaemonOptions options, std::unique_ptr<Meter> meter)
    : options_(std::move(options)),
      meter_(std::move(meter)),
      policy_(options_.settings, gpus_of(*meter_)),
      profiles_file_(options_.profiles_file),
      listener_(options_.connections) {}

Result<std::unique_ptr<Daemon>> Daemon::create(DaemonOptions options,
                                               std::unique_ptr<Meter> meter) {
  if (meter->gpus().empty())
    return fail_with_hint("this node has no GPU to manage",
                          "--opencl-devices names OpenCL devices that are no GPUs");
  std::unique_ptr<Daemon> d(new Daemon(std::move(options), std::move(meter)));
  CKPT_CHECK(d->listener_.open(d->options_.socket));
  CKPT_CHECK(d->watch_signals());
  if (!d->options_.journal.empty()) {
    d->journal_.open(d->options_.journal, std::ios::app);
    if (!d->journal_) return fail_errno("cannot write {}", d->options_.journal);
  }
  CKPT_TRY(std::vector<ProfileFacts> profiles, d->profiles_file_.recall(d->now()));
  d->policy_.learn(d->now(), profiles);
  d->measure(nullptr);
  if (d->options_.metrics_port != 0) CKPT_CHECK(d->serve_metrics());
  return d;
}

Result<> Daemon::serve_metrics() {
  CKPT_TRY(metrics_server_,
           MetricsServer::open(options_.metrics_port, [this] { return metrics(); }));
  return {};
}

std::string Daemon::metrics() {
  if (metrics_.empty() || now() - metrics_at_ >= kMetricsAge) {
    measure(nullptr);
    metrics_ = metrics_text(policy_, *meter_, counters_);
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
  if (!signals_) return fail_errno("cannot make a signalfd");
  return {};
}

Time Daemon::now() const {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

// ---- the loop

Result<> Daemon::run() {
  while (!over_) turn();
  profiles_file_.keep(policy_.profiles(), now());
  return {};
}

// Until something is to be done although nobody has spoken, in milliseconds.
int Daemon::patience() const {
  Time time = now();
  int most = policy_.waits() ? static_cast<int>(kTick.count()) : -1;
  auto sooner = [&most](int other) {
    if (other >= 0) most = most < 0 ? other : std::min(most, other);
  };
  sooner(metrics_server_ ? metrics_server_->timeout() : -1);
  sooner(listener_.timeout(time));
  sooner(profiles_file_.timeout(policy_.profiles(), time));
  for (const Peer &p : peers_)
    if (std::optional<Time> next = next_of(p))
      sooner(static_cast<int>(
          std::chrono::ceil<std::chrono::milliseconds>(std::max(*next - time, Time{0})).count()));
  return most;
}

// When there is something to do for it although it says nothing.
std::optional<Time> Daemon::next_of(const Peer &peer) const {
  if (peer.ready()) return Time{0};
  return peer.asks() ? next_status_ : peer.read_by();
}

void Daemon::turn() {
  // poll() passes over a negative one.
  std::vector<pollfd> fds{{listener_.fd(now(), peers_.size()), POLLIN, 0},
                          {signals_.get(), POLLIN, 0}};
  for (const Peer &p : peers_) fds.push_back({p.fd(), p.events(), 0});
  if (metrics_server_) fds.push_back({metrics_server_->fd(), POLLIN, 0});
  if (::poll(fds.data(), fds.size(), patience()) < 0) return;
  if (fds[1].revents != 0) over_ = true;
  size_t i = 2;
  for (Peer &p : peers_) serve(p, fds[i++].revents);
  answer_who_asks();
  if (fds[0].revents != 0) accept();
  if (metrics_server_) metrics_server_->turn();
  // By the clock and not when all are silent: somebody may talk all the time.
  if (policy_.waits() && now() - last_tick_ >= kTick) {
    last_tick_ = now();
    measure(nullptr);
    Orders orders = policy_.tick(last_tick_);
    counters_.ordered(last_tick_, orders);
    carry_out(orders);
  }
  drop_the_dead();
  if (profiles_file_.timeout(policy_.profiles(), now()) == 0)
    profiles_file_.keep(policy_.profiles(), now());
}

void Daemon::accept() {
  std::optional<Listener::Guest> guest = listener_.accept(now());
  if (!guest) return;
  bool may_stay = has_its_share(guest->uid);
  Peer &peer = peers_.emplace_back(std::move(guest->socket), next_id_++, guest->uid, guest->pid);
  if (!may_speak(peer.uid))
    refuse(peer, fmt::format("the Manager does not serve the user with uid {}", peer.uid),
           "its owner can allow that: ckptd --users");
  else if (!may_stay)
    refuse(peer,
           fmt::format("the user with uid {} has as many connections to the Manager as are left "
                       "for all others",
                       peer.uid),
           "start fewer programs at a time");
}

bool Daemon::may_speak(uid_t uid) const {
  return options_.all_users || uid == 0 || uid == ::geteuid() ||
         std::ranges::find(options_.users, uid) != options_.users.end();
}

// One user alone can have half of all, the next one half of the rest, and so on: none can shut the
// others out. Root can always look.
bool Daemon::has_its_share(uid_t uid) const {
  if (uid == 0) return true;
  size_t free = options_.connections - peers_.size();
  return static_cast<size_t>(std::ranges::count(peers_, uid, &Peer::uid)) < free;
}

// ---- peers

void Daemon::serve(Peer &peer, short events) {
  if ((events & POLLOUT) && !peer.flush()) return hang_up(peer);
  bool over = (events & (POLLHUP | POLLERR)) || now() >= peer.read_by().value_or(Time::max());
  if (peer.awaits_status() && over) return hang_up(peer);
  if (!peer.awaits_status() && ((events & ~POLLOUT) || peer.ready())) hear(peer);
}

// Who is refused is not listened to any longer. What the socket does not take of the reason is
// lost: it is full of what this peer has not read.
void Daemon::hear(Peer &peer) {
  if (std::ranges::find(dead_, peer.id) != dead_.end()) return;
  if (!peer.ready()) {
    Result<bool> more = peer.receive();
    if (!more || !*more) return hang_up(peer);
  }
  if (Result<> heard = hear_next(peer); !heard)
    refuse(peer, heard.error().what, heard.error().hint);
}

Result<> Daemon::hear_next(Peer &peer) {
  CKPT_TRY(std::optional<Frames::Frame> frame, peer.next());
  if (!frame) return {};
  CKPT_TRY(managed::ToManager message, managed::decode_to_manager(frame->type, frame->body));
  return hear_one(peer, message);
}

Result<> Daemon::welcome(Peer &peer, const in::Join &m) {
  CKPT_CHECK(check_version(m.version));
  if (m.name.size() > managed::kMaxNameBytes) return fail("a name of {} bytes", m.name.size());
  const Settings &s = options_.settings;
  bool wants_progress = s.placement != PlacementMode::FirstFit || s.victim == Victim::Cheapest;
  if (!peer.joined)
    CKPT_CHECK(peer.send(
        out::Welcome{managed::kVersion, static_cast<u32>(options_.reconnect_timeout.count())}));
  if (!peer.joined && wants_progress)
    CKPT_CHECK(
        peer.send(out::ReportProgress{static_cast<u32>(s.progress_interval.count() / 1000)}));
  peer.joined = true;
  disconnected_.remove(peer.pid);
  return {};
}

Result<> Daemon::hear_one(Peer &peer, const managed::ToManager &message) {
  if (auto *m = std::get_if<in::StatusWanted>(&message)) {
    CKPT_CHECK(check_version(m->version));
    peer.ask_status();
    return {};
  }
  if (auto *m = std::get_if<in::Join>(&message)) CKPT_CHECK(welcome(peer, *m));
  if (auto *m = std::get_if<in::Holder>(&message)) note_holder(peer, m->pid);
  bool may_be_first = std::holds_alternative<in::Uses>(message);
  if (!peer.joined && !may_be_first)
    return fail("the first message is {} and not Join", managed::name_of(message));
  if (std::holds_alternative<in::Ping>(message)) return peer.send(out::Pong{});
  note("from", peer.id, managed::name_of(message));
  if (std::holds_alternative<in::Fin>(message)) {
    exiting_.add(now(), peer.pid);
    if (peer.holder != 0) exiting_.add(now(), peer.holder);
  }
  measure(&peer);
  decide(peer, message);
  return {};
}

// All of them at once, and not more often than it costs little.
void Daemon::answer_who_asks() {
  Time began = now();
  if (began < next_status_ || std::ranges::none_of(peers_, &Peer::asks)) return;
  measure(nullptr);
  auto frame = std::make_shared<const Bytes>(as_frame(status()));
  for (Peer &p : peers_)
    if (p.asks() && !p.answer(frame, began + options_.reading)) hang_up(p);
  next_status_ = now() + kStatusPause * (now() - began);
}

managed::ToProgram Daemon::status() {
  std::string json = status_as_json(policy_, *meter_);
  if (json.size() + sizeof(u32) <= managed::kMaxStatusBytes) return out::Status{std::move(json)};
  return out::Refused{fmt::format("the state of this node takes {} MiB to tell", json.size() >> 20),
                      "ckptd --metrics has the figures"};
}

void Daemon::refuse(Peer &peer, std::string what, std::string hint) {
  log::warn("a peer (pid {}, uid {}) is turned away: {}", peer.pid, peer.uid, what);
  (void)peer.send(out::Refused{std::move(what), std::move(hint)});
  hang_up(peer);
}

void Daemon::hang_up(Peer &peer) {
  if (std::ranges::find(dead_, peer.id) == dead_.end()) dead_.push_back(peer.id);
}

// What a dead program had comes free a moment later, when its driver has seen it, too; until then
// it is what was measured that counts.
void Daemon::drop_the_dead() {
  while (!dead_.empty()) {
    std::vector<ProgramId> dead = std::exchange(dead_, {});
    bool programs = false;
    for (const Peer &peer : peers_) {
      if (std::ranges::find(dead, peer.id) == dead.end()) continue;
      programs = programs || peer.joined;
      remember(peer);
    }
    std::erase_if(peers_,
                  [&](const Peer &p) { return std::ranges::find(dead, p.id) != dead.end(); });
    if (programs) measure(nullptr);
    for (ProgramId id : dead) {
      if (policy_.find(id) != nullptr) note("gone", id, "");
      counters_.gone(id);
      Time time = now();
      Orders orders = policy_.gone(time, id);
      counters_.ordered(time, orders);
      carry_out(orders);
    }
  }
}

// ---- the policy

void Daemon::decide(const Peer &peer, const managed::ToManager &message) {
  Counters::Before before = Counters::before(policy_.find(peer.id));
  Time time = now();
  auto begin = std::chrono::steady_clock::now();
  Orders orders = policy_.receive(time, peer.id, as_kept(peer.uid, message));
  counters_.decided(std::chrono::steady_clock::now() - begin);
  counters_.heard(time, peer.id, message, before);
  counters_.ordered(time, orders);
  carry_out(orders);
}

void Daemon::carry_out(const Orders &orders) {
  for (const Order &o : orders) {
    note("to", o.to, managed::name_of(o.message));
    for (Peer &p : peers_)
      if (p.id == o.to)
        if (Result<> sent = p.send(o.message); !sent) {
          log::warn("the program of pid {} is given up: {}", p.pid, sent.error().what);
          hang_up(p);
        }
  }
}

void Daemon::note(const char *direction, ProgramId program, const char *message) {
  if (!journal_.is_open() && !log::enabled(log::Level::Debug)) return;
  const Program *p = policy_.find(program);
  std::string line = journal_line(now(), direction, program, message, p);
  log::debug("{}", line);
  if (journal_.is_open()) journal_ << line << std::endl;
}

}  // namespace ckpt::manager
