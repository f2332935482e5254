// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/first_code.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/log.h"
#include "common/proc/file.h"

namespace ckpt::tools {
namespace {

constexpr u64 kCodeOfCriu = 0xcccc'cccc'cccc'050f;  // syscall; int3 …

bool is_executable(const ProcMapping &m) {
  return m.permissions.size() > 2 && m.permissions[2] == 'x';
}

bool read_at(int memory, u64 address, u64 &bytes) {
  return ::pread(memory, &bytes, sizeof bytes, static_cast<off_t>(address)) == sizeof bytes;
}

}  // namespace

u64 FirstCode::address_in(const std::vector<ProcMapping> &maps) {
  auto first = std::ranges::find_if(maps, is_executable);
  return first == maps.end() ? 0 : first->begin;
}

std::optional<FirstCode> FirstCode::of(pid_t process) {
  FirstCode code{address_in(proc::mappings_of(process))};
  Result<UniqueFd> memory = proc::open(process, "mem", O_RDONLY | O_CLOEXEC);
  if (code.address == 0 || !memory || !read_at(memory->get(), code.address, code.bytes)) return {};
  return code;
}

bool FirstCode::is_of_criu() const { return bytes == kCodeOfCriu; }

Result<> FirstCode::restore_in(pid_t process) const {
  Result<UniqueFd> memory = proc::open(process, "mem", O_RDWR | O_CLOEXEC);
  if (!memory)
    log::warn("whether process {} has its own code at {:#x} is not known: {}", process, address,
              memory.error().what);
  u64 now = 0;
  if (!memory || !read_at(memory->get(), address, now) || now != kCodeOfCriu || is_of_criu())
    return {};
  log::debug("process {}: CRIU's code at {:#x} is replaced", process, address);
  if (::pwrite(memory->get(), &bytes, sizeof bytes, static_cast<off_t>(address)) == sizeof bytes)
    return {};
  return fail_errno("cannot write the program's own code back to process {} at {:#x}", process,
                    address);
}

}  // namespace ckpt::tools
