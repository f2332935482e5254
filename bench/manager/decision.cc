// SPDX-License-Identifier: Apache-2.0
//
// Measures one decision of the Manager with many programs: a message goes in, orders come out. The
// programs are in all phases, as on a node with far too little memory for them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "manager/policy/policy.h"

using namespace ckpt;
using namespace ckpt::manager;
namespace in = ckpt::managed::to_manager;
namespace out = ckpt::managed::to_program;

namespace {

constexpr u32 kDecisions = 20'000;
constexpr u32 kWorkloads = 250;  // of workloads: nearly as many as are kept

struct Node {
  Policy policy;
  Time now{0};
  std::mt19937 random{1};
  std::vector<double> micros;

  void say(ProgramId p, const managed::ToManager &m) {
    auto begin = std::chrono::steady_clock::now();
    Orders orders = policy.receive(now += Time(10), p, m);
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    micros.push_back(took.count());
    for (const Order &o : orders) answer(o);
  }

  // Each program immediately does what it is told.
  void answer(const Order &o) {
    if (std::get_if<out::Signal>(&o.message) != nullptr) say(o.to, in::Query{});
    if (std::get_if<out::Suspend>(&o.message) != nullptr) say(o.to, in::SuspendDone{1});
    if (std::get_if<out::Connect>(&o.message) != nullptr) say(o.to, in::ContextCheck{});
    if (auto *m = std::get_if<out::GoAhead>(&o.message); m != nullptr && m->ticket != 0)
      say(o.to, in::MallocDone{m->ticket, policy.find(o.to)->used + kMiB});
    if (std::get_if<out::Migrate>(&o.message) != nullptr)
      say(o.to, in::MigDone{policy.find(o.to)->used});
  }

  void act(u32 programs) {
    ProgramId p = 1 + random() % programs;
    u64 used = policy.find(p)->used;
    for (GpuIndex g = 0; g < static_cast<GpuIndex>(policy.gpus().size()); g++)
      policy.measured(g, random() % (4 * kMiB), false);
    u64 calls = policy.find(p)->workload.calls + random() % 100;
    if (random() % 4 == 0) return say(p, in::Progress{calls, 0, calls * (p % 10) * kMiB});
    if (random() % 2 == 0) return say(p, in::CudaMalloc{static_cast<u32>(random()), kMiB});
    say(p, in::CudaFree{used / 2});
  }
};

std::vector<Gpu> gpus(u32 n) {
  std::vector<Gpu> all;
  for (u32 i = 0; i < n; i++)
    all.push_back({.uuid = std::to_string(i), .total = 1ull << 34, .free = 1ull << 34});
  return all;
}

}  // namespace

int main(int argc, char **argv) {
  u32 programs = argc > 1 ? static_cast<u32>(std::atoi(argv[1])) : 1000;
  u32 n_gpus = argc > 2 ? static_cast<u32>(std::atoi(argv[2])) : 4;
  Settings settings;
  settings.placement = PlacementMode::Demand;
  settings.programs_per_gpu = settings.contextless_per_gpu = programs;
  Node node{Policy(settings, gpus(n_gpus))};
  for (ProgramId p = 1; p <= programs; p++) {
    node.say(p, in::Join{.version = managed::kVersion, .priority = static_cast<i32>(p % 3)});
    node.say(p, in::Workload{1 + p % kWorkloads});
    node.say(p, in::Connect{});
  }
  node.micros.clear();
  while (node.micros.size() < kDecisions) node.act(programs);
  std::ranges::sort(node.micros);
  auto at = [&](double q) {
    return node.micros[static_cast<size_t>(q * (node.micros.size() - 1.0))];
  };
  u32 evicted = 0;
  for (const auto &p : node.policy.programs()) evicted += p->phase() == Phase::Evicted;
  std::printf("%u programs (%u of them evicted), %u GPUs, %zu decisions\n", programs, evicted,
              n_gpus, node.micros.size());
  std::printf("median %.1f us, 99 %% %.1f us, longest %.1f us\n", at(0.5), at(0.99), at(1));
  return 0;
}
