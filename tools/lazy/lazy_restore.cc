// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/lazy_restore.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "common/base/cores.h"
#include "common/base/test_points.h"
#include "tools/agent_link/device_streams.h"
#include "tools/proc/process.h"
#include "tools/progress_bar.h"

namespace ckpt::tools {

namespace {

// CKPT_TEST_REST_AFTER=FILE: only what is needed arrives before this file exists.
bool test_holds_the_rest() {
  const char *file = ::secure_getenv("CKPT_TEST_REST_AFTER");
  return file && ::access(file, F_OK) != 0;
}

}  // namespace

Result<std::unique_ptr<LazyRestore>> LazyRestore::of(OwedMemory owed, bool devices) {
  std::unique_ptr<LazyRestore> lazy;
  if (owed.bytes() == 0 && !devices) return lazy;
  lazy.reset(new LazyRestore(std::move(owed), devices));
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

void LazyRestore::not_loaded(Keeper &keeper, const Error &why) {
  fail_program(
      keeper, Error{fmt::format("the program was ended, because its memory could not be loaded: {}",
                                why.what),
                    why.hint.empty() ? "ckpt-image verify names all that is damaged" : why.hint});
}

Result<std::vector<bool>> LazyRestore::offer(Keeper &keeper, const storage::ImageReader &image,
                                             AgentClient &client, const ContentsPlan &plan,
                                             u32 agent) {
  std::vector<const storage::StreamEntry *> streams;
  std::vector<std::pair<std::string, u64>> offered;
  for (const ContentsPlan::Region &r : plan.regions) {
    streams.push_back(image.find(device_stream_prefix(agent) + r.name));
    bool sendable = DeviceContents::can_send(image, *streams.back());
    offered.emplace_back(sendable ? r.name : "", r.bytes);
  }
  CKPT_TRY(auto ends, socket_pair());
  std::vector<bool> taken = client.loads_later(offered, ends.second.get());
  ends.second.reset();
  for (size_t i = 0; i < streams.size(); i++)
    if (i >= taken.size() || !taken[i]) streams[i] = nullptr;
  std::erase(streams, nullptr);
  if (streams.empty()) return taken;
  for (const storage::StreamEntry *s : streams) device_bytes_ += s->size;
  auto contents = std::make_unique<DeviceContents>(
      image, of_devices_, [this, &keeper](const Error &e) { not_loaded(keeper, e); });
  CKPT_CHECK(contents->start(std::move(ends.first), std::move(streams),
                             std::min(usable_cores(), kMostDecoders)));
  std::lock_guard lock(mutex_);
  contents_.push_back(std::move(contents));
  return taken;
}

Result<> LazyRestore::serve(Keeper &keeper, const storage::ImageReader &image, pid_t root,
                            const MakeUserfaultfd &make) {
  test_point("lazy-restored");
  server_ = std::make_unique<PageServer>(
      image, [this, &keeper](const Error &e) { not_loaded(keeper, e); });
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
  const Arrival &host = server_->arrival();
  auto waits = [&] {
    bar.update(host.arrived + of_devices_.arrived, host.owed + of_devices_.owed);
  };
  while (test_holds_the_rest() && !failure())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (auto &c : contents_) c->load_rest();
  CKPT_CHECK(server_->load_rest(waits));
  for (auto &c : contents_) c->wait(waits);
  bar.finish();
  if (std::optional<Error> e = failure()) return Failure(*e);
  arrived_seconds_ = went_on_seconds_ + seconds_since(went_on_);
  test_point("memory-arrived");
  keeper.post([this] { guard_.release(); });
  return {};
}

void LazyRestore::stop() {
  std::lock_guard lock(mutex_);
  for (auto &c : contents_) c->stop();
}

nlohmann::json LazyRestore::report() const {
  nlohmann::json r{{"owed_bytes", owed_.bytes() + device_bytes_},
                   {"arrived_bytes", server_->arrival().arrived + of_devices_.arrived},
                   {"device_bytes",
                    {{"owed", device_bytes_.load()},
                     {"arrived", of_devices_.arrived.load()},
                     {"arrived_at_first", of_devices_.at_first.load()}}},
                   {"went_on_seconds", went_on_seconds_}};
  if (arrived_seconds_ > 0) r["arrived_seconds"] = arrived_seconds_;
  return r;
}

}  // namespace ckpt::tools
