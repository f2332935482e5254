// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into a program of nvcc -cudart shared: reads the fat binary that the program registers
// before main(), where it lies in memory, prints what it contains, and ends the program.
#include <unistd.h>

#include <cstdio>

#include "fatbin/summary.h"

namespace {

using namespace ckpt::fatbin;

ckpt::Result<> print_contents(const void *wrapper) {
  CKPT_TRY(Image image, Image::in_memory(wrapper));
  fmt::print("{}\n", name_of(image.form()));
  for (const Container &c : image.containers())
    for (const Entry &e : c.entries)
      fmt::print("{} {} {}\n", c.role == Role::Unit ? "unit" : "loaded", name_of(e.kind),
                 e.target());
  CKPT_TRY(Summary summary, summarize(image));
  fmt::print("heap {}\n", name_of(summary.heap.use));
  for (const auto &[name, k] : summary.kernels)
    fmt::print("kernel {} {}\n", name, k.kernel.parameter_bytes);
  return {};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void **__cudaRegisterFatBinary(void *wrapper) {
  ckpt::Result<> done = print_contents(wrapper);
  if (!done) fmt::print("{}\n", done.error().text());
  fflush(stdout);
  ::_exit(done ? 0 : 1);
}
