// SPDX-License-Identifier: Apache-2.0
#include "tools/session/end_mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

std::string mark_of(const std::string &image) { return image + ".ended"; }
std::string index_of(const std::string &image) { return image + "/index.ckpt"; }

bool is_newer(const struct stat &a, const struct stat &b) {
  return std::pair(a.st_mtim.tv_sec, a.st_mtim.tv_nsec) >=
         std::pair(b.st_mtim.tv_sec, b.st_mtim.tv_nsec);
}

}  // namespace

void mark_ended(const std::string &image) {
  if (::access(index_of(image).c_str(), F_OK) != 0) return;  // it was removed since
  std::string mark = mark_of(image);
  UniqueFd fd(::open(mark.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!fd || ::futimens(fd.get(), nullptr) != 0)
    log::info("cannot write {}, so that ckpt-restore --all would start the program again: {}", mark,
              std::strerror(errno));
}

void remove_mark(const std::string &image) { ::unlink(mark_of(image).c_str()); }

bool is_marked_ended(const std::string &image) {
  struct stat mark {
  }, index{};
  return ::stat(mark_of(image).c_str(), &mark) == 0 &&
         ::stat(index_of(image).c_str(), &index) == 0 && is_newer(mark, index);
}

}  // namespace ckpt::tools
