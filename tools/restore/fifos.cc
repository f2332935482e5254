// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/fifos.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/log.h"

namespace ckpt::tools {
namespace {

bool is_fifo(const std::string &path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISFIFO(st.st_mode);
}

// A restore makes it again.
bool is_kept(const ImageManifest &m, const std::string &path) {
  return std::ranges::any_of(m.kept_fifos, [&](const auto &kept) { return kept.path == path; });
}

// tee(2) consumes nothing: it returns 0 where there is neither a byte nor a writer.
bool has_writer_or_bytes(int fifo) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return true;
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  return ::tee(fifo, write_end.get(), 1, SPLICE_F_NONBLOCK) != 0;
}

}  // namespace

void Fifos::take(const ImageManifest &m, Reasons &reasons) {
  for (const ImageManifest::Fifo &f : m.fifos) {
    if (!is_fifo(f.path) && is_kept(m, f.path)) continue;
    if (!is_fifo(f.path))
      reasons.push_back(fmt::format("the FIFO {} is missing: create it again (mkfifo), with its {}",
                                    f.path, f.program_reads ? "writer" : "reader"));
    else if (f.program_reads)
      take_writer(f);
    else
      take_reader(f, reasons);
  }
}

void Fifos::take_reader(const ImageManifest::Fifo &f, Reasons &reasons) {
  UniqueFd end(::open(f.path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!end && errno == ENXIO)
    reasons.push_back(
        fmt::format("nothing reads the FIFO {}, to which the program writes (descriptor {}), so "
                    "that its next write would end it: start the reader first (cat {} >FILE &)",
                    f.path, f.fd, f.path));
  if (end) ends_.push_back(std::move(end));
}

void Fifos::take_writer(const ImageManifest::Fifo &f) {
  UniqueFd end(::open(f.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!end) return;
  if (!has_writer_or_bytes(end.get()))
    log::warn(
        "nothing writes to the FIFO {}, from which the program reads (descriptor {}): it reads the "
        "end of file, unless its writer is started now",
        f.path, f.fd);
  ends_.push_back(std::move(end));
}

}  // namespace ckpt::tools
