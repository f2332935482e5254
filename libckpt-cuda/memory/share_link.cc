// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/share_link.h"

#include <fcntl.h>
#include <sys/random.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "agent/participant/participant.h"
#include "driver-checkpoint/uuid.h"

namespace ckpt::cuda {
namespace {

using protocol::ShareState;
using protocol::Type;

constexpr std::chrono::seconds kKeeperPatience{15};
constexpr auto kFileHandle = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

bool fill_randomly(void *out, size_t bytes) {
  return ::getrandom(out, bytes, 0) == static_cast<ssize_t>(bytes);
}

}  // namespace

u64 process_token() {
  static const u64 kToken = [] {
    u64 token = 0;
    return fill_randomly(&token, sizeof token) ? token | 1 : 0;
  }();
  return kToken;
}

Result<ShareId> new_share_id() {
  ShareId id{};
  if (fill_randomly(id.data(), sizeof id)) return id;
  return fail("the system gives no random numbers: {}", std::strerror(errno));
}

Result<UniqueFd> export_physical(Physical physical) {
  int fd = -1;
  CKPT_CHECK(as_result(driver().cuMemExportToShareableHandle(&fd, physical, kFileHandle, 0),
                       "export device memory"));
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return UniqueFd(fd);
}

Result<Physical> import_physical(const UniqueFd &memory) {
  Physical physical = 0;
  void *fd = reinterpret_cast<void *>(static_cast<intptr_t>(memory.get()));
  CKPT_CHECK(as_result(driver().cuMemImportFromShareableHandle(&physical, fd, kFileHandle),
                       "import device memory"));
  return physical;
}

std::string uuid_of(CUdevice device) {
  CUuuid uuid{};
  driver().cuDeviceGetUuid_v2(&uuid, device);
  return uuid_text(uuid);
}

Result<Message> ShareLink::send(Type type, const Writer &body, std::span<const int> fds) {
  if (!keeper_) {
    CKPT_TRY(keeper_, connect_unix(agent::session_socket()));
    CKPT_CHECK(set_receive_timeout(keeper_.get(), kKeeperPatience));
  }
  CKPT_CHECK(send_message(keeper_.get(), static_cast<u16>(type), body.bytes(), fds));
  CKPT_TRY(std::optional<Message> m, receive_message(keeper_.get()));
  if (!m) return fail("the session keeper has closed the connection");
  if (static_cast<Type>(m->type) == Type::Ok) return std::move(*m);
  Reader in = m->reader();
  return fail("{}", in.str());
}

Result<Message> ShareLink::ask(Type type, const ShareId &id, ByteView more,
                               std::span<const int> fds) {
  Writer body;
  body.put(protocol::kVersion)
      .put(process_token())
      .put(id[0])
      .put(id[1])
      .raw(more.data(), more.size());
  return send(type, body, fds);
}

Result<> ShareLink::offer(const ShareId &id, const Offer &o) {
  Writer more;
  more.put(o.bytes).str(o.device);
  more.put(static_cast<u8>(o.exported)).put(static_cast<u8>(o.loaded));
  CKPT_CHECK(ask(Type::ShareOffered, id, more.bytes(), {&o.memory, 1}));
  return {};
}

Result<ShareState> ShareLink::want(const ShareId &id, bool had, SharedPiece &piece) {
  u8 flag = had;
  CKPT_TRY(Message m, ask(Type::ShareWanted, id, view(&flag, 1)));
  Reader in = m.reader();
  auto state = in.get<ShareState>();
  if (state != ShareState::There) return state;
  piece.bytes = in.get<u64>();
  piece.device = in.str();
  if (!in.done() || m.fds.size() != 1) return fail("the session keeper's answer is malformed");
  piece.memory = std::move(m.fds[0]);
  return state;
}

Result<bool> ShareLink::own(const ShareId &id) {
  CKPT_TRY(Message m, ask(Type::ShareOwned, id));
  return m.reader().get<u8>() != 0;
}

Result<> ShareLink::loaded(const ShareId &id) {
  CKPT_CHECK(ask(Type::ShareLoaded, id));
  return {};
}

Result<> ShareLink::away(const ShareId &id) {
  CKPT_CHECK(ask(Type::ShareAway, id));
  return {};
}

Result<> ShareLink::done(const ShareId &id) {
  CKPT_CHECK(ask(Type::ShareDone, id));
  return {};
}

Result<UniqueFd> ShareLink::event_board() {
  Writer body;
  body.put(protocol::kVersion).put(process_token());
  CKPT_TRY(Message m, send(Type::EventBoardWanted, body));
  if (m.fds.size() != 1) return fail("the session keeper's answer is malformed");
  return std::move(m.fds[0]);
}

}  // namespace ckpt::cuda
