// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/later_contents.h"

#include <poll.h>
#include <sys/socket.h>

#include "agent/protocol.h"
#include "common/base/shortage.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::tools {
namespace {

using protocol::Type;

// The driver frees the memory of a process that ends within this time.
constexpr std::chrono::seconds kEndTimeout{10};
// Without any progress. As long as the driver's own calls may take (driver-checkpoint/late_call.h).
constexpr std::chrono::seconds kStandstill{300};

}  // namespace

LaterContents::~LaterContents() {
  cancel();
  if (thread_.joinable()) thread_.join();
}

bool LaterContents::in_doubt() const {
  pollfd owner{owner_.get(), POLLRDHUP, 0};
  return !come_ && ::poll(&owner, 1, 0) != 0;
}

void LaterContents::cancel() const { ::shutdown(owner_.get(), SHUT_RDWR); }

Result<> LaterContents::start(std::function<Result<>(const Due &)> take) {
  take_ = std::move(take);
  CKPT_CHECK(set_receive_timeout(owner_.get(), kStandstill));
  CKPT_TRY(thread_, start_thread([this] { outcome_ = guarded([this] { return follow(); }); }));
  return {};
}

Result<> LaterContents::wait() {
  if (thread_.joinable()) thread_.join();
  return outcome_;
}

Result<> LaterContents::follow() {
  for (u64 there = 0, taken = 0; taken < all_.size();) {
    CKPT_TRY(there, next_count(there));
    for (; taken < there; taken++) CKPT_CHECK(take_(all_[taken]));
  }
  come_ = true;
  return {};
}

Result<u64> LaterContents::next_count(u64 before) const {
  CKPT_TRY(std::optional<Message> m, receive_message(owner_.get()));
  if (!m)
    return fail_with_hint(
        "the process that copies the program's device memory has ended before it had copied all of "
        "it",
        "run ckpt-dump again; if this happens again, with --stop-the-world, or run the program "
        "without ckpt-run --device-owner");
  Reader in = m->reader();
  if (m->type == static_cast<u16>(Type::Failed)) {
    Error why{std::string(in.str()), {}};
    why.hint = in.str();
    return Failure(std::move(why));
  }
  u64 count = in.get<u64>();
  bool sound = m->type == static_cast<u16>(Type::Drained) && in.done();
  if (sound && count >= before && count <= all_.size()) return count;
  return fail("the owner of device memory sent a malformed message");
}

void LaterContents::drop() const {
  if (!send_message(owner_.get(), static_cast<u16>(Type::OwnerDrop))) return;
  (void)set_receive_timeout(owner_.get(), kEndTimeout);
  while (Result<std::optional<Message>> m = receive_message(owner_.get()))
    if (!*m) return;
}

}  // namespace ckpt::tools
