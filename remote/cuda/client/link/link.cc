// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/link/link.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "common/base/log.h"
#include "remote/cuda/client/link/call_counts.h"
#include "remote/cuda/client/link/gate.h"
#include "remote/cuda/client/link/native.h"
#include "remote/cuda/client/link/own_thread.h"
#include "remote/transport/error_body.h"

namespace ckpt::remote::cuda {
namespace {

// The caller itself sends a batch of this size.
constexpr size_t kFullBatch = 256u << 10;
// How long the sender looks for further calls before it sleeps: waking it costs the caller more.
constexpr std::chrono::microseconds kPause{50};
constexpr int kPauses = 20;

// The thread's lane; its end is told to the server.
struct ThisLane {
  u32 number;
  ThisLane() {
    static std::atomic<u32> last{0};
    number = ++last;
    if (gate().within()) link().count_program_lane();
  }
  ~ThisLane() { link().send(static_cast<u16>(Op::LaneEnded), 0, {}); }
};
u32 lane() {
  thread_local ThisLane lane;
  return lane.number;
}

// What programs get is a value of the enumeration, whatever the server says.
CUresult result_of(i32 status) {
  return status >= 0 && status <= CUDA_ERROR_UNKNOWN ? static_cast<CUresult>(status)
                                                     : CUDA_ERROR_UNKNOWN;
}

u64 bytes_of_parts(Link::Parts parts) {
  u64 bytes = 0;
  for (const ByteView &part : parts) bytes += part.size();
  return bytes;
}

}  // namespace

Link &link() {
  static Link *const kLink = new Link;
  return *kLink;
}

void Link::lose(const Error &why) {
  CUresult none = CUDA_SUCCESS;
  std::lock_guard lock(why_mutex_);
  if (!lost_.compare_exchange_strong(none, CUDA_ERROR_DEVICE_UNAVAILABLE)) return;
  why_lost_ = why.text();
  if (in_use_) log::error("the CUDA device is lost: {}; every later call fails", why_lost_);
}

std::string Link::why_lost() {
  std::lock_guard lock(why_mutex_);
  return why_lost_;
}

void Link::resume() {
  std::lock_guard lock(why_mutex_);
  in_use_ = true;
  if (connected() && lost() == CUDA_SUCCESS) return;
  lost_ = CUDA_ERROR_DEVICE_UNAVAILABLE;
  if (why_lost_.empty()) why_lost_ = "an earlier checkpoint or move has failed";
  log::error("the CUDA device is lost: {}; every later call fails", why_lost_);
}

CUresult Link::malformed() {
  lose({"it sent a reply that is none of this protocol", "use the same version of ckpt there"});
  return lost();
}

void Link::use_own_driver(DeviceNumbers devices) {
  auto at_host_call = [this](u64 token) {
    std::lock_guard lock(mutex_);
    host_calls_.push_back(token);
    arrived_.notify_all();
  };
  own_ = std::make_unique<Native>(std::move(devices), own_driver().arena, at_host_call);
  native_ = own_.get();
  own_parts_.clear();
}

void Link::leave_own_driver() {
  {
    std::lock_guard lock(why_mutex_);
    in_use_ = false;
  }
  split({});
  native_ = nullptr;
  own_.reset();
}

void Link::split(std::vector<bool> here, DeviceOf device_of) {
  split_ = false;
  here_ = std::move(here);
  device_of_ = device_of;
  split_ = !here_.empty();
}

// What is of no context and no device is asked of the server.
bool Link::is_here(const Site &p) const {
  if (!is_split()) return native() != nullptr;
  if (p.by == Site::By::Server) return false;
  if (p.by == Site::By::Own || p.by == Site::By::All) return true;
  std::optional<CUdevice> device = p.device;
  if (p.by == Site::By::Context) device = device_of_(p.context);
  return device && *device >= 0 && static_cast<size_t>(*device) < here_.size() &&
         here_[static_cast<size_t>(*device)];
}

u64 Link::context_at(const Site &p) const {
  if (!is_split() || p.by == Site::By::Context) return p.context;
  return p.context != 0 && is_here(p.context) == is_here(p) ? p.context : 0;
}

void Link::forked() {
  native_ = nullptr;
  lost_ = CUDA_ERROR_NOT_INITIALIZED;  // as after a fork with NVIDIA's driver
  if (connection_) ::close(connection_->stream().descriptor());
}

void Link::set_socket(UniqueFd socket, const std::vector<CUdevice> &numbers) {
  std::scoped_lock lock(send_mutex_, batch_mutex_, mutex_);
  traffic.new_way();
  connection_.reset();
  batch_ = {};
  if (socket)
    connection_ = std::make_unique<Connection>(std::make_unique<SocketStream>(std::move(socket)));
  if (!numbers.empty()) {
    Writer w;
    w.put(static_cast<u32>(numbers.size()));
    for (CUdevice n : numbers) w.put(i32{n});
    add(static_cast<u16>(Op::Devices), true, 0, {w.bytes()});
  }
  connected_ = connection_ != nullptr;
  parking_ = !connected_;
  if (connected_ && !std::exchange(sending_, true)) start_own_thread([this] { send_batches(); });
  arrived_.notify_all();
}

void Link::stop_receiving() {
  std::unique_lock lock(mutex_);
  parking_ = true;
  arrived_.wait(lock, [&] { return !receiving_; });
}

bool Link::sends_first(u64 part, bool here) {
  std::lock_guard lock(parts_mutex_);
  return (here ? own_parts_ : parts_).insert(part).second;
}

void Link::add(u16 op, bool one_way, u64 context, Parts arguments) {
  calls_.fetch_add(1, std::memory_order_release);
  CallHeader h{lane(), op, one_way, context};
  std::vector<ByteView> parts{view(&h, sizeof h)};
  parts.insert(parts.end(), arguments);
  batch_.add(Frame::CudaCall, parts);
}

// The lane of this thread exists from here on, and is counted.
bool Link::is_only_lane() { return lane() != 0 && program_lanes_ == 1 && gate().within(); }

void Link::send(u16 op, const Site &site, Parts arguments) {
  if (lost() != CUDA_SUCCESS || !connected()) return;
  traffic.count_bytes(bytes_of_parts(arguments));
  bool lane_ended = op == static_cast<u16>(Op::LaneEnded);  // also while the gate is closed
  Native *n = lane_ended && is_split() ? nullptr : native_at(site);
  u64 context = context_at(site);
  if (n) return lane_ended ? void() : n->send(op, context, arguments);
  bool wake = false, full = false;
  {
    std::lock_guard lock(batch_mutex_);
    add(op, true, context, arguments);
    if (CallCounts *c = call_counts()) c->one_way.fetch_add(1, std::memory_order_relaxed);
    full = batch_.size() >= kFullBatch;
    wake = std::exchange(sender_sleeps_, false) && !full;
  }
  if (wake) gathered_.notify_one();
  if (full) flush();
}

void Link::flush() {
  std::lock_guard sending(send_mutex_);
  Connection::Batch batch;
  {
    std::lock_guard lock(batch_mutex_);
    std::swap(batch, batch_);
  }
  if (batch.empty() || !connection_) return;
  if (CallCounts *c = call_counts()) c->batches.fetch_add(1, std::memory_order_relaxed);
  if (Result<> r = connection_->send(batch); !r) lose(r.error());
}

void Link::send_batches() {
  for (;;) {
    {
      std::unique_lock lock(batch_mutex_);
      sender_sleeps_ = true;
      gathered_.wait(lock, [&] { return !sender_sleeps_; });
    }
    for (int idle = 0; idle < kPauses && lost() == CUDA_SUCCESS; idle++) {
      flush();
      std::this_thread::sleep_for(kPause);
      std::lock_guard lock(batch_mutex_);
      if (!batch_.empty()) idle = -1;
    }
  }
}

CUresult Link::ask(u16 op, const Site &site, Parts arguments, Bytes *results,
                   std::span<std::byte> data) {
  if (site.by == Site::By::All && is_split()) {
    CUresult e = ask(op, {Site::By::Own, site.context}, arguments, results, data);
    if (e != CUDA_SUCCESS) return e;
    return ask(op, {Site::By::Server, site.context}, arguments, results, data);
  }
  Waiting w{CUDA_SUCCESS, results, data};
  return wait_for(op, site, arguments, w);
}

CUresult Link::ask(u16 op, const Site &site, Parts arguments, const TakeData &take) {
  Waiting w{CUDA_SUCCESS, nullptr, {}, &take};
  return wait_for(op, site, arguments, w);
}

CUresult Link::wait_for(u16 op, const Site &site, Parts arguments, Waiting &w) {
  if (lost() != CUDA_SUCCESS) return lost();
  if (!connected()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  u64 context = context_at(site);
  if (gate().within()) traffic.count_wait();
  traffic.count_bytes(bytes_of_parts(arguments) + w.data.size());
  if (Native *n = native_at(site))
    return w.take ? n->ask(op, context, arguments, *w.take)
                  : n->ask(op, context, arguments, w.results, w.data);
  count_waited(op);
  const u64 wanted = w.data.size();
  const Clock::time_point begun = Clock::now();
  {
    std::lock_guard lock(mutex_);
    waiting_[lane()] = &w;
  }
  {
    std::lock_guard lock(batch_mutex_);
    add(op, false, context, arguments);
  }
  flush();
  std::unique_lock lock(mutex_);
  while (!w.done && lost() == CUDA_SUCCESS) {
    if (receiving_)
      arrived_.wait(lock);
    else
      receive_one(lock);
  }
  waiting_.erase(lane());
  if (w.done && !w.take && w.status == CUDA_SUCCESS)
    traffic.note_answer(Clock::now() - begun, wanted);
  return w.done ? w.status : lost();
}

void Link::receive_one(std::unique_lock<std::mutex> &lock) {
  receiving_ = true;
  lock.unlock();
  Result<Connection::Received> frame = connection_->receive();
  lock.lock();
  Result<> r;
  if (!frame && !closing_)
    lose(frame.error());
  else if (!frame)
    parking_ = true;
  else if (r = take(*frame); !r)
    lose(r.error());
  receiving_ = false;
  arrived_.notify_all();
}

Result<> Link::take(const Connection::Received &frame) {
  Reader r(frame.body);
  if (frame.type == Frame::Output) {
    FILE *stream = r.get<u8>() == 2 ? stderr : stdout;
    ByteView said = r.raw(r.left());
    if (!said.empty()) std::fwrite(said.data(), 1, said.size(), stream);
    return {};
  }
  if (frame.type == Frame::CudaHost) {
    note_host_call(r.get<u64>());
    return {};
  }
  if (frame.type == Frame::Refused) return Failure(read_error(r));
  if (frame.type == Frame::Ended) return fail("{}", r.str());
  u32 lane = r.get<u32>();
  i32 status = r.get<i32>();
  auto found = waiting_.find(lane);
  if (!r.ok() || found == waiting_.end()) return fail("it sent a frame that nothing waits for");
  Waiting &w = *found->second;
  ByteView bytes = r.raw(r.left());
  if (frame.type == Frame::CudaData) return take_data(w, bytes);
  if (frame.type != Frame::CudaReply) return fail("it sent a frame of another protocol");
  w.status = result_of(status);
  if (w.status == CUDA_SUCCESS && !w.data.empty()) return fail("it sent too few bytes");
  if (w.results) w.results->assign(bytes.begin(), bytes.end());
  w.done = true;
  return {};
}

// One that nothing waits for, or that comes twice, is dropped: a server cannot make the list long.
void Link::note_host_call(u64 token) {
  if (host_functions_.contains(token) && std::ranges::find(host_calls_, token) == host_calls_.end())
    host_calls_.push_back(token);
}

Result<> Link::take_data(Waiting &w, ByteView bytes) {
  if (w.take) return (*w.take)(bytes);
  if (bytes.size() > w.data.size()) return fail("it sent more bytes than were asked for");
  std::memcpy(w.data.data(), bytes.data(), bytes.size());
  w.data = w.data.subspan(bytes.size());
  return {};
}

u64 Link::expect_host_call(HostFunction function) {
  std::lock_guard lock(mutex_);
  if (!std::exchange(listening_, true)) {
    start_own_thread([this] { listen(); });
    start_own_thread([this] { run_host_calls(); });
  }
  host_functions_[++last_token_] = std::move(function);
  return last_token_;
}

void Link::forget_host_call(u64 token) {
  std::lock_guard lock(mutex_);
  host_functions_.erase(token);
}

bool Link::expects_host_calls() {
  std::lock_guard lock(mutex_);
  return !host_functions_.empty();
}

// From the first host function on, a thread receives although no call waits.
void Link::listen() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (receiving_ || parking_ || lost() != CUDA_SUCCESS)
      arrived_.wait(lock);
    else
      receive_one(lock);
  }
}

void Link::run_host_calls() {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [&] { return !host_calls_.empty() && lost() == CUDA_SUCCESS; });
    u64 token = host_calls_.front();
    host_calls_.pop_front();
    auto found = host_functions_.find(token);
    if (found == host_functions_.end()) continue;
    HostFunction function = found->second;
    lock.unlock();
    function();
    tell_done(token);
    lock.lock();
    host_functions_.erase(token);
  }
}

void Link::tell_done(u64 token) {
  if (Native *n = native(); n && (n->host_call_done(token) || !is_split())) return;
  Connection::Batch done;
  done.add(Frame::CudaHostDone, std::vector<ByteView>{view(&token, sizeof token)});
  if (Result<> sent = connection_->send(done); !sent) lose(sent.error());
}

}  // namespace ckpt::remote::cuda
