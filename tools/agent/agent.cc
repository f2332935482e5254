// SPDX-License-Identifier: Apache-2.0
#include "tools/agent/agent.h"

namespace ckpt::tools {
namespace {

using protocol::Type;
using namespace std::chrono_literals;

// An agent answers from a thread of its own; only a stopped process takes this long.
constexpr auto kPatience = 15s;
// A driver that has memory of its own in the program takes it away meanwhile.
constexpr auto kDetachPatience = 300s;
constexpr u32 kMaxReasons = 1000;

}  // namespace

Result<AgentClient> AgentClient::connect(const std::string &socket) {
  CKPT_TRY(UniqueFd fd, connect_unix(socket));
  return AgentClient(std::move(fd));
}

Result<> AgentClient::send(Type type, const Writer &body, std::span<const int> fds) {
  return send_message(fd_.get(), static_cast<u16>(type), body.bytes(), fds);
}

Result<Message> AgentClient::receive(std::chrono::milliseconds patience) {
  CKPT_CHECK(set_receive_timeout(fd_.get(), patience));
  CKPT_TRY(std::optional<Message> m, receive_message(fd_.get()));
  if (!m) return fail("the program's agent hung up");
  if (static_cast<Type>(m->type) != Type::Failed) return std::move(*m);
  Reader in = m->reader();
  std::string what(in.str()), hint(in.str());
  return fail_with_hint(what, hint);
}

Result<Message> AgentClient::ask(Type type, const Writer &body, std::span<const int> fds,
                                 std::chrono::milliseconds patience, Type expected) {
  CKPT_CHECK(send(type, body, fds));
  CKPT_TRY(Message m, receive(patience));
  if (static_cast<Type>(m.type) != expected)
    return fail("the agent answered {} with {} instead of {}", static_cast<int>(type), m.type,
                static_cast<int>(expected));
  return m;
}

Result<AgentClient::Welcome> AgentClient::hello(const std::string &tool) {
  CKPT_TRY(Message m, ask(Type::Hello, Writer().put(protocol::kVersion).str(tool), {}, kPatience,
                          Type::Welcome));
  Reader in = m.reader();
  Welcome w;
  w.version = in.get<u32>();
  w.pid = static_cast<pid_t>(in.get<u32>());
  w.state = in.get<protocol::State>();
  for (u32 n = in.get<u32>(); in.ok() && n > 0; n--) w.participants.emplace_back(in.str());
  if (!in.ok()) return fail("the agent's welcome cannot be read");
  return w;
}

Result<std::vector<std::string>> AgentClient::preflight() { return sentences(Type::Preflight); }

Result<std::vector<std::string>> AgentClient::remarks() { return sentences(Type::RemarksWanted); }

Result<std::vector<std::string>> AgentClient::sentences(Type request) {
  CKPT_TRY(Message m, ask(request, {}, {}, kPatience, Type::Reasons));
  Reader in = m.reader();
  std::vector<std::string> reasons;
  for (u32 n = std::min(in.get<u32>(), kMaxReasons); in.ok() && n > 0; n--)
    reasons.emplace_back(in.str());
  if (!in.ok()) return fail("the agent's sentences cannot be read");
  return reasons;
}

Result<> AgentClient::quiesce(std::chrono::milliseconds timeout) {
  CKPT_TRY(Message m, ask(Type::Quiesce, Writer().put(static_cast<u32>(timeout.count())), {},
                          timeout + kPatience, Type::Ok));
  return {};
}

bool AgentClient::announce(const storage::Uuid &image, const storage::Uuid &parent) {
  Writer body;
  body.raw(image.data(), image.size()).raw(parent.data(), parent.size());
  return ask(Type::Increment, body, {}, kPatience, Type::Ok).has_value();
}

Result<> AgentClient::begin_save(const Staging &staging) {
  int fd = staging.fd();
  return send(Type::Save, Writer().put(Staging::kSlots).put(Staging::kSlotBytes),
              std::span(&fd, 1));
}

Result<> AgentClient::begin_load(const Staging &staging) {
  int fd = staging.fd();
  CKPT_TRY(Message m, ask(Type::Load, Writer().put(Staging::kSlots).put(Staging::kSlotBytes),
                          std::span(&fd, 1), {}, Type::Ok));
  return {};
}

Result<> AgentClient::detach(int outcome_pipe) {
  CKPT_TRY(Message m,
           ask(Type::Detach, {}, std::span(&outcome_pipe, 1), kDetachPatience, Type::Ok));
  // It closes its sockets after the answer: its hang-up is the sign that it has.
  CKPT_CHECK(set_receive_timeout(fd_.get(), kPatience));
  (void)receive_message(fd_.get());
  fd_.reset();
  return {};
}

Result<> AgentClient::use_devices(const std::string &api,
                                  const std::vector<std::pair<std::string, std::string>> &map) {
  Writer body;
  body.str(api).put(static_cast<u32>(map.size()));
  for (auto &[from, to] : map) body.str(from).str(to);
  CKPT_TRY(Message m, ask(Type::DeviceMap, body, {}, kPatience, Type::Ok));
  return {};
}

Result<u64> AgentClient::suspend(const std::string &folder) {
  CKPT_TRY(Message m, ask(Type::Suspend, Writer().str(folder), {}, {}, Type::Suspended));
  return m.reader().get<u64>();
}

Result<std::string> AgentClient::needs() {
  CKPT_TRY(Message m, ask(Type::RequirementsWanted, {}, {}, kPatience, Type::Saved));
  return std::string(m.reader().str());
}

Result<> AgentClient::wake(const std::string &session) {
  CKPT_TRY(Message m, ask(Type::Wake, Writer().str(session), {}, {}, Type::Ok));
  return {};
}

// Programs are built anew on the device: a compiler's time.
Result<> AgentClient::attach(const std::string &session) {
  CKPT_TRY(Message m, ask(Type::Attach, Writer().str(session), {}, {}, Type::Ok));
  return {};
}

Result<> AgentClient::resume() {
  CKPT_TRY(Message m, ask(Type::Resume, {}, {}, kPatience, Type::Ok));
  return {};
}

Result<> say_word(int pipe, protocol::Outcome word, u32 agent, const std::string &text) {
  Writer body;
  body.put(word).put(agent).str(text.substr(0, protocol::kMaxOutcomeBytes - 64));
  Writer all;
  all.blob(body.bytes());
  return write_all(pipe, all.bytes());
}

}  // namespace ckpt::tools
