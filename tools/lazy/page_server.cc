// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/page_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "common/base/cores.h"
#include "common/base/shortage.h"
#include "common/base/test_points.h"
#include "tools/lazy/userfaults.h"

namespace ckpt::tools {
PageServer::~PageServer() {
  stop_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

void PageServer::wake() {
  u64 one = 1;
  if (wake_) (void)!::write(wake_.get(), &one, sizeof one);
}

Result<> PageServer::add(pid_t pid, UniqueFd fd, const OwedProcess &owed) {
  const storage::StreamEntry &stream = *image_.find(owed.stream);
  OwedMap map;
  CKPT_CHECK(take_faults(pid, fd.get(), image_, stream, map, owed.pieces));
  u64 all = 0;
  for (const OwedPiece &p : owed.pieces) all += p.end - p.begin;
  arrival_.owed += all;
  arrival_.arrived += all - map.bytes();
  spaces_.emplace_back(std::move(fd), std::move(map), PageSource(image_, stream, ahead_), arrival_);
  return {};
}

Result<> PageServer::start() {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return fail_errno("cannot create an eventfd");
  CKPT_CHECK(ahead_.start(std::min(usable_cores(), kMostDecoders)));
  CKPT_TRY(thread_, start_thread([this] { run(); }));
  return {};
}

void PageServer::run() {
  result_ = guarded([this] { return serve(); });
  if (!result_) failed_(result_.error());
  std::lock_guard lock(mutex_);
  over_ = true;
  over_changed_.notify_all();
}

Result<> PageServer::serve() {
  while (!stop_ && !spaces_.empty()) {
    CKPT_CHECK(turn());
    std::erase_if(spaces_, [](const LazySpace &s) { return s.finished(); });
  }
  return {};
}

Result<> PageServer::wait_for_events() {
  std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}, {ahead_.changed_fd(), POLLIN, 0}};
  int wait = load_ && spaces_.front().has_next() ? 0 : -1;
  for (const LazySpace &s : spaces_) {
    fds.push_back({s.fd(), POLLIN, 0});
    if (s.has_waiting()) wait = 0;
  }
  if (::poll(fds.data(), fds.size(), wait) < 0 && errno != EINTR)
    return fail_errno("cannot wait for accesses to memory");
  u64 times;
  for (int fd : {wake_.get(), ahead_.changed_fd()}) (void)!::read(fd, &times, sizeof times);
  return {};
}

// The process that has waited last comes first.
Result<> PageServer::turn() {
  if (load_) ahead_.want(spaces_.front().next_chunks(ahead_.depth()));
  CKPT_CHECK(wait_for_events());
  std::vector<LazySpace> forked;
  for (size_t i = 0; i < spaces_.size(); i++) {
    CKPT_CHECK(spaces_[i].serve(forked));
    if (spaces_[i].has_waited() && i > 0) std::swap(spaces_[i], spaces_.front());
  }
  std::ranges::move(forked, std::back_inserter(spaces_));
  if (!load_ || !spaces_.front().has_next()) return {};
  CKPT_CHECK(spaces_.front().place_next());
  if (!std::exchange(loads_, true)) test_point("memory-arrives");
  return {};
}

Result<> PageServer::load_rest(const std::function<void()> &waits) {
  using namespace std::chrono_literals;
  load_ = true;
  wake();
  std::unique_lock lock(mutex_);
  while (!over_changed_.wait_for(lock, 100ms, [this] { return over_; })) waits();
  lock.unlock();
  if (thread_.joinable()) thread_.join();
  return result_;
}

}  // namespace ckpt::tools
