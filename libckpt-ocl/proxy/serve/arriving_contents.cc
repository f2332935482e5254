// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/arriving_contents.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "common/base/fields.h"
#include "common/base/log.h"
#include "common/base/shortage.h"

namespace ckpt::ocl {

using protocol::Type;

namespace {

constexpr size_t kMaxInMessage = 4096;

}  // namespace

ArrivingContents::~ArrivingContents() {
  if (tool_) ::shutdown(tool_.get(), SHUT_RDWR);
  if (loader_.joinable()) loader_.join();
  clear();
}

cl_int ArrivingContents::add(Buffer buffer) {
  bool by_driver = buffer.mem && buffer.queue;
  if (loader_.joinable() || buffer.bytes == 0 || (!by_driver && !buffer.pages) ||
      by_object_.contains(buffer.number)) {
    sound_ = false;
    return CL_INVALID_VALUE;
  }
  if (buffer.mem) ::clRetainMemObject(buffer.mem);
  if (buffer.queue) ::clRetainCommandQueue(buffer.queue);
  by_object_[buffer.number] = buffers_.size();
  for (u64 other : buffer.others) by_object_[other] = buffers_.size();
  buffers_.push_back({std::move(buffer)});
  return CL_SUCCESS;
}

cl_int ArrivingContents::begin(int tool) {
  if (loader_.joinable()) return CL_INVALID_VALUE;
  if (tool < 0 || !sound_) {
    clear();
    return CL_INVALID_VALUE;
  }
  tool_.reset(::fcntl(tool, F_DUPFD_CLOEXEC, 0));
  ended_ = false;
  Result<std::thread> started;
  if (tool_) started = start_thread([this] { load(); });
  if (!tool_ || !started) {
    ended_ = true;
    clear();
    return CL_OUT_OF_HOST_MEMORY;
  }
  loader_ = std::move(*started);
  return CL_SUCCESS;
}

// Not while the loading thread runs.
void ArrivingContents::clear() {
  for (Arriving &b : buffers_) release(b);
  buffers_.clear();
  by_object_.clear();
  sound_ = true;
}

bool ArrivingContents::misses(u64 number) {
  if (ended_.load(std::memory_order_acquire)) return false;
  auto it = by_object_.find(number);
  if (it == by_object_.end()) return false;
  std::lock_guard lock(mutex_);
  return !buffers_[it->second].over();
}

void ArrivingContents::need(u64 number) {
  if (!misses(number)) return;
  size_t i = by_object_.find(number)->second;
  std::unique_lock lock(mutex_);
  Arriving &b = buffers_[i];
  if (!std::exchange(b.asked, true)) {
    lock.unlock();
    tell(Type::ArrivalWanted, static_cast<u32>(i));
    lock.lock();
  }
  changed_.wait(lock, [&] { return b.over() || gone_; });
}

// Others that lie on the buffer keep it, in the program.
void ArrivingContents::forget(u64 number) {
  auto it = by_object_.find(number);
  if (it == by_object_.end() || ended_.load(std::memory_order_acquire)) return;
  size_t i = it->second;
  by_object_.erase(it);
  {
    std::lock_guard lock(mutex_);
    Arriving &b = buffers_[i];
    if (b.number != number || b.over()) return;
    b.dropped = true;
    if (!b.busy) release(b);
  }
  tell(Type::ArrivalDropped, static_cast<u32>(i));
}

void ArrivingContents::load() {
  Result<> loaded = guarded([this] { return load_all(); });
  if (!loaded) log::error("the contents of buffers do not arrive: {}", loaded.error().text());
  if (!all_over()) lost_();
  {
    std::lock_guard lock(mutex_);
    gone_ = true;
  }
  ended_.store(true, std::memory_order_release);
  changed_.notify_all();
}

bool ArrivingContents::all_over() {
  std::lock_guard lock(mutex_);
  return std::ranges::all_of(buffers_, [](const Arriving &b) { return b.over(); });
}

Result<> ArrivingContents::load_all() {
  for (bool first = true; first || !all_over(); first = false) {
    CKPT_TRY(std::optional<Message> m, receive_message(tool_.get(), kMaxInMessage));
    if (!m) return all_over() ? Result<>{} : fail("the tool that sends them has ended");
    CKPT_CHECK(first ? take_staging(*m) : take(*m));
  }
  return {};
}

Result<> ArrivingContents::take_staging(const Message &m) {
  Reader r = m.reader();
  slots_ = r.get<u32>();
  slot_bytes_ = r.get<u32>();
  if (static_cast<Type>(m.type) != Type::Load || !r.done() || m.fds.size() != 1)
    return fail("the tool has sent no staging memory");
  CKPT_TRY(staging_, Mapping::map(m.fds[0].get(), u64{slots_} * slot_bytes_));
  return {};
}

std::optional<ArrivingContents::Piece> ArrivingContents::piece_of(const Message &m) const {
  Reader r = m.reader();
  Piece p;
  p.slot = r.get<u32>();
  p.buffer = r.get<u32>();
  p.offset = r.get<u64>();
  p.bytes = r.get<u32>();
  if (static_cast<Type>(m.type) != Type::SlotFull || !r.done() || p.slot >= slots_ ||
      p.bytes == 0 || p.bytes > slot_bytes_ || p.buffer >= buffers_.size())
    return std::nullopt;
  const Arriving &b = buffers_[p.buffer];
  bool fits = p.bytes <= b.bytes && p.offset <= b.bytes - p.bytes;
  return fits ? std::optional(p) : std::nullopt;
}

Result<> ArrivingContents::take(const Message &m) {
  std::optional<Piece> p = piece_of(m);
  if (!p) return fail("the tool has sent a malformed message of type {}", m.type);
  // That the tool has ended, load_all() sees when it has read what came before.
  Result<> written = write(*p);
  if (written) {
    tell(Type::SlotFree, p->slot);
  } else {
    Writer body;
    body.str(written.error().what).str({});
    std::lock_guard lock(send_mutex_);
    (void)send_message(tool_.get(), static_cast<u16>(Type::Failed), body.bytes());
  }
  return {};
}

// The mutex is not held while the device is busy.
Result<> ArrivingContents::write(const Piece &p) {
  std::unique_lock lock(mutex_);
  Arriving &b = buffers_[p.buffer];
  if (b.over()) return {};
  b.busy = true;
  lock.unlock();
  const std::byte *from = staging_.data() + u64{p.slot} * slot_bytes_;
  cl_int status = CL_SUCCESS;
  if (b.pages)
    std::memcpy(b.pages + p.offset, from, p.bytes);
  else
    status = ::clEnqueueWriteBuffer(b.queue, b.mem, CL_TRUE, p.offset, p.bytes, from, 0, nullptr,
                                    nullptr);
  lock.lock();
  b.busy = false;
  if (status == CL_SUCCESS) b.there += std::min<u64>(p.bytes, b.bytes - b.there);
  if (b.over()) release(b);
  changed_.notify_all();
  if (status == CL_SUCCESS || b.dropped) return {};
  return fail("cannot write {} bytes to buffer {}: OpenCL error {}", p.bytes, b.number, status);
}

void ArrivingContents::tell(protocol::Type type, u32 number) {
  std::lock_guard lock(send_mutex_);
  (void)send_message(tool_.get(), static_cast<u16>(type), Writer().put(number).bytes());
}

void ArrivingContents::release(Arriving &b) {
  release_handle(Kind::Mem, std::exchange(b.mem, nullptr));
  release_handle(Kind::Queue, std::exchange(b.queue, nullptr));
}

}  // namespace ckpt::ocl
