// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/link.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "common/base/log.h"

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
  }
  ~ThisLane() { link().send(static_cast<u16>(Op::LaneEnded), 0, {}); }
};
u32 lane() {
  thread_local ThisLane lane;
  return lane.number;
}

// No signal of the program is handled on a thread of ours.
template <class F>
void start_thread(F f) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(f).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

Link &link() {
  static Link *const kLink = new Link;
  return *kLink;
}

void Link::start_threads() {
  start_thread([this] { send_batches(); });
}

void Link::lose(const Error &why) {
  CUresult none = CUDA_SUCCESS;
  if (!lost_.compare_exchange_strong(none, CUDA_ERROR_DEVICE_UNAVAILABLE)) return;
  log::error("the CUDA device of the other node is lost: {}; every later call fails", why.text());
}

CUresult Link::malformed() {
  lose({"it sent a reply that is none of this protocol", "use the same version of ckpt there"});
  return lost();
}

void Link::forked() {
  lost_ = CUDA_ERROR_NOT_INITIALIZED;  // as after a fork with NVIDIA's driver
  if (connection_) ::close(connection_->stream().descriptor());
}

void Link::add(u16 op, bool one_way, u64 context, Parts arguments) {
  CallHeader h{lane(), op, one_way, context};
  std::vector<ByteView> parts{view(&h, sizeof h)};
  parts.insert(parts.end(), arguments);
  batch_.add(Frame::CudaCall, parts);
}

void Link::send(u16 op, u64 context, Parts arguments) {
  if (lost() != CUDA_SUCCESS || !connection_) return;
  bool wake = false, full = false;
  {
    std::lock_guard lock(batch_mutex_);
    add(op, true, context, arguments);
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
  if (batch.empty()) return;
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

CUresult Link::ask(u16 op, u64 context, Parts arguments, Bytes *results,
                   std::span<std::byte> data) {
  if (lost() != CUDA_SUCCESS) return lost();
  Waiting w{CUDA_SUCCESS, results, data};
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
  return w.done ? w.status : lost();
}

void Link::receive_one(std::unique_lock<std::mutex> &lock) {
  receiving_ = true;
  lock.unlock();
  Result<Connection::Received> frame = connection_->receive();
  lock.lock();
  Result<> r;
  if (!frame)
    lose(frame.error());
  else if (r = take(*frame); !r)
    lose(r.error());
  receiving_ = false;
  arrived_.notify_all();
}

Result<> Link::take(const Connection::Received &frame) {
  Reader r(frame.body);
  if (frame.type == Frame::Output) {
    FILE *stream = r.get<u8>() == 2 ? stderr : stdout;
    std::fwrite(frame.body.data() + 1, 1, r.left(), stream);
    return {};
  }
  if (frame.type == Frame::CudaHost) {
    host_calls_.push_back(r.get<u64>());
    return {};
  }
  if (frame.type == Frame::Refused || frame.type == Frame::Ended) return fail("{}", r.str());
  u32 lane = r.get<u32>();
  i32 status = r.get<i32>();
  auto found = waiting_.find(lane);
  if (!r.ok() || found == waiting_.end()) return fail("it sent a frame that nothing waits for");
  Waiting &w = *found->second;
  ByteView bytes = r.raw(r.left());
  if (frame.type == Frame::CudaData) {
    if (bytes.size() > w.data.size()) return fail("it sent more bytes than were asked for");
    std::memcpy(w.data.data(), bytes.data(), bytes.size());
    w.data = w.data.subspan(bytes.size());
    return {};
  }
  if (frame.type != Frame::CudaReply) return fail("it sent a frame of another protocol");
  w.status = static_cast<CUresult>(status);
  if (w.status == CUDA_SUCCESS && !w.data.empty()) return fail("it sent too few bytes");
  if (w.results) w.results->assign(bytes.begin(), bytes.end());
  w.done = true;
  return {};
}

u64 Link::expect_host_call(HostFunction function) {
  std::lock_guard lock(mutex_);
  if (!std::exchange(listening_, true)) {
    start_thread([this] { listen(); });
    start_thread([this] { run_host_calls(); });
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
  while (lost() == CUDA_SUCCESS) {
    if (receiving_)
      arrived_.wait(lock);
    else
      receive_one(lock);
  }
  arrived_.notify_all();
}

void Link::run_host_calls() {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [&] { return !host_calls_.empty() || lost() != CUDA_SUCCESS; });
    if (lost() != CUDA_SUCCESS) return;
    u64 token = host_calls_.front();
    host_calls_.pop_front();
    auto found = host_functions_.find(token);
    if (found == host_functions_.end()) continue;
    HostFunction function = found->second;
    lock.unlock();
    function();
    Connection::Batch done;
    done.add(Frame::CudaHostDone, std::vector<ByteView>{view(&token, sizeof token)});
    Result<> sent = connection_->send(done);
    lock.lock();
    host_functions_.erase(token);
    if (!sent) lose(sent.error());
  }
}

}  // namespace ckpt::remote::cuda
