// SPDX-License-Identifier: Apache-2.0
//
// What the client of a CUDA device of another node takes to record a call in its ledger, as a JSON
// object: ns for an object that is made and ended, among `live` others, and for a setting.
//
//   record [LIVE]
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "remote/cuda/client/objects/ledger.h"

using namespace ckpt;
using namespace ckpt::remote::cuda;

template <class F>
static double nanoseconds(int n, F f) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < n; i++) f(i);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
             .count() /
         n;
}

int main(int argc, char **argv) {
  const int live = argc > 1 ? std::atoi(argv[1]) : 1000;
  constexpr int kTimes = 200'000;
  constexpr u16 kCall = 132;
  Ledger ledger;
  u64 context = ledger.new_number(Kind::Context);
  ledger.add(context, 0, {kCall, 0, Bytes(16)});
  auto make = [&] {
    u64 number = ledger.new_number(Kind::Event);
    ledger.add(number, context, {kCall, context, Bytes(16)});
    return number;
  };
  for (int i = 0; i < live; i++) make();
  double object = nanoseconds(kTimes, [&](int) { ledger.end(make()); });
  double setting = nanoseconds(kTimes, [&](int i) {
    ledger.set(context, i % 2 ? "limit" : "cache", {kCall, context, Bytes(16)});
  });
  std::printf("{\"object_ns\": %.0f, \"setting_ns\": %.0f}\n", object, setting);
}
