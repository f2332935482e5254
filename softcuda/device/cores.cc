// SPDX-License-Identifier: Apache-2.0
#include "softcuda/device/cores.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "common/base/cores.h"
#include "softcuda/vm/runner.h"

namespace ckpt::softcuda {

u32 Cores::count() {
  static const u32 kCount = [] {
    const char *set = std::getenv("CKPT_SOFTCUDA_CORES");
    u32 n = set != nullptr ? static_cast<u32>(std::strtoul(set, nullptr, 10)) : usable_cores();
    return std::clamp(n, 1u, 256u);
  }();
  return kCount;
}

void Cores::work(Job &job) {
  vm::Runner runner(*job.grid);
  while (!job.grid->stop) {
    u64 cluster = job.next++;
    if (cluster >= job.clusters) break;
    runner.run(cluster);
  }
}

// The threads are detached: they run until the process exits.
void Cores::start_threads() {
  for (; threads_ + 1 < count(); ++threads_) std::thread([this] { thread(); }).detach();
}

void Cores::thread() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !jobs_.empty(); });
    Job *job = jobs_.front();
    if (job->next >= job->clusters || job->grid->stop) {
      jobs_.pop_front();
      continue;
    }
    ++job->helpers;
    lock.unlock();
    work(*job);
    lock.lock();
    --job->helpers;
    changed_.notify_all();
  }
}

void Cores::run(vm::Grid &grid) {
  Job job{&grid, grid.grid.count() / grid.cluster.count()};
  bool shared = job.clusters > 1 && count() > 1;
  if (shared) {
    std::lock_guard lock(mutex_);
    start_threads();
    jobs_.push_back(&job);
    changed_.notify_all();
  }
  work(job);
  if (!shared) return;
  std::unique_lock lock(mutex_);
  std::erase(jobs_, &job);
  changed_.wait(lock, [&] { return job.helpers == 0; });
}

void Cores::run_cooperative(vm::Grid &grid) {
  u64 clusters = grid.grid.count() / grid.cluster.count();
  u64 parts = std::min<u64>(count(), clusters);
  auto part = [&](u64 first) {
    vm::Runner runner(grid);
    for (u64 c = first; c < clusters; c += parts) runner.start(c);
    while (runner.run_started()) {
    }
  };
  std::vector<std::thread> threads;
  for (u64 p = 1; p < parts; ++p) threads.emplace_back(part, p);
  part(0);
  for (std::thread &t : threads) t.join();
}

}  // namespace ckpt::softcuda
