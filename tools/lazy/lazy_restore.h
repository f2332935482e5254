// SPDX-License-Identifier: Apache-2.0
//
// `ckpt-restore --lazy`: the program goes on before its host memory is there. owed_memory.h says
// which part of it, page_server.h from where it comes, lazy_guard.h what happens if this process is
// killed meanwhile. docs/LAZY.md has the whole.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "tools/lazy/lazy_guard.h"
#include "tools/lazy/owed_memory.h"
#include "tools/lazy/page_server.h"
#include "tools/lazy/userfaults.h"
#include "tools/session/keeper.h"

namespace ckpt::tools {

class LazyRestore {
 public:
  // Starts the guard (lazy_guard.h). Null: nothing is owed.
  static Result<std::unique_ptr<LazyRestore>> of(OwedMemory owed);

  const OwedMemory &owed() const { return owed_; }
  // CRIU restores the program below this stem.
  void stem_started(pid_t stem) { guard_.watch_over(stem); }
  // Of the restored, stopped program: from now on its accesses to what is owed are served.
  Result<> serve(Keeper &keeper, const storage::ImageReader &image, pid_t root,
                 const MakeUserfaultfd &make);
  // The program was continued, `seconds` after the beginning of the restore.
  void went_on(double seconds);
  // The program has its devices, too. Waits until all has arrived, and shows how much has on a
  // terminal that the program does not use.
  Result<> load_rest(Keeper &keeper, bool on_terminal);

  // What has ended the program: not what others see of that.
  std::optional<Error> failure() const;
  nlohmann::json report() const;

 private:
  explicit LazyRestore(OwedMemory owed) : owed_(std::move(owed)) {}
  void fail_program(Keeper &keeper, Error why);

  OwedMemory owed_;
  LazyGuard guard_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  std::unique_ptr<PageServer> server_;
  Clock::time_point went_on_;
  double went_on_seconds_ = 0, arrived_seconds_ = 0;
};

}  // namespace ckpt::tools
