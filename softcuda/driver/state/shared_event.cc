// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/state/shared_event.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/base/futex.h"
#include "common/ipc/shared_memory.h"
#include "softcuda/device/stream.h"

namespace ckpt::softcuda::driver {
namespace {

constexpr u64 kSlots = 4096;
constexpr i64 kAskEach = 100'000'000;  // nanoseconds
constexpr std::chrono::milliseconds kSleep{100};

}  // namespace

struct SharedEvent::Slot {
  std::atomic<u64> done;   // the last ticket of this slot that has ended
  std::atomic<u64> owner;  // identity of the process that has the slot
};

// Zero at first. Another process may write anything here; the numbers are only compared, and used
// modulo kSlots.
struct SharedEvent::Page {
  std::atomic<u64> next;  // the last ticket that was given out
  std::atomic<u64> last;  // the last ticket with its owner written into its slot
  std::atomic<u32> changes;
  Slot slots[kSlots];
};

Result<std::shared_ptr<SharedEvent>> SharedEvent::make(broker::Client &client) {
  CKPT_TRY(UniqueFd fd, make_memfd("softcuda-event", sizeof(Page)));
  return open(client, std::move(fd));
}

Result<std::shared_ptr<SharedEvent>> SharedEvent::open(broker::Client &client, UniqueFd fd) {
  std::shared_ptr<SharedEvent> e(new SharedEvent(client));
  CKPT_CHECK(e->map(std::move(fd)));
  return e;
}

Result<> SharedEvent::map(UniqueFd fd) {
  struct stat file {};
  int seals = fcntl(fd.get(), F_GET_SEALS);
  if (fstat(fd.get(), &file) != 0 || file.st_size != sizeof(Page) || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0)
    return fail("a shared event is malformed");
  void *p = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED) return fail_errno("cannot map a shared event");
  page_ = static_cast<Page *>(p);
  fd_ = std::move(fd);
  return {};
}

SharedEvent::~SharedEvent() {
  if (page_ != nullptr) munmap(page_, sizeof(Page));
}

SharedEvent::Slot &SharedEvent::slot_of(u64 ticket) const { return page_->slots[ticket % kSlots]; }

bool SharedEvent::is_done(u64 ticket) const { return slot_of(ticket).done >= ticket; }

u64 SharedEvent::begin() {
  u64 ticket = ++page_->next;
  if (ticket > kSlots) wait(ticket - kSlots);
  slot_of(ticket).owner = client_.identity();
  for (u64 seen = page_->last; seen < ticket && !page_->last.compare_exchange_weak(seen, ticket);) {
  }
  return ticket;
}

void SharedEvent::finish(u64 ticket) {
  slot_of(ticket).done = ticket;
  ++page_->changes;
  futex_wake_all(page_->changes);
}

u64 SharedEvent::last() const { return page_->last; }

// `asked`: when the broker was asked last. It is not asked each time, because programs ask for an
// event in a loop.
bool SharedEvent::reached(u64 ticket, std::atomic<i64> &asked) {
  if (is_done(ticket)) return true;
  i64 now = device_now(), before = asked;
  if (now - before < kAskEach || !asked.compare_exchange_strong(before, now)) return false;
  u64 owner = slot_of(ticket).owner;
  if (owner == client_.identity() || client_.is_connected(owner)) return false;
  if (!is_done(ticket)) finish(ticket);
  return true;
}

bool SharedEvent::reached(u64 ticket) { return reached(ticket, asked_); }

void SharedEvent::wait(u64 ticket) {
  std::atomic<i64> asked = device_now();
  for (;;) {
    u32 seen = page_->changes;
    if (reached(ticket, asked)) return;
    futex_wait(page_->changes, seen, kSleep);
  }
}

}  // namespace ckpt::softcuda::driver
