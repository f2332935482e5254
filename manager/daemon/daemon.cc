// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/ipc.h"
#include "common/log.h"
#include "manager/daemon/metrics.h"
#include "manager/daemon/status.h"

namespace ckpt::manager {

namespace in = managed::to_manager;
namespace out = managed::to_program;

namespace {

constexpr std::chrono::milliseconds kTick{50};  // while anybody waits
// Who knocks is left waiting for that long when there is no descriptor for him.
constexpr std::chrono::milliseconds kDoorPause{200};
constexpr size_t kMostPeers = 4096;
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

managed::ToManager of_user(uid_t uid, const managed::ToManager &message) {
  const auto *m = std::get_if<in::Kind>(&message);
  if (m == nullptr || m->kind == 0) return message;
  return in::Kind{hash_of_user(uid, m->kind)};
}

ucred who_is(int socket) {
  ucred cred{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t n = sizeof cred;
  ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &n);
  return cred;
}

}  // namespace

Daemon::Daemon(DaemonOptions options, std::unique_ptr<Meter> meter)
    : options_(std::move(options)),
      meter_(std::move(meter)),
      policy_(options_.settings, gpus_of(*meter_)),
      kinds_(options_.kinds) {}

Daemon::~Daemon() {
  if (listener_) ::unlink(options_.socket.c_str());
}

Result<std::unique_ptr<Daemon>> Daemon::create(DaemonOptions options,
                                               std::unique_ptr<Meter> meter) {
  if (meter->gpus().empty())
    return fail_with_hint("this node has no GPU to manage",
                          "--opencl-devices names OpenCL devices that are no GPUs");
  std::unique_ptr<Daemon> d(new Daemon(std::move(options), std::move(meter)));
  CKPT_CHECK(d->listen());
  if (!d->options_.journal.empty()) {
    d->journal_.open(d->options_.journal, std::ios::app);
    if (!d->journal_) return fail_errno("cannot write {}", d->options_.journal);
  }
  CKPT_TRY(std::vector<KindFacts> kinds, d->kinds_.recall(d->now()));
  d->policy_.learn(d->now(), kinds);
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

// The file of a ckptd that was killed is still there; the lock tells it from one that lives. Anyone
// may connect: who may speak is decided by uid, with a reason that can be read.
Result<> Daemon::listen() {
  std::string lock = options_.socket + ".lock";
  lock_.reset(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_) return fail_errno("cannot open {}", lock);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) < 0)
    return fail_with_hint(fmt::format("another ckptd listens on {}", options_.socket),
                          "end it, or give this one another --socket");
  ::unlink(options_.socket.c_str());
  CKPT_TRY(listener_, listen_unix(options_.socket));
  if (::chmod(options_.socket.c_str(), 0666) < 0)
    return fail_errno("cannot chmod {}", options_.socket);
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
  kinds_.keep(policy_.kinds(), now());
  return {};
}

// Until something is to be done although nobody has spoken, in milliseconds.
int Daemon::patience() const {
  int most = policy_.waits() ? static_cast<int>(kTick.count()) : -1;
  int http = metrics_server_ ? metrics_server_->timeout() : -1;
  int door = accepts() ? -1 : static_cast<int>(kDoorPause.count());
  int keep = kinds_.timeout(policy_.kinds(), now());
  for (int other : {http, door, keep})
    if (other >= 0) most = most < 0 ? other : std::min(most, other);
  return most;
}

void Daemon::turn() {
  // poll() passes over a negative one.
  std::vector<pollfd> fds{{accepts() ? listener_.get() : -1, POLLIN, 0},
                          {signals_.get(), POLLIN, 0}};
  for (const Peer &p : peers_)
    fds.push_back({p.fd(), static_cast<short>(p.wants_to_send() ? POLLIN | POLLOUT : POLLIN), 0});
  if (metrics_server_) fds.push_back({metrics_server_->fd(), POLLIN, 0});
  if (::poll(fds.data(), fds.size(), patience()) < 0) return;
  if (fds[1].revents != 0) over_ = true;
  size_t i = 2;
  for (Peer &p : peers_) {
    short what = fds[i++].revents;
    if (what & POLLOUT)
      if (!p.flush()) hang_up(p);
    if (what & ~POLLOUT) hear(p);
  }
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
  if (kinds_.timeout(policy_.kinds(), now()) == 0) kinds_.keep(policy_.kinds(), now());
}

