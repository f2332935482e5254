// SPDX-License-Identifier: Apache-2.0
//
// The requests about what processes share: device memory (device_shares.h) and events
// (shared_events.h).
#include "tools/session/requests.h"

#include "agent/protocol.h"

namespace ckpt::tools {
namespace {

using protocol::Type;

Result<DeviceShares::Piece> piece_in(Reader &in) {
  DeviceShares::Piece piece;
  piece.bytes = in.get<u64>();
  piece.device = in.str();
  piece.exported = in.get<u8>() != 0;
  piece.loaded = in.get<u8>() != 0;
  if (!in.done()) return fail("malformed offer of shared device memory");
  return piece;
}

Result<> tell(int client, const DeviceShares::Found &found) {
  Writer w;
  w.put(found.state);
  if (found.piece == nullptr)
    return send_message_at_once(client, static_cast<u16>(Type::Ok), w.bytes());
  w.put(found.piece->bytes).str(found.piece->device);
  return send_message_at_once(client, static_cast<u16>(Type::Ok), w.bytes(), {&found.memory, 1});
}

}  // namespace

Result<KeeperRequests::Answer> KeeperRequests::share_memory(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  DeviceShares::User user = share_user(in.get<u64>(), client.peer);
  ShareId id{in.get<u64>(), in.get<u64>()};
  if (!in.ok() || user.token == 0) return fail("malformed request about shared device memory");
  if (user.pid > 0) CKPT_CHECK(sharers_.join(user.token, user.pid));
  switch (static_cast<Type>(message.type)) {
    case Type::ShareOffered: {
      CKPT_TRY(DeviceShares::Piece piece, piece_in(in));
      if (message.fds.size() != 1) return fail("an offer of shared device memory has no handle");
      CKPT_CHECK(shares_.offer(id, user, piece, std::move(message.fds[0])));
      return Answer::Ok;
    }
    case Type::ShareWanted: {
      bool had = in.get<u8>() != 0;
      CKPT_CHECK(tell(client.fd.get(), shares_.want(id, user, had)));
      return Answer::Sent;
    }
    case Type::ShareOwned: {
      CKPT_TRY(bool owns, shares_.own(id, user));
      Writer w;
      w.put(static_cast<u8>(owns));
      CKPT_CHECK(send_message_at_once(client.fd.get(), static_cast<u16>(Type::Ok), w.bytes()));
      return Answer::Sent;
    }
    case Type::ShareLoaded: shares_.loaded(id, user); return Answer::Ok;
    case Type::ShareAway: shares_.away(id, user); return Answer::Ok;
    default: shares_.done(id, user); return Answer::Ok;
  }
}

Result<KeeperRequests::Answer> KeeperRequests::share_events(Client &client, Message &message) {
  Reader in = message.reader();
  in.get<u32>();
  u64 token = in.get<u64>();
  if (!in.done() || token == 0) return fail("malformed request about shared events");
  CKPT_TRY(int memory, events_.join(token, client.peer));
  CKPT_CHECK(send_message_at_once(client.fd.get(), static_cast<u16>(Type::Ok), {}, {&memory, 1}));
  return Answer::Sent;
}

}  // namespace ckpt::tools
