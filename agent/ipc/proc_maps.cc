// SPDX-License-Identifier: Apache-2.0
#include "agent/ipc/proc_maps.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>

#include "agent/ipc/own_fd.h"

namespace ckpt::agent {
namespace {

Result<std::string> read_file(const char *path) {
  CKPT_TRY(OwnFd fd, OwnFd::make([&]() -> Result<UniqueFd> {
             UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
             if (!file) return fail_errno("cannot open {}", path);
             return file;
           }));
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

bool ProcMapping::private_anonymous() const {
  bool nameless = name.empty() || name == "[heap]" || name.starts_with("[anon:");
  return nameless && inode == 0 && rights.ends_with('p');
}

bool parse_mapping(const std::string &line, ProcMapping &out) {
  char rights[5] = "";
  int name_at = 0;
  int fields = std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %" SCNu64 " %n",
                           &out.begin, &out.end, rights, &out.inode, &name_at);
  if (fields != 4) return false;
  out.rights = rights;
  out.name = name_at > 0 ? line.substr(static_cast<size_t>(name_at)) : "";
  return true;
}

Result<std::vector<ProcMapping>> read_maps() {
  CKPT_TRY(std::string all, read_file("/proc/self/maps"));
  std::vector<ProcMapping> maps;
  for (size_t at = 0; at < all.size();) {
    size_t end = std::min(all.find('\n', at), all.size());
    ProcMapping m;
    if (parse_mapping(all.substr(at, end - at), m)) maps.push_back(std::move(m));
    at = end + 1;
  }
  return maps;
}

}  // namespace ckpt::agent
