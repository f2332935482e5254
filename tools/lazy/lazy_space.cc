// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/lazy_space.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace ckpt::tools {

Result<> LazySpace::serve(std::vector<LazySpace> &forked) {
  std::array<uffd_msg, 16> messages;
  ssize_t n;
  while ((n = ::read(fd_.get(), messages.data(), sizeof messages)) > 0)
    for (size_t i = 0; i < static_cast<size_t>(n) / sizeof messages[0]; i++)
      CKPT_CHECK(take_message(messages[i], forked));
  if (n < 0 && errno != EAGAIN && errno != EINTR) return fail_errno("cannot read a userfaultfd");
  for (u64 page : std::exchange(waiting_, {})) CKPT_CHECK(serve_fault(page));
  return {};
}

Result<> LazySpace::take_message(const uffd_msg &m, std::vector<LazySpace> &forked) {
  switch (m.event) {
    // Served after all messages: one that says where the memory is now may come behind it.
    case UFFD_EVENT_PAGEFAULT:
      waiting_.push_back(m.arg.pagefault.address / kLazyPage * kLazyPage);
      return {};
    case UFFD_EVENT_FORK:
      forked.emplace_back(UniqueFd(static_cast<int>(m.arg.fork.ufd)), owed_, source_, *arrival_);
      arrival_->owed += owed_.bytes();
      return {};
    case UFFD_EVENT_REMAP:
      arrival_->owed -= owed_.move(m.arg.remap.from, m.arg.remap.to, m.arg.remap.len);
      return {};
    case UFFD_EVENT_REMOVE:
    case UFFD_EVENT_UNMAP:
      arrival_->owed -= owed_.drop(m.arg.remove.start, m.arg.remove.end);
      return {};
    default: return fail("the kernel reports an unknown event ({}) of memory", m.event);
  }
}

// An address at which nothing is owed has been given back and is read again, or was never written:
// it is zero, as in any new memory.
Result<> LazySpace::serve_fault(u64 page) {
  waited_ = true;
  if (owed_.find(page)) {
    CKPT_CHECK(place_around(page));
    if (!gone_ && owed_.find(page)) waiting_.push_back(page);
    return {};
  }
  uffdio_zeropage zero{.range = {.start = page, .len = kLazyPage}, .mode = 0, .zeropage = 0};
  if (::ioctl(fd_.get(), UFFDIO_ZEROPAGE, &zero) == 0) return {};
  if (errno == EAGAIN)
    waiting_.push_back(page);
  else
    wake(page);  // it was placed, unmapped or has ended meanwhile: the access is tried again
  return {};
}

void LazySpace::wake(u64 page) {
  uffdio_range range{.start = page, .len = kLazyPage};
  (void)::ioctl(fd_.get(), UFFDIO_WAKE, &range);
}

std::optional<u64> LazySpace::next_page() const {
  std::optional<OwedPiece> piece = owed_.next(next_);
  if (!piece) piece = owed_.first();
  if (!piece) return std::nullopt;
  return piece->begin < next_ && next_ < piece->end ? next_ : piece->begin;
}

PageRun LazySpace::run_at(const OwedPiece &piece, u64 page) const {
  return source_.around(piece.offset + (page - piece.begin));
}

std::vector<u32> LazySpace::next_chunks(size_t count) const {
  constexpr size_t kMostPieces = 64;  // of one chunk, before this gives up
  std::vector<u32> chunks;
  std::optional<u64> page = next_page();
  for (size_t i = 0; page && i < kMostPieces && chunks.size() < count; i++) {
    std::optional<OwedPiece> piece = owed_.next(*page);
    if (!piece) break;
    u64 at = std::max(*page, piece->begin);
    PageRun run = run_at(*piece, at);
    if (run.chunk && (chunks.empty() || chunks.back() != *run.chunk)) chunks.push_back(*run.chunk);
    page = std::min(piece->end, piece->begin + (run.end - piece->offset));
  }
  return chunks;
}

bool LazySpace::has_next() const {
  std::optional<u64> page = next_page();
  return !gone_ && page && waiting_.empty() && source_.has(run_at(*owed_.find(*page), *page));
}

Result<> LazySpace::place_next() {
  std::optional<u64> page = next_page();
  if (!page || !waiting_.empty()) return {};
  return place_around(*page);
}

// The page first, because the process may wait for it. Pages before it in the chunk would otherwise
// cost a second decoding.
Result<> LazySpace::place_around(u64 page) {
  OwedPiece piece = *owed_.find(page);
  u64 offset = piece.offset + (page - piece.begin);
  PageRun run = source_.around(offset);
  CKPT_TRY(ByteView bytes, source_.read(run));
  u64 before = std::min(page - piece.begin, offset - run.begin);
  u64 behind = std::min(piece.end - page, run.end - offset);
  next_ = page;
  CKPT_CHECK(place(page, bytes.subspan(offset - run.begin, behind)));
  if (before == 0 || gone_ || owed_.find(page)) return {};
  return place(page - before, bytes.subspan(offset - run.begin - before, before));
}

// Places as much as the kernel takes at once. Nothing if the memory changes just now.
Result<> LazySpace::place(u64 begin, ByteView contents) {
  for (u64 size = contents.size();;) {
    uffdio_copy copy{};
    copy.dst = begin;
    copy.src = reinterpret_cast<u64>(contents.data());
    copy.len = size;
    int failed = ::ioctl(fd_.get(), UFFDIO_COPY, &copy) != 0 ? errno : 0;
    u64 placed = copy.copy > 0 ? static_cast<u64>(copy.copy) : 0;
    if (placed) arrival_->arrived += owed_.drop(begin, begin + placed);
    if (placed || failed == EAGAIN) return {};
    if (failed == ESRCH) {
      gone_ = true;
      arrival_->owed -= owed_.bytes();
      return {};
    }
    // The kernel places pages into one mapping at a time, and this one was divided (mprotect(2)).
    if (failed == ENOENT && size > kLazyPage) {
      size = size / kLazyPage / 2 * kLazyPage;
      if (size == 0) size = kLazyPage;
      continue;
    }
    errno = failed;
    return fail_errno("the page at {:#x} cannot be given its contents", begin);
  }
}

}  // namespace ckpt::tools
