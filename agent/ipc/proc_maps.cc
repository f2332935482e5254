// SPDX-License-Identifier: Apache-2.0
#include "agent/ipc/proc_maps.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "agent/ipc/own_fd.h"

namespace ckpt::agent {
namespace {

Result<OwnFd> open_to_read(const char *path) {
  return OwnFd::make([path]() -> Result<UniqueFd> {
    UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
    if (!file) return fail_errno("cannot open {}", path);
    return file;
  });
}

Result<std::string> read_file(const char *path) {
  CKPT_TRY(OwnFd fd, open_to_read(path));
  std::string all;
  std::array<char, 16384> part;
  for (;;) {
    ssize_t n = ::read(fd.get(), part.data(), part.size());
    if (n == 0) return all;
    if (n > 0) all.append(part.data(), static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) return fail_errno("cannot read {}", path);
  }
}

}  // namespace

Result<std::vector<ProcMapping>> own_mappings() {
  CKPT_TRY(std::string text, read_file("/proc/self/maps"));
  return parse_proc_maps(text);
}

}  // namespace ckpt::agent
