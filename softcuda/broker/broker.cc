// SPDX-License-Identifier: Apache-2.0
#include "softcuda/broker/broker.h"

#include <poll.h>

#include <algorithm>
#include <map>

#include "common/base/fnv.h"
#include "softcuda/device/stream.h"

namespace ckpt::softcuda::broker {
namespace {

constexpr int kIdleMilliseconds = 1000;
constexpr i64 kLongestNanoseconds = 600'000'000'000;
// A century: sums of times cannot overflow.
constexpr i64 kLatestNanoseconds = 3'200'000'000'000'000'000;

// Depends on the socket's path alone, so a restored process finds its devices again.
std::array<u8, 16> uuid_of(const std::string &seed, u32 device) {
  std::array<u8, 16> out{};
  u64 h = kFnvStart;
  std::string text = fmt::format("{}#{}", seed, device);
  for (u8 &byte : out) {
    h = fnv1a(text, h);
    byte = static_cast<u8>(h >> 32);
  }
  return out;
}

}  // namespace

Broker::Broker(Configuration c, UniqueFd listener, const std::string &seed)
    : config_(c), listener_(std::move(listener)), started_(device_now()) {
  for (u32 i = 0; i < c.devices; ++i)
    devices_.push_back({fmt::format("ckpt software device {}", i), uuid_of(seed, i), c.bytes});
  engines_.resize(c.devices);
}

Result<> Broker::run() {
  for (;;) {
    std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
    for (const PeerPtr &p : peers_) fds.push_back({p->fd.get(), POLLIN, 0});
    int n = poll(fds.data(), fds.size(), peers_.empty() ? kIdleMilliseconds : -1);
    if (n < 0 && errno != EINTR) return fail_errno("cannot wait for messages");
    if (n == 0) return {};
    std::vector<PeerPtr> ready;
    for (size_t i = 1; n > 0 && i < fds.size(); ++i)
      if (fds[i].revents != 0) ready.push_back(peers_[i - 1]);
    for (const PeerPtr &p : ready)
      if (!handle(p)) disconnected(p);
    if (n > 0 && fds[0].revents != 0) accept();
  }
}

void Broker::accept() {
  Result<UniqueFd> fd = accept_unix(listener_.get());
  if (!fd) return;
  // A client that stops in the middle of a message must not block the others.
  (void)set_receive_timeout(fd->get(), std::chrono::milliseconds(2000));
  auto p = std::make_shared<Peer>();
  Result<ucred> peer = peer_credentials(fd->get());
  p->identity = next_identity_++;
  p->pid = peer ? peer->pid : 0;
  p->fd = std::move(*fd);
  p->bytes.resize(devices_.size());
  peers_.push_back(p);
}

Result<> Broker::handle(const PeerPtr &p) {
  CKPT_TRY(std::optional<Message> m, receive_message(p->fd.get(), kMaxMessage));
  if (!m) return fail("the client disconnected");
  Reader r = m->reader();
  if (p->takes_orders) return answered(*p, r);
  Writer w;
  switch (static_cast<Request>(m->type)) {
    case Request::Hello:
      w.put(static_cast<u32>(devices_.size()));
      for (const DeviceInfo &d : devices_)
        w.str(d.name).raw(d.uuid.data(), d.uuid.size()).put(d.total_bytes);
      return reply(*p, Response::Devices, w);
    case Request::Take: return take(*p, r);
    case Request::Give: return give(*p, r);
    case Request::Info: return info(*p, r);
    case Request::Processes: return processes(*p, r);
    case Request::Serve: p->takes_orders = true; return {};
    case Request::Reserve: return reserve(*p, r);
    case Request::Ask: return ask(p, r);
    case Request::Others: return others(*p);
    case Request::Identify: return identify(*p);
    case Request::Connected: return connected(*p, r);
    case Request::Share: return share(*p, *m);
    case Request::Withdraw: return withdraw(*p, r);
    case Request::Open: return open(*p, r);
    case Request::Hold: return hold(*p, r);
    case Request::Drop: return drop(*p, r);
    case Request::Busy: return busy(*p, r);
    case Request::Times: return times(*p, r);
  }
  return fail("message {} is unknown", m->type);
}

Result<> Broker::reply(Peer &p, Response type, const Writer &w, std::span<const int> fds) {
  return send_message(p.fd.get(), static_cast<u16>(type), w.bytes(), fds);
}

u64 Broker::used(u32 device) const {
  u64 sum = held_.bytes(device);
  for (const PeerPtr &p : peers_) sum += p->bytes[device];
  return sum;
}

u64 Broker::unused(u32 device) const {
  return config_.bytes - std::min(config_.bytes, used(device));
}

Result<> Broker::take(Peer &p, Reader r) {
  u32 device = r.get<u32>();
  u64 bytes = r.get<u64>();
  if (!r.done() || device >= devices_.size()) return fail("a message is malformed");
  bool ok = bytes <= unused(device);
  if (ok) p.bytes[device] += bytes;
  Writer w;
  w.put<u8>(ok);
  return reply(p, Response::Answer, w);
}

Result<> Broker::give(Peer &p, Reader r) {
  u32 device = r.get<u32>();
  u64 bytes = r.get<u64>();
  if (!r.done() || device >= devices_.size() || bytes > p.bytes[device])
    return fail("a message is malformed");
  p.bytes[device] -= bytes;
  return {};
}

Result<> Broker::info(Peer &p, Reader r) {
  u32 device = r.get<u32>();
  if (!r.done() || device >= devices_.size()) return fail("a message is malformed");
  Writer w;
  w.put(config_.bytes).put(unused(device));
  return reply(p, Response::Info, w);
}

Result<> Broker::others(Peer &p) {
  Writer w;
  w.put<u8>(std::ranges::any_of(peers_, [&](const PeerPtr &q) { return q->pid != p.pid; }));
  return reply(p, Response::Answer, w);
}

Result<> Broker::processes(Peer &p, Reader r) {
  u32 device = r.get<u32>();
  if (!r.done() || device >= devices_.size()) return fail("a message is malformed");
  std::map<i32, u64> by_pid;
  for (const PeerPtr &q : peers_)
    if (u64 bytes = q->bytes[device] + held_.bytes_of(q->identity, device); bytes > 0)
      by_pid[q->pid] += bytes;
  Writer w;
  w.put(static_cast<u32>(by_pid.size()));
  for (auto [pid, bytes] : by_pid) w.put(pid).put(bytes);
  return reply(p, Response::Processes, w);
}

Result<> Broker::reserve(Peer &p, Reader r) {
  u32 device = r.get<u32>();
  Job job;
  job.since = r.get<i64>();
  bool sane = job.since >= 0 && job.since <= kLatestNanoseconds;
  for (i64 *span : {&job.kernel, &job.switch_cost, &job.bus, &job.bus_switch_cost}) {
    *span = std::min(r.get<i64>(), kLongestNanoseconds);
    sane = sane && *span >= 0;
  }
  if (!r.done() || device >= devices_.size() || !sane) return fail("a message is malformed");
  Writer w;
  w.put(engines_[device].serve(p.pid, job));
  return reply(p, Response::Time, w);
}

Result<> Broker::busy(Peer &p, Reader r) {
  u32 device = r.get<u32>();
  if (!r.done() || device >= devices_.size()) return fail("a message is malformed");
  const Engines &e = engines_[device];
  i64 now = device_now();
  Writer w;
  w.put(now - started_).put(e.kernel_time(now)).put(e.bus_time(now));
  w.put<u8>(e.runs_kernel(now)).put<u8>(e.uses_bus(now));
  return reply(p, Response::Busy, w);
}

Result<> Broker::times(Peer &p, Reader r) {
  u32 device = r.get<u32>();
  if (!r.done() || device >= devices_.size()) return fail("a message is malformed");
  i64 now = device_now();
  std::map<i32, i64> times = engines_[device].kernel_times(now);
  Writer w;
  w.put(now - started_).put(static_cast<u32>(times.size()));
  for (auto [pid, nanoseconds] : times) w.put(pid).put(nanoseconds);
  return reply(p, Response::Times, w);
}

Result<> Broker::identify(Peer &p) {
  Writer w;
  w.put(p.identity);
  return reply(p, Response::Identity, w);
}

Result<> Broker::connected(Peer &p, Reader r) {
  u64 identity = r.get<u64>();
  if (!r.done()) return fail("a message is malformed");
  Writer w;
  w.put<u8>(std::ranges::any_of(peers_, [&](const PeerPtr &q) { return q->identity == identity; }));
  return reply(p, Response::Answer, w);
}

Result<> Broker::share(Peer &p, Message &m) {
  Reader r = m.reader();
  ByteView description = r.blob();
  if (!r.done() || m.fds.size() != 1 || description.size() > kMaxDescription)
    return fail("a message is malformed");
  Result<ShareId> id =
      shares_.add({p.identity, Bytes(description.begin(), description.end()), std::move(m.fds[0])});
  ShareId sent = id ? *id : ShareId{};
  Writer w;
  w.put<u8>(id.has_value()).raw(sent.data(), sent.size());
  return reply(p, Response::Shared, w);
}

Result<> Broker::hold(Peer &p, Reader r) {
  u64 file = r.get<u64>();
  u32 device = r.get<u32>();
  u64 bytes = r.get<u64>();
  bool own = r.get<u8>() == 1;
  bool sane = r.done() && device < devices_.size() && bytes <= config_.bytes;
  if (!sane || (own && bytes > p.bytes[device])) return fail("a message is malformed");
  if (own) p.bytes[device] -= bytes;
  held_.hold(file, device, bytes, p.identity);
  return {};
}

Result<> Broker::drop(Peer &p, Reader r) {
  u64 file = r.get<u64>();
  if (!r.done()) return fail("a message is malformed");
  held_.drop(file, p.identity);
  return {};
}

Result<> Broker::withdraw(Peer &p, Reader r) {
  std::optional<ShareId> id = read_share_id(r);
  if (!id || !r.done()) return fail("a message is malformed");
  shares_.withdraw(p.identity, *id);
  return {};
}

Result<> Broker::open(Peer &p, Reader r) {
  std::optional<ShareId> id = read_share_id(r);
  if (!id || !r.done()) return fail("a message is malformed");
  const Share *s = shares_.find(*id);
  Writer w;
  w.put<u8>(s != nullptr).put(s != nullptr ? s->owner : 0);
  w.blob(s != nullptr ? ByteView(s->description) : ByteView());
  int fd = s != nullptr ? s->fd.get() : -1;
  return reply(p, Response::Opened, w, {&fd, s != nullptr ? 1u : 0u});
}

// A process executes one order at a time. Meanwhile, other requests get the answer "not known".
Result<> Broker::ask(const PeerPtr &p, Reader r) {
  i32 pid = r.get<i32>();
  ByteView order = r.blob();
  if (!r.done()) return fail("a message is malformed");
  for (const PeerPtr &q : peers_) {
    if (!q->takes_orders || q->pid != pid || q->ticket != 0) continue;
    q->ticket = next_ticket_++;
    q->requester = p;
    Writer w;
    w.put(q->ticket).blob(order);
    if (!send_message(q->fd.get(), static_cast<u16>(Response::Order), w.bytes())) break;
    return {};
  }
  Writer w;
  w.put<u8>(0).blob({});
  return reply(*p, Response::Reply, w);
}

Result<> Broker::answered(Peer &p, Reader r) {
  u32 ticket = r.get<u32>();
  bool last = r.get<u8>() != 0;
  ByteView answer = r.blob();
  if (!r.done() || ticket == 0 || ticket != p.ticket) return fail("a message is malformed");
  if (!last) {
    deliver(p, answer);
    return {};
  }
  p.last_answer.assign(answer.begin(), answer.end());
  p.closing = true;
  return {};
}

void Broker::deliver(Peer &server, ByteView answer) {
  server.ticket = 0;
  PeerPtr requester = server.requester.lock();
  if (!requester) return;
  Writer w;
  w.put<u8>(1).blob(answer);
  (void)reply(*requester, Response::Reply, w);
}

void Broker::disconnected(const PeerPtr &p) {
  std::erase(peers_, p);
  if (std::ranges::none_of(peers_, [&](const PeerPtr &q) { return q->pid == p->pid; }))
    for (Engines &e : engines_) e.forget(p->pid);
  shares_.withdraw_all(p->identity);
  held_.drop_all(p->identity);
  if (p->closing) return deliver(*p, p->last_answer);
  if (p->ticket == 0) return;
  PeerPtr requester = p->requester.lock();
  Writer w;
  w.put<u8>(0).blob({});
  if (requester) (void)reply(*requester, Response::Reply, w);
}

}  // namespace ckpt::softcuda::broker
