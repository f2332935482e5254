// SPDX-License-Identifier: Apache-2.0
//
// rewrite-spirv MODULE FORM OUT: the pass over a SPIR-V module. Prints why it runs whole, if it
// does.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "slicing/spirv.h"

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  std::string module{std::istreambuf_iterator<char>(in), {}};
  auto form = static_cast<ckpt::u32>(std::atoi(argv[2]));
  ckpt::slicing::SlicedSpirv r = ckpt::slicing::sliced_spirv(ckpt::view(module), form);
  if (!r.whole.empty()) {
    std::puts(r.whole.c_str());
    return 1;
  }
  std::string_view made = ckpt::text(r.module);
  std::ofstream(argv[3], std::ios::binary)
      .write(made.data(), static_cast<std::streamsize>(made.size()));
  return 0;
}
