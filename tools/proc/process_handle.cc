// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/process_handle.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>

namespace ckpt::tools {

Result<ProcessHandle> ProcessHandle::open(pid_t pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd && errno == ESRCH) return fail("process {} has ended", pid);
  if (!fd) return fail_errno("cannot open process {}", pid);
  return ProcessHandle(std::move(fd));
}

bool ProcessHandle::signal(int number) const {
  return fd_ && ::syscall(SYS_pidfd_send_signal, fd_.get(), number, nullptr, 0) == 0;
}

bool ProcessHandle::ends_within(std::chrono::milliseconds time) const {
  pollfd end{fd_.get(), POLLIN, 0};
  return fd_ && ::poll(&end, 1, static_cast<int>(time.count())) == 1;
}

// Between the reading of the tree and pidfd_open(), the PID may be given to another process. But if
// the PID is in the tree afterwards, and the handle still has that PID, its process belongs to the
// tree.
Result<std::vector<ProcessHandle>> handles_of_tree(pid_t root,
                                                   const std::vector<Process> &processes) {
  std::vector<ProcessHandle> handles;
  for (const Process &p : processes) {
    CKPT_TRY(ProcessHandle handle, ProcessHandle::open(p.pid));
    handles.push_back(std::move(handle));
  }
  std::set<pid_t> now;
  for (const Process &p : ProcessTable::read().tree(root)) now.insert(p.pid);
  for (size_t i = 0; i < processes.size(); i++)
    if (!now.contains(processes[i].pid) || !handles[i].has_pid())
      return fail("process {} of the program ended during the checkpoint", processes[i].pid);
  return handles;
}

}  // namespace ckpt::tools
