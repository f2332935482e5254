// SPDX-License-Identifier: Apache-2.0
#include "remote/opencl/near_relay.h"

#include <unistd.h>

#include <thread>

#include "agent/protocol.h"
#include "common/base/fields.h"
#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/base/units.h"
#include "ring/table.h"

namespace ckpt::remote {
namespace {

using ocl::Op;

}  // namespace

NearRelay::NearRelay(ocl::Channel channel, std::unique_ptr<Connection> connection, Session session)
    : channel_(std::move(channel)),
      connection_(std::move(connection)),
      session_(std::move(session)) {}

Result<> NearRelay::run(UniqueFd client) {
  CKPT_CHECK(greet(std::move(client)));
  CKPT_TRY(std::thread watcher, start_thread([this] {
             channel_.wait_for_end_of_client();
             _exit(0);
           }));
  watcher.detach();  // both end with the process
  CKPT_TRY(std::thread receiver, start_thread([this] { receive(); }));
  receiver.detach();
  for (;;) {
    serve();
    if (!parked_ || !wait_for_return()) return {};
  }
}

Result<> NearRelay::greet(UniqueFd client) {
  Writer w;
  w.put(ocl::kWireVersion).put(session_.token);
  w.raw(session_.platforms.data(), session_.platforms.size());
  w.put(u32{0}).put(u8{1});  // no process of this node; the files are of another node
  int fd = channel_.memory_fd();
  CKPT_CHECK(send_message(client.get(), ocl::kGreeting, w.bytes(), std::span(&fd, 1)));
  channel_.connect(std::move(client));
  return {};
}

void NearRelay::serve() {
  parked_ = false;
  while (!parked_) {
    if (!channel_.ready()) flush();
    std::optional<ocl::Channel::Incoming> c = channel_.next();
    if (!c) return;
    carry_out(*c);
    channel_.done();
  }
}

bool NearRelay::wait_for_return() {
  channel_.connect({});
  auto m = receive_message(session_.control.get());
  if (!m || !*m || (*m)->type != static_cast<u16>(protocol::Type::Adopt) || (*m)->fds.size() != 1)
    return false;
  auto r = greet(std::move((*m)->fds[0]));
  if (!r) log::error(r.error());
  return r.has_value();
}

void NearRelay::carry_out(const ocl::Channel::Incoming &c) {
  bool sync = (c.header.flags & ocl::kSync) != 0;
  switch (static_cast<Op>(c.header.op)) {
    case Op::Folder: return;  // a folder of this node
    case Op::Park:
      flush();
      parked_ = true;
      (void)channel_.reply(CL_SUCCESS);
      return;
    case Op::Staging:
      if (!take_tool_staging(c.payload)) return (void)channel_.reply(CL_INVALID_VALUE);
      break;
    case Op::StagingEnd: tool_staging_.reset(); break;
    default: break;
  }
  if (c.payload.size() <= kMaxBody - sizeof c.header) return carry_over(c);
  log::error("a call with {} of arguments is too long for a device of another node",
             mebibytes_needed(c.payload.size()));
  if (sync) (void)channel_.reply(CL_OUT_OF_HOST_MEMORY);
}

void NearRelay::carry_over(const ocl::Channel::Incoming &c) {
  std::optional<Transfer> t = note(c);
  batch_.add(Frame::Command, {view(&c.header, sizeof c.header), c.payload});
  if (t && !place_of(*t)) lost("the program's ring is damaged");
  if (t && t->to_device)
    flush({place_of(*t), t->bytes});
  else if (batch_.size() > kBatchBytes)
    flush();
}

// What the command moves. Its answer may come as soon as it is sent.
std::optional<Transfer> NearRelay::note(const ocl::Channel::Incoming &c) {
  std::lock_guard lock(mutex_);
  std::optional<Transfer> t = transfers_.of(c.header, c.payload);
  std::optional<Transfer> reads = t && !t->to_device ? t : std::nullopt;
  if (c.header.flags & ocl::kSync)
    round_trip_ = {c.header.op, c.header.made, reads, true};
  else if (reads && c.header.made != 0)
    reads_[c.header.made] = *reads;
  if (static_cast<Op>(c.header.op) == Op::Release) transfers_.released(c.payload);
  return t;
}

bool NearRelay::take_tool_staging(ByteView payload) {
  u64 bytes = Reader(payload).get<u64>();
  auto m = receive_message(channel_.socket());
  if (!m || !*m || (*m)->type != ocl::kStagingFd || (*m)->fds.size() != 1) return false;
  Result<Mapping> mapping = Mapping::map((*m)->fds[0].get(), bytes);
  if (!mapping) log::error(mapping.error());
  if (mapping) tool_staging_ = std::move(*mapping);
  return mapping.has_value();
}

std::byte *NearRelay::place_of(const Transfer &t) {
  if (!t.in_tool_staging) return channel_.staging(t.place, t.bytes);
  bool inside = lies_within(t.place, t.bytes, tool_staging_.size());
  return inside ? tool_staging_.data() + t.place : nullptr;
}

void NearRelay::flush(ByteView bulk) {
  if (batch_.empty()) return;
  if (Result<> sent = connection_->send(batch_, bulk); !sent) lost(sent.error().text());
}

void NearRelay::receive() {
  for (;;)
    if (Result<> r = guarded([this] { return receive_one(); }); !r) lost(r.error().text());
}

Result<> NearRelay::receive_one() {
  CKPT_TRY(Connection::Received frame, connection_->receive());
  Reader r(frame.body);
  switch (frame.type) {
    case Frame::Reply: return receive_reply(r);
    case Frame::Completion: return receive_completion(r);
    case Frame::Output: {
      int stream = r.get<u8>() == 1 ? STDOUT_FILENO : STDERR_FILENO;
      (void)write_all(stream, r.raw(r.left()));
      return {};
    }
    case Frame::Ended: return fail("{}", r.str());
    default: return fail("it sent a frame of an unknown type");
  }
}

Result<> NearRelay::receive_reply(Reader r) {
  i32 status = r.get<i32>();
  u64 bulk = r.get<u64>();
  ByteView bytes = r.blob();
  if (!r.done()) return fail("it sent a malformed reply");
  RoundTrip done;
  {
    std::lock_guard lock(mutex_);
    done = std::exchange(round_trip_, {});
    if (!done.waits) return fail("it sent a reply that nothing waits for");
    if (static_cast<Op>(done.op) == Op::CreateImage && status == CL_SUCCESS &&
        !transfers_.image_made(done.made, bytes))
      return fail("it made an image of an unknown kind");
  }
  CKPT_CHECK(receive_bulk(done.reads, bulk));
  (void)channel_.reply(status, bytes);
  return {};
}

Result<> NearRelay::receive_completion(Reader r) {
  ocl::Completion c{};
  ByteView raw = r.raw(sizeof c);
  u64 bulk = r.get<u64>();
  if (!r.done()) return fail("it sent a malformed completion");
  std::memcpy(&c, raw.data(), sizeof c);
  std::optional<Transfer> reads;
  {
    std::lock_guard lock(mutex_);
    if (auto found = reads_.find(c.event); found != reads_.end()) {
      reads = found->second;
      reads_.erase(found);
    }
  }
  if (reads && c.status == CL_COMPLETE && bulk != reads->bytes)
    return fail("it sent a completion without its bytes");
  CKPT_CHECK(receive_bulk(reads, bulk));
  channel_.complete(c);
  return {};
}

Result<> NearRelay::receive_bulk(const std::optional<Transfer> &t, u64 bytes) {
  if (bytes == 0) return {};
  std::byte *place = t ? place_of(*t) : nullptr;
  if (!place || t->bytes != bytes) return fail("it sent bytes that nothing asked for");
  return connection_->receive_bulk({place, bytes});
}

void NearRelay::lost(const std::string &why) {
  static std::mutex once;
  once.lock();  // never released: the first reason is the one to be told
  log::error("lost the devices of {}: {}; OpenCL calls of this program fail until it has others",
             session_.node, why);
  _exit(1);
}

}  // namespace ckpt::remote
