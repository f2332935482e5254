// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/owner/memory_owner.h"

#include <fcntl.h>

#include <algorithm>

#include "agent/participant/participant.h"
#include "agent/protocol.h"

namespace ckpt::cuda {
namespace {

using protocol::Type;

// cuInit and a context take two seconds on a machine with eight GPUs; a driver that hangs must not
// keep the dump waiting.
constexpr std::chrono::seconds kOwnerPatience{60};
// The copies have a deadline as long as the driver's own checkpoint (late_call.h).
constexpr std::chrono::seconds kOwnerCopyPatience{300};

constexpr u16 number(Type type) { return static_cast<u16>(type); }

Error failure_in(const Message &m) {
  Reader in = m.reader();
  Error why{std::string(in.str()), {}};
  why.hint = in.str();
  return in.ok() ? why : Error{"its answer is malformed", {}};
}

}  // namespace

Result<Message> MemoryOwner::answer() {
  CKPT_TRY(std::optional<Message> m, receive_message(connection_.get()));
  if (!m) return fail("the process has ended");
  if (m->type == number(Type::Failed)) return Failure(failure_in(*m));
  return std::move(*m);
}

Result<Message> MemoryOwner::ask(u16 type, ByteView body, std::span<const int> fds) {
  CKPT_CHECK(send_message(connection_.get(), type, body, fds));
  CKPT_TRY(Message m, answer());
  if (m.type != number(Type::Ok)) return fail("it answered {} with {}", type, m.type);
  return m;
}

// Where the keeper is of an earlier version, it refuses.
Result<> MemoryOwner::connect(u16 request, const Writer &body) {
  CKPT_TRY(connection_, connect_unix(agent::session_socket()));
  CKPT_CHECK(set_receive_timeout(connection_.get(), kOwnerPatience));
  UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  int streams[] = {null.get(), null.get()};
  std::span<const int> fds;
  if (request == number(Type::ProxyWanted)) fds = streams;
  CKPT_CHECK(send_message(connection_.get(), request, body.bytes(), fds));
  CKPT_TRY(Message m, answer());
  token_ = m.reader().get<u64>();
  return {};
}

Result<> MemoryOwner::start(const std::vector<std::string> &uuids) {
  Writer wanted;
  wanted.put(protocol::kVersion).str(protocol::kMemoryOwnerProxy);
  CKPT_CHECK(connect(number(Type::ProxyWanted), wanted));
  Writer devices;
  devices.put(static_cast<u32>(uuids.size()));
  for (const std::string &uuid : uuids) devices.str(uuid);
  CKPT_CHECK(ask(number(Type::OwnerBegin), devices.bytes()));
  return {};
}

Result<> MemoryOwner::give(const std::vector<SharedMemory> &some) {
  Writer body;
  std::vector<int> handles;
  body.put(static_cast<u32>(some.size()));
  for (const SharedMemory &s : some) {
    body.put(s.key).put(s.bytes);
    handles.push_back(s.handle.get());
  }
  CKPT_CHECK(ask(number(Type::MemoryGiven), body.bytes(), handles));
  return {};
}

Result<u64> MemoryOwner::drain(int file, u64 file_bytes, int tool,
                               const std::vector<OwnerCopy> &copies, bool device_copies) {
  Writer body;
  body.put(file_bytes).put(static_cast<u64>(copies.size()));
  for (const OwnerCopy &c : copies) body.put(c.key).put(c.offset).put(c.bytes).put(c.at);
  if (device_copies) body.put(u8{1});
  const int fds[] = {file, tool};
  CKPT_TRY(Message m, ask(number(Type::DrainWanted), body.bytes(), fds));
  return m.reader().get<u64>();
}

Result<> MemoryOwner::leave() {
  CKPT_CHECK(ask(number(Type::OwnerLeave), {}));
  hang_up();
  return {};
}

Result<> MemoryOwner::come_back() {
  Writer again;
  again.put(protocol::kVersion).put(token_);
  CKPT_CHECK(connect(number(Type::ProxyAgain), again));
  return set_receive_timeout(connection_.get(), kOwnerCopyPatience);
}

Result<std::vector<SharedMemory>> MemoryOwner::take_some() {
  CKPT_CHECK(send_message(connection_.get(), number(Type::MemoryWanted)));
  CKPT_TRY(Message m, answer());
  Reader in = m.reader();
  u32 n = in.get<u32>();
  if (m.type != number(Type::MemoryGiven) || n != m.fds.size())
    return fail("its answer is malformed");
  std::vector<SharedMemory> some(n);
  for (u32 i = 0; i < n; i++) {
    some[i].key = in.get<u64>();
    some[i].bytes = in.get<u64>();
    some[i].handle = std::move(m.fds[i]);
  }
  if (!in.done()) return fail("its answer is malformed");
  return some;
}

void MemoryOwner::drop() {
  hang_up();
  Result<UniqueFd> keeper = connect_unix(agent::session_socket());
  Writer body;
  body.put(protocol::kVersion).put(token_);
  if (keeper) (void)send_message(keeper->get(), number(Type::ProxyDrop), body.bytes());
}

}  // namespace ckpt::cuda
