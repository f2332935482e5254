// SPDX-License-Identifier: Apache-2.0
//
// What all functions of NVML share: a lock, and the client of the broker.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "softcuda/broker/away.h"
#include "softcuda/broker/client.h"
#include "softcuda/nvml/nvml_abi.h"

#define NVML_API extern "C" __attribute__((visibility("default")))

namespace ckpt::softcuda::nvml {

extern std::mutex mutex;
extern std::unique_ptr<broker::Client> client;  // null: NVML is not initialised

// Waits while the driver of this process is away (softcuda/broker/away.h).
class Lock {
 public:
  Lock() {
    while (g_driver_away) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock_.lock();
  }

 private:
  std::unique_lock<std::mutex> lock_{mutex, std::defer_lock};
};

// Under the lock.
nvmlReturn_t index_of(nvmlDevice_t device, u32 &index);

// Connects to the broker for one question only, so that a program that monitors devices can be
// checkpointed. Under the lock.
template <class T>
Result<T> ask(const std::function<Result<T>(broker::Client &)> &question) {
  CKPT_CHECK(client->reconnect());
  Result<T> answer = question(*client);
  client->disconnect();
  return answer;
}

#define WITH_DEVICE(device, index) \
  Lock lock;                       \
  u32 index = 0;                   \
  if (nvmlReturn_t e = index_of(device, index); e != NVML_SUCCESS) return e

}  // namespace ckpt::softcuda::nvml
