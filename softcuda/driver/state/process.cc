// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/state/process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "common/base/unique_fd.h"
#include "softcuda/driver/state/context_state.h"

namespace ckpt::softcuda::driver {
namespace {

thread_local u32 call_depth = 0;
thread_local std::vector<Context *> current_stack;
thread_local std::map<Context *, Stream *> own_streams;

}  // namespace

bool is_away() { return process().gate.refuses(); }

bool in_call() { return call_depth > 0; }

void warn(const std::string &text) {
  if (std::getenv("CKPT_SOFTCUDA_QUIET") == nullptr)
    std::fprintf(stderr, "softcuda: %s\n", text.c_str());
}

CUresult refuse(const std::string &what) {
  REQUIRE(!is_away(), CUDA_ERROR_DEVICE_UNAVAILABLE);
  static std::mutex mutex;
  static std::set<std::string> *const kReported = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (kReported->insert(what).second) warn(what + " is not supported by the software device");
  return CUDA_ERROR_NOT_SUPPORTED;
}

Process &process() {
  static Process *const kProcess = new Process;
  return *kProcess;
}

broker::Client &client() { return *static_cast<broker::Client *>(process().budget.get()); }

bool Gate::enter() {
  std::unique_lock lock(mutex_);
  if (refuses_) return false;
  changed_.wait(lock, [&] { return !closed_; });
  ++inside_;
  return true;
}

void Gate::leave() {
  std::lock_guard lock(mutex_);
  --inside_;
  changed_.notify_all();
}

bool Gate::close(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  auto empty = [&] { return inside_ == 0; };
  if (limit.count() == 0)
    changed_.wait(lock, empty);
  else if (!changed_.wait_for(lock, limit, empty))
    closed_ = false;
  changed_.notify_all();
  return closed_;
}

void Gate::open() {
  std::lock_guard lock(mutex_);
  closed_ = false;
  changed_.notify_all();
}

void Gate::refuse(bool on) {
  std::lock_guard lock(mutex_);
  refuses_ = on;
}

bool Gate::refuses() const {
  std::lock_guard lock(mutex_);
  return refuses_;
}

namespace {

// CKPT_SOFTCUDA_CALLS names a file that holds the number of calls, for tests.
std::atomic<u64> *open_call_counter() {
  static std::atomic<u64> unused = 0;
  const char *path = std::getenv("CKPT_SOFTCUDA_CALLS");
  UniqueFd fd(path == nullptr ? -1 : ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd || ::ftruncate(fd.get(), sizeof unused) != 0) return &unused;
  void *p = ::mmap(nullptr, sizeof unused, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  return p == MAP_FAILED ? &unused : static_cast<std::atomic<u64> *>(p);
}

void count_call() {
  static std::atomic<u64> *const kCalls = open_call_counter();
  kCalls->fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Call::Call(Need need) {
  Process &p = process();
  if (call_depth++ == 0) {
    count_call();
    entered_ = p.gate.enter();
  }
  if (!entered_) {
    status = CUDA_ERROR_DEVICE_UNAVAILABLE;
    return;
  }
  if (p.initialised != CUDA_SUCCESS) {
    status = p.initialised;
    return;
  }
  context = current_context();
  if (need == Initialised || (need == AnyContext && context == nullptr)) return;
  if (context == nullptr)
    status = CUDA_ERROR_INVALID_CONTEXT;
  else if (!p.contexts.holds(context))
    status = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  else if (!context->inactive || (status = activate(*context)) == CUDA_SUCCESS)
    status = context->error;
}

Call::~Call() {
  if (--call_depth == 0 && entered_) process().gate.leave();
}

StreamCall::StreamCall(CUstream handle) {
  if (status != CUDA_SUCCESS) return;
  stream = stream_of(context, handle);
  if (stream == nullptr) status = CUDA_ERROR_INVALID_HANDLE;
}

std::vector<Context *> &context_stack() { return current_stack; }
Context *current_context() { return current_stack.empty() ? nullptr : current_stack.back(); }

Device *device_at(CUdevice d) {
  Process &p = process();
  if (d < 0 || static_cast<size_t>(d) >= p.devices.size()) return nullptr;
  return p.devices[static_cast<size_t>(d)].get();
}

Stream *per_thread_stream(Context *c) {
  Stream *&s = own_streams[c];
  // A reset of the primary context has destroyed the stream of before.
  if (s == nullptr || !process().streams.holds(s)) {
    s = process().streams.add(new Stream);
    s->context = c;
    s->id = process().next_id++;
    std::lock_guard lock(c->mutex);
    c->streams.insert(s);
  }
  return s;
}

Stream *stream_of(Context *c, CUstream s) {
  if (s == nullptr || s == CU_STREAM_LEGACY) return &c->legacy;
  if (s == CU_STREAM_PER_THREAD) return per_thread_stream(c);
  return process().streams.get(s);
}

}  // namespace ckpt::softcuda::driver
