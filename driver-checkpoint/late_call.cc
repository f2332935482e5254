// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/late_call.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace ckpt::cuda {
namespace {

// A driver copies 2 to 5 GB/s, and what is left to it is usually small.
constexpr unsigned kDefaultSeconds = 300;
constexpr const char *kSecondsVariable = "CKPT_CUDA_DRIVER_TIMEOUT";

struct Call {
  std::function<CUresult()> call;
  std::function<void()> if_late;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<CUresult> result;
  bool abandoned = false;

  void run() {
    CUresult e = call();
    std::unique_lock lock(mutex);
    result = e;
    changed.notify_all();
    bool late = abandoned;
    lock.unlock();
    if (late && e == CUDA_SUCCESS && if_late) if_late();
  }
};

void *run(void *p) {
  std::unique_ptr<std::shared_ptr<Call>> owner(static_cast<std::shared_ptr<Call> *>(p));
  (*owner)->run();
  return nullptr;
}

// False: no thread can be started.
bool start(const std::shared_ptr<Call> &call, pthread_t &thread) {
  auto handed = std::make_unique<std::shared_ptr<Call>>(call);
  if (::pthread_create(&thread, nullptr, run, handed.get()) != 0) return false;
  (void)handed.release();  // run() deletes it
  return true;
}

}  // namespace

unsigned driver_deadline() {
  const char *set = std::getenv(kSecondsVariable);
  int seconds = set == nullptr ? 0 : std::atoi(set);
  return seconds > 0 ? static_cast<unsigned>(seconds) : kDefaultSeconds;
}

std::optional<CUresult> call_in_time(std::function<CUresult()> function,
                                     std::function<void()> if_late) {
  auto call = std::make_shared<Call>();
  call->call = std::move(function);
  call->if_late = std::move(if_late);
  pthread_t thread;
  if (!start(call, thread)) return call->call();
  std::unique_lock lock(call->mutex);
  call->changed.wait_for(lock, std::chrono::seconds(driver_deadline()),
                         [&] { return call->result.has_value(); });
  call->abandoned = !call->result;
  std::optional<CUresult> result = call->result;
  lock.unlock();
  // A thread that has not ended yet would be in the dump.
  if (result)
    ::pthread_join(thread, nullptr);
  else
    ::pthread_detach(thread);
  return result;
}

}  // namespace ckpt::cuda
