// SPDX-License-Identifier: Apache-2.0
//
// echo [FILE]
//
// Answers each line of standard input. With FILE it starts to read only when that file exists.
#include <unistd.h>

#include <cstdio>
#include <string>

int main(int argc, char **argv) {
  dprintf(1, "ready\n");
  if (argc > 1)
    while (access(argv[1], F_OK) != 0) usleep(10000);
  std::string line;
  for (char c; read(0, &c, 1) == 1;) {
    if (c != '\n') {
      line += c;
      continue;
    }
    dprintf(1, "got %s\n", line.c_str());
    if (line == "quit") return 5;
    line.clear();
  }
  dprintf(1, "end of file\n");
  return 0;
}
