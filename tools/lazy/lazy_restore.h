// SPDX-License-Identifier: Apache-2.0
//
// `ckpt-restore --lazy`: the program goes on before its host memory and the contents of its devices
// are there. owed_memory.h says which part of the former, page_server.h from where it comes,
// device_contents.h has the latter, lazy_guard.h what happens if this process is killed meanwhile.
// docs/LAZY.md has the whole.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "tools/agent_link/agent_client.h"
#include "tools/agent_link/contents_plan.h"
#include "tools/lazy/device_contents.h"
#include "tools/lazy/lazy_guard.h"
#include "tools/lazy/owed_memory.h"
#include "tools/lazy/page_server.h"
#include "tools/lazy/userfaults.h"
#include "tools/session/keeper.h"

namespace ckpt::tools {

class LazyRestore {
 public:
  // Starts the guard (lazy_guard.h). `devices`: contents of devices may be owed, too. Null: nothing
  // is.
  static Result<std::unique_ptr<LazyRestore>> of(OwedMemory owed, bool devices);

  const OwedMemory &owed() const { return owed_; }
  // CRIU restores the program below this stem.
  void stem_started(pid_t stem) { guard_.watch_over(stem); }
  // Of the restored, stopped program: from now on its accesses to what is owed are served.
  Result<> serve(Keeper &keeper, const storage::ImageReader &image, pid_t root,
                 const MakeUserfaultfd &make);
  // Whether contents of devices may be owed.
  bool devices() const { return devices_; }
  // After serve(), while the agents are attached, from any thread: offers the contents of an
  // agent's devices. Returns which regions of the plan come while the program runs; what it needs
  // of them is served from now on.
  Result<std::vector<bool>> offer(Keeper &keeper, const storage::ImageReader &image,
                                  AgentClient &client, const ContentsPlan &plan, u32 agent);
  // The program was continued, `seconds` after the beginning of the restore.
  void went_on(double seconds);
  // The program has its devices, too: they are ready, but may lack contents. Waits until all has
  // arrived, and shows how much has on a terminal that the program does not use.
  Result<> load_rest(Keeper &keeper, bool on_terminal);

  // The keeper passed to offer() is about to end.
  void stop();

  // What has ended the program: not what others see of that.
  std::optional<Error> failure() const;
  nlohmann::json report() const;

 private:
  LazyRestore(OwedMemory owed, bool devices) : owed_(std::move(owed)), devices_(devices) {}
  void fail_program(Keeper &keeper, Error why);
  void not_loaded(Keeper &keeper, const Error &why);

  OwedMemory owed_;
  const bool devices_;
  LazyGuard guard_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  std::unique_ptr<PageServer> server_;
  Arrival of_devices_;
  std::atomic<u64> device_bytes_ = 0;                      // owed at first
  std::vector<std::unique_ptr<DeviceContents>> contents_;  // guarded by mutex_ until load_rest()
  Clock::time_point went_on_;
  double went_on_seconds_ = 0, arrived_seconds_ = 0;
};

}  // namespace ckpt::tools
