// SPDX-License-Identifier: Apache-2.0
#include "tools/session/standard_streams.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/base/print.h"
#include "common/base/printable.h"
#include "common/base/unique_fd.h"
#include "storage/format/pipe_format.h"
#include "tools/proc/descriptors.h"
#include "tools/session/job_comment.h"

namespace ckpt::tools {
namespace {

void print_stopped(const char *tool, const Keeper::Outcome &outcome, const std::string &job) {
  const std::string &image = *outcome.image;
  struct stat st {};
  if (::fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode)) return;
  std::string what = job.empty() ? printable(image) : "--job " + printable(job);
  if (outcome.moved_to)
    print_to(stderr, "{}: the program was moved to {}\n", tool, printable(*outcome.moved_to));
  else if (image == storage::kPipeImage)
    print_to(stderr, "{}: the program was checkpointed into a pipe and stopped\n", tool);
  else
    print_to(
        stderr,
        "{}: the program was checkpointed to {} and stopped; restart it with: ckpt-restore {}\n",
        tool, printable(image), what);
}

}  // namespace

int report_stopped(const char *tool, const Keeper::Outcome &outcome, const std::string &job,
                   int code) {
  const std::string &image = *outcome.image;
  if (code == 0) code = outcome.moved_to ? kMovedExitCode : kCheckpointedExitCode;
  print_stopped(tool, outcome, job);
  explain_in_job_comment(code, image);
  return code;
}

void adopt_null_streams() {
  std::set<int> mounts = mounts_of(::getpid());
  for (const Descriptor &d : descriptors_of(::getpid())) {
    if (d.fd > STDERR_FILENO || d.target != "/dev/null" || mounts.contains(d.mount)) continue;
    UniqueFd null(::open("/dev/null", (d.flags & O_ACCMODE) | O_CLOEXEC));
    if (null) ::dup2(null.get(), d.fd);
  }
}

void release_streams() {
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO}) ::dup2(null, fd);
  if (null > STDERR_FILENO) ::close(null);
}

}  // namespace ckpt::tools
