// SPDX-License-Identifier: Apache-2.0
//
// touch_memory MIB: writes to each cache line of so many MiB, once.
#include <cstdlib>
#include <memory>

int main(int, char **argv) {
  const size_t bytes = std::strtoul(argv[1], nullptr, 10) << 20;
  std::unique_ptr<char[]> memory(new char[bytes]);
  for (size_t i = 0; i < bytes; i += 64) static_cast<volatile char *>(memory.get())[i] = 1;
}
