// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/lazy_restore.h"

#include "common/base/test_points.h"
#include "tools/proc/process.h"
#include "tools/progress_bar.h"

namespace ckpt::tools {

Result<std::unique_ptr<LazyRestore>> LazyRestore::of(OwedMemory owed) {
  std::unique_ptr<LazyRestore> lazy;
  if (owed.bytes() == 0) return lazy;
  lazy.reset(new LazyRestore(std::move(owed)));
  CKPT_CHECK(lazy->guard_.start());
  return lazy;
}

std::optional<Error> LazyRestore::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

// A failed program is ended before its userfaultfds are closed.
void LazyRestore::fail_program(Keeper &keeper, Error why) {
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = why;
  }
  keeper.post([&keeper, why] {
    keeper.program_failed(why);
    keeper.kill_program();
  });
}

Result<> LazyRestore::serve(Keeper &keeper, const storage::ImageReader &image, pid_t root,
                            const MakeUserfaultfd &make) {
  test_point("lazy-restored");
  server_ = std::make_unique<PageServer>(image, [this, &keeper](Error e) {
    fail_program(keeper,
                 Error{fmt::format("the program was ended, because its memory could not "
                                   "be loaded: {}",
                                   e.what),
                       e.hint.empty() ? "ckpt-image verify names all that is damaged" : e.hint});
  });
  for (const Process &p : ProcessTable::read().tree(root))
    if (auto owed = owed_.processes.find(p.ns_pid()); owed != owed_.processes.end()) {
      CKPT_TRY(UniqueFd fd, make(p.pid));
      test_point("lazy-taken");
      CKPT_CHECK(server_->add(p.pid, std::move(fd), owed->second));
    }
  keeper.post([this, &keeper] {
    keeper.watch(guard_.ended_fd(), [this, &keeper] {
      if (guard_.released()) return false;
      fail_program(keeper, Error{"the program was ended, because the process that guards its "
                                 "memory (ckpt-guard) was killed",
                                 "restore it again: the image is unchanged"});
      return false;
    });
  });
  CKPT_CHECK(server_->start());
  test_point("lazy-served");
  return {};
}

void LazyRestore::went_on(double seconds) {
  went_on_ = Clock::now();
  went_on_seconds_ = seconds;
}

Result<> LazyRestore::load_rest(Keeper &keeper, bool on_terminal) {
  Progress bar("memory", !on_terminal);
  const Arrival &arrival = server_->arrival();
  CKPT_CHECK(server_->load_rest([&] { bar.update(arrival.arrived, arrival.owed); }));
  bar.finish();
  if (std::optional<Error> e = failure()) return Failure(*e);
  arrived_seconds_ = went_on_seconds_ + seconds_since(went_on_);
  test_point("memory-arrived");
  keeper.post([this] { guard_.release(); });
  return {};
}

nlohmann::json LazyRestore::report() const {
  nlohmann::json r{{"owed_bytes", owed_.bytes()},
                   {"arrived_bytes", server_->arrival().arrived.load()},
                   {"went_on_seconds", went_on_seconds_}};
  if (arrived_seconds_ > 0) r["arrived_seconds"] = arrived_seconds_;
  return r;
}

}  // namespace ckpt::tools
