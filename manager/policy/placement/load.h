// SPDX-License-Identifier: Apache-2.0
//
// How busy programs keep a GPU together. A GPU has two engines, one that computes and one that
// copies: programs that need different engines run side by side, and programs that need the same
// one wait for each other.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::manager {

// What a program does for most of its time. One that pauses computes, but leaves the engine idle in
// between, when its host works.
enum class Role : u8 { Computes, Copies, Pauses, Unknown };

// The engines that a program needs, as parts of its time when it has a GPU for itself. An unknown
// program is assumed to be average, so that it is tried where a program like those on the GPU would
// lose.
struct Demand {
  double kernels = 0.5, bus = 0.5;
  bool known = false;
  bool pauses = false;

  Role role() const {
    if (!known) return Role::Unknown;
    if (bus >= kMostlyCopies) return Role::Copies;
    return pauses ? Role::Pauses : Role::Computes;
  }

 private:
  // Half of what the workload that copies fastest has (profile/workload_profiles.cc).
  static constexpr double kMostlyCopies = 0.35;
};

struct Load {
  double kernels = 0, bus = 0;
  u32 copying = 0;             // programs that need the bus
  std::vector<double> buses;   // of each program
  std::array<u32, 4> roles{};  // the number of programs, by role

  void add(const Demand &d) {
    kernels += d.kernels;
    bus += d.bus;
    buses.push_back(d.bus);
    roles[static_cast<size_t>(d.role())]++;
    if (d.bus >= kNeedsBus) copying++;
  }
  u32 count(Role role) const { return roles[static_cast<size_t>(role)]; }
  // Programs that keep the engine for kernels busy, or may do so.
  u32 computing() const { return count(Role::Computes) + count(Role::Unknown); }
  // How much longer than alone the programs take, until each has done what it does in a second
  // alone.
  double stretch() const { return std::max({1.0, kernels, bus * (copying > 1 ? kContention : 1)}); }

 private:
  static constexpr double kNeedsBus = 0.1;
  // Two programs that copied most of their time took 1.88 times as long beside each other (Mobile
  // CUDA's matrix of pairs). Each needs the bus for 0.68 of its time (bench/mobile/derive), so the
  // bus alone would explain 1.36.
  static constexpr double kContention = 1.4;
};

}  // namespace ckpt::manager
