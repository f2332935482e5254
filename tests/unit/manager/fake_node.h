// SPDX-License-Identifier: Apache-2.0
//
// A node of numbers for tests of the policy: its free memory is what the test says, and its
// programs send what the test sends. How to read a test:
//
//     Node n(settings, {100, 200});       two GPUs, GPU0 with 100 bytes and GPU1 with 200
//     n.start(1, 0, 10)                   program 1 joins, gets GPU0 and has a context of 10 bytes
//     n.has(1, 40)                        … allocates 40 bytes, which are granted
//     n.say(1, in::CudaMalloc{7, 20})     … sends a message; the result is the Manager's orders
//     n.leaves(1, 10)                     … was told to leave: frees its memory and its context of
//     10 n.comes(1, 0, 10)                   … was told to resume on GPU0, and does n.take(0, 5),
//     n.give(0, 5)          5 bytes of GPU0 are allocated, and freed n.after(1s) a second passes
//     told(orders) == Told{"2 Suspend"}   the orders, as "PROGRAM MESSAGE DETAILS"
#pragma once

#include <doctest/doctest.h>

#include <concepts>

#include "manager/policy/policy.h"

template <>
struct doctest::StringMaker<std::vector<std::string>> {
  static String convert(const std::vector<std::string> &all) {
    return fmt::format("{}", fmt::join(all, "; ")).c_str();
  }
};

namespace ckpt::manager {

namespace in = managed::to_manager;
namespace out = managed::to_program;

struct Node {
  Policy policy;
  Time now{0};

  Node(const Settings &settings, const std::vector<u64> &gpu_bytes)
      : policy(settings, gpus(gpu_bytes)) {}
  template <std::same_as<std::vector<Gpu>> Gpus>
  Node(const Settings &settings, const Gpus &gpus) : policy(settings, gpus) {}
  static std::vector<Gpu> gpus(const std::vector<u64> &bytes) {
    std::vector<Gpu> all;
    for (u64 b : bytes)
      all.push_back({.uuid = fmt::format("GPU{}", all.size()), .total = b, .free = b});
    return all;
  }

  void free(GpuIndex gpu, u64 bytes, bool foreign = false) { policy.measured(gpu, bytes, foreign); }
  void take(GpuIndex gpu, u64 bytes) {
    free(gpu, policy.gpus()[static_cast<size_t>(gpu)].free - bytes);
  }
  void give(GpuIndex gpu, u64 bytes) {
    free(gpu, policy.gpus()[static_cast<size_t>(gpu)].free + bytes);
  }

  Orders say(ProgramId p, const managed::ToManager &message) {
    return policy.receive(now, p, message);
  }
  Orders after(Time time) { return policy.tick(now += time); }
  Orders join(ProgramId p, i32 priority = 0) {
    return say(p,
               in::Join{.version = managed::kVersion, .pid = p, .name = "p", .priority = priority});
  }
  void start(ProgramId p, GpuIndex gpu, u64 context, i32 priority = 0);
  // A program that has ended has taught the Manager the cost of a context.
  void learn(u64 context) {
    join(999);
    say(999, in::Join{.version = managed::kVersion, .context_known = true, .context = context});
    say(999, in::Fin{});
  }
  void has(ProgramId p, u64 bytes);
  Orders leaves(ProgramId p, u64 context);
  Orders comes(ProgramId p, GpuIndex gpu, u64 context);

  const Program &at(ProgramId p) const { return *policy.find(p); }
  Phase phase(ProgramId p) const { return at(p).phase(); }
};

// "2 Connect GPU1", "3 GoAhead 7", …
inline std::vector<std::string> told(const Orders &orders) {
  std::vector<std::string> all;
  for (const Order &o : orders) {
    std::string text = fmt::format("{} {}", o.to, managed::name_of(o.message));
    if (auto *m = std::get_if<out::Connect>(&o.message)) text += " " + m->gpu;
    if (auto *m = std::get_if<out::Migrate>(&o.message)) text += " " + m->gpu;
    if (auto *m = std::get_if<out::GoAhead>(&o.message)) text += fmt::format(" {}", m->ticket);
    if (auto *m = std::get_if<out::OutOfMemory>(&o.message)) text += fmt::format(" {}", m->ticket);
    if (auto *m = std::get_if<out::Suspend>(&o.message))
      if (!m->folder.empty()) text += " " + m->folder;
    all.push_back(text);
  }
  return all;
}
using Told = std::vector<std::string>;

// Contexts of 10 bytes, up to ten programs on a GPU, and no minimum residency.
inline Settings small_settings() {
  Settings s;
  s.context_bytes = 10;
  s.min_residency = Time{0};
  s.programs_per_gpu = 10;
  return s;
}

inline void Node::start(ProgramId p, GpuIndex gpu, u64 context, i32 priority) {
  join(p, priority);
  REQUIRE(told(say(p, in::Connect{})) == Told{fmt::format("{} Connect GPU{}", p, gpu)});
  take(gpu, context);
  policy.footprint(p, at(p).used + std::max<u64>(context, 1));
  REQUIRE(told(say(p, in::ContextCheck{})) == Told{fmt::format("{} CCheckOk", p)});
}

inline void Node::has(ProgramId p, u64 bytes) {
  REQUIRE(told(say(p, in::CudaMalloc{900, bytes})) == Told{fmt::format("{} GoAhead 900", p)});
  take(at(p).gpu(), bytes);
  say(p, in::MallocDone{900, at(p).used + bytes});
}

inline Orders Node::leaves(ProgramId p, u64 context) {
  give(at(p).gpu(), at(p).used + context);
  return say(p, in::SuspendDone{at(p).used});
}

inline Orders Node::comes(ProgramId p, GpuIndex gpu, u64 context) {
  take(gpu, at(p).used + context);
  return say(p, in::MigDone{at(p).used});
}

}  // namespace ckpt::manager
