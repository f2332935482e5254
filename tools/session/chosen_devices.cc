// SPDX-License-Identifier: Apache-2.0
#include "tools/session/chosen_devices.h"

#include "agent/protocol.h"
#include "common/base/fields.h"
#include "common/ipc/unix_socket.h"
#include "tools/proc/process_root.h"

namespace ckpt::tools {
namespace {

using protocol::Type;

constexpr int kAttempts = 3;

Result<std::optional<Message>> ask_keeper(const Target &target, Type type, const Writer &body) {
  CKPT_TRY(UniqueFd keeper, connect_unix_of(target.keeper, target.session_socket));
  CKPT_CHECK(send_message(keeper.get(), static_cast<u16>(type), body.bytes()));
  return receive_message(keeper.get());
}

// A keeper closes a connection on which no request has come yet if too many of them wait; an older
// one does so after some seconds.
Result<Message> answer_of_keeper(const Target &target, Type type, const Writer &body) {
  Error why{"the session keeper gives no answer", "try again"};
  for (int attempt = 0; attempt < kAttempts; attempt++) {
    Result<std::optional<Message>> m = ask_keeper(target, type, body);
    if (m && *m) return std::move(**m);
    if (!m) why = m.error();
  }
  return Failure(std::move(why));
}

}  // namespace

Result<> choose_devices_of(const Target &target, const DeviceChoice &choice) {
  Writer body;
  body.put(protocol::kVersion).put(static_cast<u32>(choice.size()));
  for (auto &[api, ids] : choice) {
    body.str(api).put(static_cast<u32>(ids.size()));
    for (const std::string &id : ids) body.str(id);
  }
  CKPT_TRY(std::optional<Message> m, ask_keeper(target, Type::DevicesChosen, body));
  if (m && static_cast<Type>(m->type) == Type::Ok) return {};
  return fail("the session keeper refused the choice of devices");
}

Result<std::optional<DeviceChoice>> chosen_devices_of(const Target &target,
                                                      const std::set<std::string> &apis) {
  DeviceChoice choice;
  for (const std::string &api : apis) {
    Writer body;
    body.put(protocol::kVersion).str(api);
    CKPT_TRY(Message m, answer_of_keeper(target, Type::ChosenWanted, body));
    if (static_cast<Type>(m.type) != Type::Ok) return std::nullopt;
    Reader r = m.reader();
    std::vector<std::string> ids = read_texts(r);
    if (!r.done()) return fail("the session keeper's answer is malformed");
    if (!ids.empty()) choice[api] = std::move(ids);
  }
  return choice;
}

}  // namespace ckpt::tools
