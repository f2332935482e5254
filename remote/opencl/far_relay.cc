// SPDX-License-Identifier: Apache-2.0
#include "remote/opencl/far_relay.h"

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <thread>

#include "common/base/shortage.h"
#include "ring/table.h"

namespace ckpt::remote {
namespace {

using ocl::Op;

constexpr u64 kMaxToolStaging = 256u << 20;  // ckpt-dump's has 32 MiB
// Each one needs a place in 32 MiB of staging, so an honest client has fewer.
constexpr size_t kMaxReads = 1u << 16;

void unblock(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

ByteView bytes_of(const auto &value) { return view(&value, sizeof value); }

}  // namespace

void add_reply(Connection::Batch &batch, i32 status, ByteView bytes) {
  u64 bulk = 0;
  u32 length = static_cast<u32>(bytes.size());
  batch.add(Frame::Reply, {bytes_of(status), bytes_of(bulk), bytes_of(length), bytes});
}

FarRelay::FarRelay(Connection &connection, Proxy proxy, MemoryAccount account, Questions questions,
                   Recorder recorder)
    : connection_(connection),
      ring_(std::move(proxy.ring)),
      output_(std::move(proxy.output)),
      errors_(std::move(proxy.errors)),
      account_(std::move(account)),
      questions_(std::move(questions)),
      recorder_(std::move(recorder)) {
  unblock(output_.get());
  unblock(errors_.get());
}

Result<> FarRelay::run(ByteView first) {
  CKPT_TRY(std::thread sender, start_thread([this] { send_from_ring(); }));
  sender.detach();  // both end with the process
  CKPT_TRY(std::thread watcher, start_thread([this] { watch_proxy(); }));
  watcher.detach();
  if (!first.empty()) CKPT_CHECK(carry_out(first));
  for (;;) {
    Result<Connection::Received> frame = connection_.receive();
    if (!frame && (connection_.ended() || stopping_)) return {};
    if (!frame) return Failure(frame.error());
    if (frame->type != Frame::Command) return fail("the program sent a frame out of place");
    CKPT_CHECK(carry_out(frame->body));
  }
}

Result<> FarRelay::carry_out(ByteView body) {
  if (body.size() < sizeof(ocl::CommandHeader)) return fail("the program sent half a command");
  ocl::CommandHeader h;
  std::memcpy(&h, body.data(), sizeof h);
  ByteView payload = body.subspan(sizeof h);
  bool sync = (h.flags & ocl::kSync) != 0;
  Op op = static_cast<Op>(h.op);
  if (op == Op::Park || op == Op::Folder) return fail("the program sent a command out of place");
  CKPT_CHECK(begin_transfer(h, payload));
  {
    std::lock_guard lock(mutex_);
    if (op == Op::Release) {
      transfers_.released(payload);
      Reader r(payload);
      auto kind = r.get<ocl::Kind>();
      account_.released(kind, r.get<u64>());
    }
    if (!account_.admit(h, payload)) {
      round_trip_.reset();
      return sync ? refuse_memory() : Result<>{};
    }
  }
  if (op == Op::Staging) CKPT_CHECK(make_tool_staging(payload));
  return ring_.send(h, payload);
}

// Receives what the command writes, or notes where its answer goes.
Result<> FarRelay::begin_transfer(const ocl::CommandHeader &h, ByteView payload) {
  std::optional<Transfer> t;
  std::optional<Bytes> question = questions_.key(h, payload);
  {
    std::lock_guard lock(mutex_);
    bool sync = (h.flags & ocl::kSync) != 0;
    Op op = static_cast<Op>(h.op);
    if (round_trip_ && (sync || op == Op::Staging || op == Op::StagingEnd))
      return fail("the program sent a command before the answer to the last one");
    t = transfers_.of(h, payload);
    bool reads = t && !t->to_device;
    if (sync) round_trip_ = RoundTrip{h.op, h.made, reads ? t : std::nullopt, std::move(question)};
    if (reads && !place_of(*t)) return fail("the program reads outside of its staging memory");
    if (reads && !sync && h.made != 0) reads_[h.made] = *t;
    if (reads_.size() > kMaxReads) return fail("the program has too many reads under way");
  }
  if (!t || !t->to_device) return {};
  std::byte *place = place_of(*t);
  if (!place) return fail("the program writes outside of its staging memory");
  return connection_.receive_bulk({place, t->bytes});
}

std::byte *FarRelay::place_of(const Transfer &t) {
  if (!t.in_tool_staging) return ring_.staging(t.place, t.bytes);
  u64 size = tool_staging_.size();
  return t.place > size || t.bytes > size - t.place ? nullptr : tool_staging_.data() + t.place;
}

Result<> FarRelay::make_tool_staging(ByteView payload) {
  u64 bytes = Reader(payload).get<u64>();
  if (bytes == 0 || bytes > kMaxToolStaging)
    return fail("the program asks for {} bytes of staging memory; {} are allowed", bytes,
                kMaxToolStaging);
  CKPT_TRY(tool_fd_, make_memfd("ckpt-remote-staging", bytes));
  CKPT_TRY(tool_staging_, Mapping::map(tool_fd_.get(), bytes));
  return ring_.send_fd(ocl::kStagingFd, tool_fd_.get());
}

Result<> FarRelay::refuse_memory() {
  Connection::Batch answer;
  add_reply(answer, CL_MEM_OBJECT_ALLOCATION_FAILURE, {});
  return connection_.send(answer);
}

void FarRelay::send_from_ring() {
  for (;;) {
    Result<bool> any = guarded([this] { return forward(); });
    if (!any) return stop(any.error().what);
    if (!*any) ring_.wait();
  }
}

Result<bool> FarRelay::forward() {
  bool reply = false, any = false;
  {
    std::lock_guard lock(mutex_);
    reply = round_trip_ && ring_.reply_ready();
  }
  const ocl::Completion *c = ring_.next_completion();
  if (!reply && !c) return false;
  CKPT_CHECK(forward_output());
  if (reply) CKPT_CHECK(forward_reply());
  for (; c; c = ring_.next_completion()) {
    CKPT_CHECK(forward_completion(*c));
    ring_.pop_completion();
    any = true;
    if (batch_.size() > kBatchBytes) CKPT_CHECK(connection_.send(batch_));
  }
  if (!batch_.empty()) CKPT_CHECK(connection_.send(batch_));
  return reply || any;
}

Result<> FarRelay::forward_reply() {
  CKPT_TRY(RingClient::Reply reply, ring_.take_reply());
  ByteView bulk;
  {
    std::lock_guard lock(mutex_);
    RoundTrip r = *round_trip_;
    bool ok = reply.status == CL_SUCCESS;
    if (r.reads && ok) bulk = {place_of(*r.reads), r.reads->bytes};
    if (static_cast<Op>(r.op) == Op::CreateImage && ok) transfers_.image_made(r.made, reply.bytes);
    if (!ok && r.made != 0) account_.failed(r.made);
    if (r.question) recorder_(*r.question, reply);
    round_trip_.reset();  // before the answer is sent, after which the next one may come
  }
  u64 bytes = bulk.size();
  u32 length = static_cast<u32>(reply.bytes.size());
  batch_.add(Frame::Reply,
             {bytes_of(reply.status), bytes_of(bytes), bytes_of(length), reply.bytes});
  return connection_.send(batch_, bulk);
}

Result<> FarRelay::forward_completion(const ocl::Completion &c) {
  ByteView bulk;
  {
    std::lock_guard lock(mutex_);
    auto found = reads_.find(c.event);
    if (found != reads_.end()) {
      if (c.status == CL_COMPLETE) bulk = {place_of(found->second), found->second.bytes};
      reads_.erase(found);
    }
  }
  u64 bytes = bulk.size();
  batch_.add(Frame::Completion, {bytes_of(c), bytes_of(bytes)});
  return bulk.empty() ? Result<>{} : connection_.send(batch_, bulk);
}

Result<> FarRelay::forward_output() {
  std::lock_guard lock(output_mutex_);
  u8 which = 0;
  for (UniqueFd *pipe : {&output_, &errors_}) {
    which++;
    std::array<std::byte, 16u << 10> text;
    for (ssize_t n = 1; *pipe && n > 0;) {
      n = ::read(pipe->get(), text.data(), text.size());
      if (n == 0) pipe->reset();
      if (n <= 0) break;
      Connection::Batch one;
      one.add(Frame::Output, {bytes_of(which), ByteView(text.data(), static_cast<size_t>(n))});
      CKPT_CHECK(connection_.send(one));
    }
  }
  return {};
}

void FarRelay::watch_proxy() {
  for (;;) {
    std::array<pollfd, 3> p{pollfd{ring_.socket(), POLLRDHUP, 0}, pollfd{-1, POLLIN, 0},
                            pollfd{-1, POLLIN, 0}};
    {
      std::lock_guard lock(output_mutex_);
      p[1].fd = output_.get();
      p[2].fd = errors_.get();
    }
    if (::poll(p.data(), p.size(), -1) < 0) continue;
    Result<> sent = forward_output();
    if (!sent) return stop(sent.error().what);
    if (p[0].revents != 0) return stop("the OpenCL proxy there has ended");
  }
}

void FarRelay::stop(const std::string &why) {
  if (stopping_.exchange(true)) return;
  (void)connection_.send(Frame::Ended, Writer().str(why).bytes());
  connection_.stream().shut_down();
}

}  // namespace ckpt::remote
