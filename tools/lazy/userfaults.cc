// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/userfaults.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/test_points.h"
#include "common/proc/file.h"
#include "common/proc/remote_call.h"
#include "helper/userfaultfds.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

Result<std::vector<bool>> present_pages(int pagemap, const OwedPiece &piece) {
  constexpr u64 kPresent = u64{1} << 63, kSwapped = u64{1} << 62;  // proc_pid_pagemap(5)
  std::vector<u64> entries((piece.end - piece.begin) / kLazyPage);
  size_t bytes = entries.size() * sizeof(u64);
  ssize_t n = ::pread(pagemap, entries.data(), bytes,
                      static_cast<off_t>(piece.begin / kLazyPage * sizeof(u64)));
  if (n != static_cast<ssize_t>(bytes)) return fail_errno("cannot read which pages exist");
  std::vector<bool> present(entries.size());
  for (size_t i = 0; i < entries.size(); i++)
    present[i] = (entries[i] & (kPresent | kSwapped)) != 0;
  return present;
}

// A page in which something stands that is not the image's would be lost without a trace.
Result<> load_page(int memory, u64 at, const storage::ImageReader &image,
                   const storage::StreamEntry &stream, u64 offset) {
  Bytes page(kLazyPage);
  auto place = static_cast<off_t>(at);
  if (::pread(memory, page.data(), page.size(), place) != static_cast<ssize_t>(page.size()))
    return fail_errno("cannot read the program's memory");
  if (std::ranges::any_of(page, [](std::byte b) { return b != std::byte{0}; }))
    return fail_with_hint(
        fmt::format("the page at {:#x} was written before its contents arrived", at),
        "restore the image without --lazy");
  CKPT_CHECK(image.read(stream, offset, page));
  if (::pwrite(memory, page.data(), page.size(), place) != static_cast<ssize_t>(page.size()))
    return fail_errno("cannot write the program's memory");
  return {};
}

// The part with owed pages of one mapping, or of several with small gaps between them.
Result<> register_range(int fd, u64 begin, u64 end) {
  uffdio_register r{};
  r.range = {.start = begin, .len = end - begin};
  r.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (::ioctl(fd, UFFDIO_REGISTER, &r) != 0)
    return fail_errno("the kernel does not watch the memory at {:#x}", begin);
  return {};
}

}  // namespace

Result<> check_userfaults() {
  UniqueFd fd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
  return fd ? helper::agree_on_events(fd.get()) : fail_errno("the kernel refuses userfaultfd(2)");
}

Result<UniqueFd> userfaultfd_of(pid_t pid) {
  CKPT_TRY(proc::RemoteCalls calls, proc::RemoteCalls::in(pid, pid));
  CKPT_TRY(i64 fd, calls.call(SYS_userfaultfd, {O_CLOEXEC | O_NONBLOCK}));
  if (fd < 0) {
    errno = static_cast<int>(-fd);
    return fail_errno("the program cannot make a userfaultfd");
  }
  test_point("lazy-made");
  UniqueFd ours = duplicate_descriptor(pid, static_cast<int>(fd));
  CKPT_CHECK(calls.call(SYS_close, {static_cast<u64>(fd)}));
  if (!ours) return fail_errno("cannot take the program's userfaultfd");
  CKPT_CHECK(helper::agree_on_events(ours.get()));
  return ours;
}

Result<> take_faults(pid_t pid, int fd, const storage::ImageReader &image,
                     const storage::StreamEntry &stream, OwedMap &owed,
                     const std::vector<OwedPiece> &pieces) {
  CKPT_TRY(UniqueFd pagemap, proc::open(pid, "pagemap", O_RDONLY));
  CKPT_TRY(UniqueFd memory, proc::open(pid, "mem", O_RDWR));
  for (const OwedPiece &p : pieces) {
    owed.add(p);
    CKPT_TRY(std::vector<bool> present, present_pages(pagemap.get(), p));
    for (size_t i = 0; i < present.size(); i++) {
      if (!present[i]) continue;
      u64 at = p.begin + i * kLazyPage;
      CKPT_CHECK(load_page(memory.get(), at, image, stream, p.offset + i * kLazyPage));
      owed.drop(at, at + kLazyPage);
    }
  }
  constexpr u64 kGap = 64 * kLazyPage;  // fewer splits of mappings
  for (size_t i = 0, next; i < pieces.size(); i = next) {
    for (next = i + 1; next < pieces.size(); next++)
      if (pieces[next].begin - pieces[next - 1].end > kGap) break;
    CKPT_CHECK(register_range(fd, pieces[i].begin, pieces[next - 1].end));
  }
  test_point("lazy-registered");
  return {};
}

}  // namespace ckpt::tools