// The connection that there is no descriptor for stays in the queue, and poll() would name it again
// at once (accept(2)).
void Daemon::accept() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd && (errno == EMFILE || errno == ENFILE)) {
    if (now() - door_shut_at_ > 10 * kDoorPause)
      log::warn("no program can join for now: {} (LimitNOFILE=, ulimit -n)", std::strerror(errno));
    door_shut_at_ = now();
    return;
  }
  if (!fd || peers_.size() >= kMostPeers) return;
  ucred who = who_is(fd.get());
  Peer &peer = peers_.emplace_back(std::move(fd), next_id_++, who.uid, who.pid);
  if (!may_speak(who.uid))
    refuse(peer, fmt::format("the Manager does not serve the user with uid {}", who.uid),
           "its owner can allow that: ckptd --users");
}

bool Daemon::accepts() const { return now() - door_shut_at_ >= kDoorPause; }

bool Daemon::may_speak(uid_t uid) const {
  return options_.all_users || uid == 0 || uid == ::geteuid() ||
         std::ranges::find(options_.users, uid) != options_.users.end();
}

// ---- peers

void Daemon::hear(Peer &peer) {
  if (std::ranges::find(dead_, peer.id) != dead_.end()) return;
  Result<bool> more = peer.receive();
  if (peer.closing) {
    if (!more || !*more) hang_up(peer);
    return;
  }
  Result<> heard = hear_all(peer);
  if (!heard) refuse(peer, heard.error().what, heard.error().hint);
  if (!more || !*more) hang_up(peer);
}

Result<> Daemon::hear_all(Peer &peer) {
  while (!peer.closing) {
    CKPT_TRY(std::optional<Frames::Frame> frame, peer.next());
    if (!frame) return {};
    CKPT_TRY(managed::ToManager message, managed::decode_to_manager(frame->type, frame->body));
    CKPT_CHECK(hear_one(peer, message));
  }
  return {};
}

Result<> Daemon::welcome(Peer &peer, const in::Join &m) {
  CKPT_CHECK(check_version(m.version));
  if (m.name.size() > managed::kMaxNameBytes) return fail("a name of {} bytes", m.name.size());
  const Settings &s = options_.settings;
  bool wants_progress = s.pairs != Pairing::Any || s.victim == Victim::Cheapest;
  if (!peer.joined)
    CKPT_CHECK(
        peer.send(out::Welcome{managed::kVersion, static_cast<u32>(options_.grace.count())}));
  if (!peer.joined && wants_progress)
    CKPT_CHECK(peer.send(out::Report{static_cast<u32>(s.report.count() / 1000)}));
  peer.joined = true;
  absent_.remove(peer.pid);
  return {};
}

Result<> Daemon::hear_one(Peer &peer, const managed::ToManager &message) {
  if (auto *m = std::get_if<in::StatusWanted>(&message)) {
    CKPT_CHECK(check_version(m->version));
    measure(nullptr);
    return peer.send(out::Status{status_as_json(policy_, *meter_)});
  }
  if (auto *m = std::get_if<in::Join>(&message)) CKPT_CHECK(welcome(peer, *m));
  if (auto *m = std::get_if<in::Holder>(&message)) note_holder(peer, m->pid);
  bool may_be_first = std::holds_alternative<in::Uses>(message);
  if (!peer.joined && !may_be_first)
    return fail("the first message is {} and not Join", managed::name_of(message));
  if (std::holds_alternative<in::Ping>(message)) return peer.send(out::Pong{});
  note("from", peer.id, managed::name_of(message));
  if (std::holds_alternative<in::Fin>(message)) {
    departed_.insert(peer.pid);
    if (peer.holder != 0) departed_.insert(peer.holder);
  }
  measure(&peer);
  decide(peer, message);
  return {};
}

