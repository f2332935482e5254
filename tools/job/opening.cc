// SPDX-License-Identifier: Apache-2.0
#include "tools/job/opening.h"

#include <sys/socket.h>

#include <cstring>

#include "common/base/clock.h"

namespace ckpt::tools {
namespace {

constexpr size_t kSizeBytes = sizeof(u32);

}  // namespace

// The socket is new, so its buffer has room for a greeting.
Result<Opening> Opening::begin(UniqueFd socket) {
  set_up_job_socket(socket.get());
  Opening o(std::move(socket));
  o.ours_.resize(Channel::kGreetingBytes);
  CKPT_CHECK(Channel::begin_greeting(o.ours_));
  ssize_t n = ::send(o.descriptor(), o.ours_.data(), o.ours_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0) return fail_errno("cannot greet the peer");
  if (static_cast<size_t>(n) != o.ours_.size()) return fail("cannot greet the peer");
  return o;
}

// How many bytes the greeting and the first message have, as far as that is known.
Result<size_t> Opening::wanted() const {
  size_t greeting = Channel::kGreetingBytes;
  if (theirs_.size() >= greeting && !Channel::is_greeting(theirs_))
    return fail("the peer is not a tool of this version of ckpt");
  if (theirs_.size() < greeting + kSizeBytes) return greeting + kSizeBytes;
  u32 size = 0;
  std::memcpy(&size, theirs_.data() + greeting, sizeof size);
  if (size < storage::kSealBytes + sizeof(u16) || size > Channel::kMaxFirstFrame)
    return fail("the peer has sent a message of {} bytes, which is not a valid size", size);
  return greeting + kSizeBytes + size;
}

Result<bool> Opening::receive(const storage::Key &key) {
  for (;;) {
    CKPT_TRY(size_t all, wanted());
    size_t have = theirs_.size();
    if (have == all) break;
    theirs_.resize(all);
    ssize_t n = ::recv(descriptor(), theirs_.data() + have, all - have, MSG_DONTWAIT);
    theirs_.resize(have + static_cast<size_t>(n > 0 ? n : 0));
    if (n == 0) return fail("the peer has hung up");
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n < 0) return fail_errno("cannot receive");
  }
  return is_sealed_by(key) ? Result<bool>(true) : fail("the peer does not have the job's key");
}

bool Opening::is_sealed_by(const storage::Key &key) const {
  Result<Channel> c = Channel::resume(UniqueFd(), key, state());
  return c && c->receive(Clock::time_point::min());
}

Bytes Opening::state() const {
  Writer w;
  w.raw(theirs_.data(), Channel::kGreetingBytes).raw(ours_.data(), ours_.size());
  size_t at = Channel::kGreetingBytes;
  return w.raw(theirs_.data() + at, theirs_.size() - at).take();
}

}  // namespace ckpt::tools
