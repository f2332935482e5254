// SPDX-License-Identifier: Apache-2.0
//
// The driver's state in this process, and the guards that every entry begins with.
#pragma once

#include <chrono>

#include "softcuda/broker/client.h"
#include "softcuda/device/cores.h"
#include "softcuda/driver/state/clock.h"
#include "softcuda/driver/state/objects.h"

#define SOFTCUDA_API extern "C" __attribute__((visibility("default")))

namespace ckpt::softcuda::driver {

inline constexpr u32 kMultiprocessors = 8;
inline constexpr u32 kThreadsPerMultiprocessor = 2048;
inline constexpr u32 kBlocksPerMultiprocessor = 32;
inline constexpr u32 kBlocksPerCluster = 8;
inline constexpr u32 kSharedPerMultiprocessor = 228 * 1024;
inline constexpr u32 kSharedPerBlock = 48 * 1024;
inline constexpr u32 kSharedPerBlockOptin = 227 * 1024;
inline constexpr u32 kRegistersPerMultiprocessor = 65536;
inline constexpr u32 kThreadsPerBlock = 1024;
inline constexpr int kLinearTextureElements = 1 << 28;

// Makes API calls wait while the process is locked for a checkpoint.
class Gate {
 public:
  // False: it refuses.
  bool enter();
  void leave();
  // Waits until no call is inside. `limit` 0 means no limit. False: the limit has passed, and the
  // gate is open again.
  bool close(std::chrono::milliseconds limit);
  void open();
  // While it is closed: calls that come from now on do not wait, but are refused. Those that wait
  // already wait on.
  void refuse(bool on);
  bool refuses() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  u32 inside_ = 0;
  bool closed_ = false;
  bool refuses_ = false;
};

struct Process {
  CUresult initialised = CUDA_ERROR_NOT_INITIALIZED;  // the result of cuInit
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Budget> budget;
  std::unique_ptr<Memory> memory;
  Cores cores;
  std::optional<Model> model;
  Gate gate;
  Gate device_access;  // whatever reads or writes device memory is inside (DeviceAccess)
  Handles<Context> contexts;
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Module> modules;
  Handles<Function> functions;
  Handles<Library> libraries;
  Handles<Kernel> kernels;
  Handles<Array> arrays;
  Handles<Mipmap> mipmaps;
  std::atomic<u64> next_id{1};
  u32 sm = 90;  // compute capability that the devices report, times ten
};

// Never destroyed, because threads use it until the process exits.
Process &process();
// Strict: the process is checkpointed, so entries return CUDA_ERROR_DEVICE_UNAVAILABLE, as
// cuCtxSetCurrent of driver 580.159.04 does. Which others do is not known: all are treated alike,
// except those that need neither device nor state.
bool is_away();
// Whether the calling thread is one of the program's, in a call.
bool in_call();
// This process's connection to the broker.
broker::Client &client();

// For as long as it exists, device memory is not replaced (cuIpcGetMemHandle). Not to be nested.
class DeviceAccess {
 public:
  DeviceAccess() { process().device_access.enter(); }
  ~DeviceAccess() { process().device_access.leave(); }
  DeviceAccess(const DeviceAccess &) = delete;
};

// This thread's stack of current contexts.
std::vector<Context *> &context_stack();
Context *current_context();
Device *device_at(CUdevice d);

// The guard of an API call: passes the gate (nested calls pass it once) and checks what the call
// needs. NVIDIA's driver refuses calls while the process is checkpointed (is_away()).
class Call {
 public:
  // AnyContext: the call is about an object that knows its context, so none needs to be current.
  // numba frees what it has after it has popped all contexts.
  enum Need { Initialised, AnyContext, CurrentContext };
  explicit Call(Need need = CurrentContext);
  ~Call();
  Call(const Call &) = delete;
  CUresult status = CUDA_SUCCESS;
  Context *context = nullptr;

 private:
  bool entered_ = true;
};

// A call on a stream. A handle that is not live is CUDA_ERROR_INVALID_HANDLE.
class StreamCall : public Call {
 public:
  explicit StreamCall(CUstream handle);
  Stream *stream = nullptr;
};

#define CALL_WITH_CONTEXT() \
  Call call;                \
  if (call.status != CUDA_SUCCESS) return call.status

#define CALL_WITH_ANY_CONTEXT() \
  Call call(Call::AnyContext);  \
  if (call.status != CUDA_SUCCESS) return call.status

// `s` is the stream behind a handle.
#define CALL_WITH_STREAM(handle)                       \
  StreamCall call(effective(handle));                  \
  if (call.status != CUDA_SUCCESS) return call.status; \
  [[maybe_unused]] Stream &s = *call.stream

#define CALL_INITIALISED()      \
  Call call(Call::Initialised); \
  if (call.status != CUDA_SUCCESS) return call.status

#define CHECK_CU(...)                                                                 \
  do {                                                                                \
    if (CUresult checked_ = (__VA_ARGS__); checked_ != CUDA_SUCCESS) return checked_; \
  } while (0)

#define REQUIRE(condition, error) \
  if (!(condition)) return error

// The stream that a handle stands for. In files that are compiled for the per-thread default stream
// (CUDA_API_PER_THREAD_DEFAULT_STREAM) a null handle is that stream.
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
inline CUstream effective(CUstream s) { return s == nullptr ? CU_STREAM_PER_THREAD : s; }
#else
inline CUstream effective(CUstream s) { return s; }
#endif
Stream *stream_of(Context *c, CUstream s);
Stream *per_thread_stream(Context *c);

// Writes a message for the user to standard error, unless CKPT_SOFTCUDA_QUIET is set.
void warn(const std::string &text);
// Says once for each text that this is not supported. Returns CUDA_ERROR_NOT_SUPPORTED.
CUresult refuse(const std::string &what);

}  // namespace ckpt::softcuda::driver