void Daemon::refuse(Peer &peer, std::string what, std::string hint) {
  log::warn("a peer (pid {}, uid {}) is turned away: {}", peer.pid, peer.uid, what);
  peer.closing = true;
  if (!peer.send(out::Refused{std::move(what), std::move(hint)}) || !peer.wants_to_send())
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
    for (const Peer &peer : peers_)
      if (std::ranges::find(dead, peer.id) != dead.end()) remember(peer);
    std::erase_if(peers_,
                  [&](const Peer &p) { return std::ranges::find(dead, p.id) != dead.end(); });
    measure(nullptr);
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

// A program that has ended, or said that it does, may still have its memory for a moment.
void Daemon::measure(const Peer *about) {
  std::set<i32> seen;
  for (const Peer &p : peers_)
    for (pid_t pid : {p.pid, p.holder})
      if (departed_.contains(pid)) seen.insert(pid);
  for (size_t g = 0; g < meter_->gpus().size(); g++) {
    GpuIndex gpu = static_cast<GpuIndex>(g);
    Result<Reading> r = meter_->read(g);
    if (!r) {
      log::warn("{}", r.error().what);
    } else if (!meter_->gpus()[g].measured) {
      u64 absent = std::min(r->free, absent_.bytes(gpu));
      policy_.measured(gpu, r->free - absent, absent > 0);
    } else {
      measure_one(gpu, *r, about, seen);
    }
  }
  departed_ = std::move(seen);
}

void Daemon::measure_one(GpuIndex gpu, const Reading &r, const Peer *about, std::set<i32> &seen) {
  bool foreign = !r.processes, dying = false;
  u64 own = 0;
  for (const Reading::Process &p : r.processes.value_or(std::vector<Reading::Process>{})) {
    if (p.bytes == 0) continue;
    if (about != nullptr && about->has(p.pid)) own += p.bytes;
    bool ours =
        std::ranges::any_of(peers_, [&](const Peer &q) { return q.joined && q.has(p.pid); });
    bool was_ours = departed_.contains(p.pid);
    if (was_ours) seen.insert(p.pid);
    dying = dying || was_ours;
    foreign = foreign || (!ours && !was_ours);
  }
  policy_.measured(gpu, r.free, foreign, dying);
  const Program *p = about != nullptr ? policy_.find(about->id) : nullptr;
  if (p != nullptr && r.processes && p->gpu == gpu) policy_.footprint(about->id, own);
}

// Only a process of the same user can be meant.
void Daemon::note_holder(Peer &peer, u32 pid) {
  struct stat st {};
  bool good =
      pid != 0 && ::stat(fmt::format("/proc/{}", pid).c_str(), &st) == 0 && st.st_uid == peer.uid;
  peer.holder = good ? static_cast<pid_t>(pid) : 0;
}

void Daemon::remember(const Peer &peer) {
  const Program *p = policy_.find(peer.id);
  if (p == nullptr || !p->on_gpu() || p->gpu == kNoGpu) return;
  if (!meter_->gpus()[static_cast<size_t>(p->gpu)].measured)
    absent_.add(peer.pid, p->gpu, p->used + p->ahead);
}

void Daemon::decide(const Peer &peer, const managed::ToManager &message) {
  Counters::Before before = Counters::before(policy_.find(peer.id));
  Time time = now();
  auto begin = std::chrono::steady_clock::now();
  Orders orders = policy_.receive(time, peer.id, of_user(peer.uid, message));
  counters_.decided(std::chrono::steady_clock::now() - begin);
  counters_.heard(time, peer.id, message, before);
  counters_.ordered(time, orders);
  carry_out(orders);
}

void Daemon::carry_out(const Orders &orders) {
  for (const Order &o : orders) {
    note("to", o.to, managed::name_of(o.message));
    for (Peer &p : peers_)
      if (p.id == o.to && !p.closing)
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
