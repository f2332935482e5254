// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/agent_client.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/fields.h"
#include "common/base/log.h"
#include "tools/proc/process_root.h"

namespace ckpt::tools {
namespace {

using protocol::Depth;
using protocol::Type;
using namespace std::chrono_literals;

// An agent answers from a thread of its own. Only a stopped process takes this long.
constexpr auto kAnswerTimeout = 15s;
// After this time of waiting for idle devices, the user is told.
constexpr std::chrono::milliseconds kQuietTime = 5s;
// A preflight waits for drivers that are being started.
constexpr auto kPreflightTimeout = 60s;
// A CUDA driver copies its own memory out of the process during a detach.
constexpr auto kDetachTimeout = 300s;
// The kernel clears the memory that it gives, at 1 GB/s on a very busy machine.
constexpr auto kPrepareTimeout = 300s;
// Of a process that has closed its socket: it frees its memory before it is gone.
constexpr auto kEndTimeout = 5s;
constexpr u32 kMaxSentences = 1000, kMaxParticipants = 64;
// Of one participant in Type::Traffic, with an empty name.
constexpr size_t kTrafficBytes = sizeof(u32) + 1 + 4 * sizeof(u64);
// The largest answer is the requirements, which become a part of the manifest.
constexpr size_t kMaxAnswerBytes = storage::kMaxManifestBytes;

}  // namespace

Result<AgentClient> AgentClient::connect(pid_t process, const std::string &socket) {
  Result<ProcessHandle> handle = ProcessHandle::open(process);
  Result<UniqueFd> fd = connect_unix_of(process, socket);
  if (fd) {
    AgentClient client(std::move(*fd));
    client.process_ = process;
    if (handle) client.handle_ = std::move(*handle);
    return client;
  }
  // The agent's exit handler removes the name of its socket; the handlers of the program that were
  // registered earlier run after it.
  if (::access((prefix_of_files(process) + socket).c_str(), F_OK) == 0 || errno != ENOENT)
    return Failure(fd.error());
  return fail_with_hint(
      fmt::format("process {} is ending: its agent has removed its socket, as it does at the exit",
                  process),
      fmt::format("wait for its end; if it does not end, something else has removed {}", socket));
}

// A process that ends closes its sockets first.
bool AgentClient::has_ended() const { return handle_.ends_within(kEndTimeout); }

Failure AgentClient::lost_agent(Error why) const {
  if (has_ended()) return fail("process {} has ended", process_);
  return Failure(std::move(why));
}

Result<AgentClient> AgentClient::glance(pid_t process, const std::string &socket,
                                        std::chrono::milliseconds patience) {
  CKPT_TRY(std::optional<UniqueFd> fd, connect_unix_at_once_of(process, socket));
  if (!fd) return fail("the program's agent is busy");
  AgentClient client(std::move(*fd));
  client.patience_ = patience;
  return client;
}

Result<> AgentClient::send(Type type, const Writer &body, std::span<const int> fds) {
  return send_message(fd_.get(), static_cast<u16>(type), body.bytes(), fds);
}

Result<Message> AgentClient::receive(std::chrono::milliseconds timeout) {
  CKPT_CHECK(set_receive_timeout(fd_.get(), patience_.value_or(timeout)));
  CKPT_TRY(std::optional<Message> m, receive_message(fd_.get(), kMaxAnswerBytes));
  if (!m) return lost_agent({"the program's agent closed the connection", {}});
  if (static_cast<Type>(m->type) != Type::Failed) return std::move(*m);
  Reader in = m->reader();
  std::string what(in.str()), hint(in.str());
  return fail_with_hint(what, hint);
}

Result<Message> AgentClient::ask(Type type, const Writer &body, std::span<const int> fds,
                                 std::chrono::milliseconds timeout, Type expected) {
  if (Result<> sent = send(type, body, fds); !sent) return lost_agent(std::move(sent.error()));
  return answer(type, timeout, expected);
}

Result<Message> AgentClient::answer(Type type, std::chrono::milliseconds timeout, Type expected) {
  CKPT_TRY(Message m, receive(timeout));
  if (static_cast<Type>(m.type) != expected)
    return fail("the agent answered request {} with message {} instead of {}",
                static_cast<int>(type), m.type, static_cast<int>(expected));
  return m;
}

Result<AgentClient::Welcome> AgentClient::hello(const std::string &tool) {
  CKPT_TRY(Message m, ask(Type::Hello, Writer().put(protocol::kVersion).str(tool), {},
                          kAnswerTimeout, Type::Welcome));
  Reader in = m.reader();
  Welcome w;
  w.version = in.get<u32>();
  w.pid = static_cast<pid_t>(in.get<u32>());
  w.state = in.get<protocol::State>();
  w.participants = read_texts(in, kMaxParticipants);
  if (!in.ok()) return fail("the agent sent a malformed welcome");
  return w;
}

Result<std::vector<std::string>> AgentClient::preflight() {
  return sentences(Type::Preflight, kPreflightTimeout);
}

Result<std::vector<std::string>> AgentClient::remarks() {
  return sentences(Type::RemarksWanted, kAnswerTimeout);
}

Result<std::vector<std::string>> AgentClient::devices() {
  return sentences(Type::DevicesWanted, kAnswerTimeout);
}

bool AgentClient::has_before_callbacks() {
  Result<std::vector<std::string>> all = sentences(Type::CallbacksWanted, kAnswerTimeout);
  return all && !all->empty();
}

std::map<std::string, double> AgentClient::waits() { return seconds_by_name(Type::WaitsWanted); }

double AgentClient::compile_seconds() {
  double sum = 0;
  for (const auto &[name, seconds] : seconds_by_name(Type::CompileWanted)) sum += seconds;
  return sum;
}

std::map<std::string, double> AgentClient::seconds_by_name(Type request) {
  std::map<std::string, double> all;
  Result<Message> m = ask(request, {}, {}, kAnswerTimeout, Type::Waits);
  if (!m) return all;
  Reader in = m->reader();
  for (u32 n = read_count(in, sizeof(u32) + sizeof(u64), kMaxSentences); in.ok() && n > 0; n--) {
    std::string name(in.str());
    all[name] += static_cast<double>(in.get<u64>()) / 1000;
  }
  return all;
}

std::string AgentClient::loss() {
  Result<std::vector<std::string>> all = sentences(Type::LossWanted, kAnswerTimeout);
  return all && !all->empty() ? all->front() : "";
}

Result<std::vector<std::string>> AgentClient::sentences(Type request,
                                                        std::chrono::milliseconds timeout) {
  CKPT_TRY(Message m, ask(request, {}, {}, timeout, Type::Reasons));
  Reader in = m.reader();
  std::vector<std::string> all = read_texts(in);
  if (!in.ok()) return fail("the agent sent a malformed list of reasons");
  if (all.size() > kMaxSentences) all.resize(kMaxSentences);
  return all;
}

Result<> AgentClient::quiesce(std::chrono::milliseconds timeout) {
  CKPT_CHECK(send(Type::Quiesce, Writer().put(static_cast<u32>(timeout.count()))));
  pollfd p{fd_.get(), POLLIN, 0};
  if (timeout > kQuietTime && ::poll(&p, 1, static_cast<int>(kQuietTime.count())) == 0)
    log::info(
        "waiting for the program's devices: a kernel runs, or a program is being compiled "
        "(the limit is --timeout, {} s)",
        timeout.count() / 1000);
  CKPT_TRY(Message m, answer(Type::Quiesce, timeout + kAnswerTimeout, Type::Ok));
  return {};
}

bool AgentClient::announce(const storage::Uuid &image, const storage::Uuid &parent) {
  Writer body;
  body.raw(image.data(), image.size()).raw(parent.data(), parent.size());
  return ask(Type::Increment, body, {}, kAnswerTimeout, Type::Ok).has_value();
}

bool AgentClient::offer_to_read() {
  return ask(Type::ContentsReadable, {}, {}, kAnswerTimeout, Type::Ok).has_value();
}

bool AgentClient::survey(u64 seed) {
  Result<Message> m = ask(Type::SurveyWanted, Writer().put(seed), {}, kAnswerTimeout, Type::Ok);
  return m && m->reader().get<u8>() == 1;
}

std::string AgentClient::start_owner() {
  Result<Message> m = ask(Type::OwnerWanted, {}, {}, kPrepareTimeout, Type::Ok);
  if (!m) return {};
  Reader in = m->reader();
  in.get<u8>();
  return std::string(in.str());
}

void AgentClient::allow_owed() { (void)ask(Type::OwedAllowed, {}, {}, kAnswerTimeout, Type::Ok); }

bool AgentClient::parent_chunks(u64 count, int addresses, int socket) {
  const int fds[] = {addresses, socket};
  return ask(Type::ParentChunks, Writer().put(count), fds, kAnswerTimeout, Type::Ok).has_value();
}

bool AgentClient::loads_zeros() {
  return ask(Type::ZerosLoadable, {}, {}, kAnswerTimeout, Type::Ok).has_value();
}

std::string AgentClient::loads_from(int file, u64 bytes) {
  Result<Message> m = ask(Type::ContentsLoadable, Writer().put(bytes), std::span(&file, 1),
                          kAnswerTimeout, Type::Ok);
  return m ? std::string(m->reader().str()) : std::string();
}

std::vector<bool> AgentClient::loads_later(const std::vector<std::pair<std::string, u64>> &regions,
                                           int socket) {
  Writer body;
  body.put(static_cast<u32>(regions.size()));
  for (auto &[name, bytes] : regions) body.str(name).put(bytes);
  Result<Message> m =
      ask(Type::ContentsArrive, body, std::span(&socket, 1), kAnswerTimeout, Type::Ok);
  if (!m) return {};
  std::vector<bool> taken;
  for (Reader in = m->reader(); taken.size() < regions.size();) taken.push_back(in.get<u8>() != 0);
  return taken;
}

bool AgentClient::prepare(u64 bytes) {
  return ask(Type::Prepare, Writer().put(bytes), {}, kPrepareTimeout, Type::Ok).has_value();
}

bool AgentClient::copy_ahead(u32 rounds) {
  return ask(Type::CopyAhead, Writer().put(rounds), {}, {}, Type::Ok).has_value();
}

Result<> AgentClient::begin_save(const StagingSlots &staging) {
  int fd = staging.fd();
  return send(Type::Save, Writer().put(StagingSlots::kSlots).put(StagingSlots::kSlotBytes),
              std::span(&fd, 1));
}

Result<> AgentClient::begin_load(const StagingSlots &staging) {
  int fd = staging.fd();
  CKPT_TRY(Message m,
           ask(Type::Load, Writer().put(StagingSlots::kSlots).put(StagingSlots::kSlotBytes),
               std::span(&fd, 1), {}, Type::Ok));
  return {};
}

// An agent that knows the request, and fails, lets the program continue. An earlier one refuses it,
// and is as it was.
Result<> AgentClient::ask_if_known(Type request, const Writer &body, Type answer) {
  Result<Message> m = ask(request, body, {}, {}, answer);
  if (m) return {};
  Result<Welcome> now = hello("ckpt-dump");
  if (now && now->state != protocol::State::Running) return {};
  return Failure(std::move(m).error());
}

Result<> AgentClient::keep(const std::string &folder) {
  return ask_if_known(Type::Keep, Writer().str(folder), Type::Suspended);
}

Result<> AgentClient::lock() { return ask_if_known(Type::Lock, {}, Type::Ok); }

Result<std::string> AgentClient::detach(int outcome_pipe) {
  CKPT_TRY(Message m, ask(Type::Detach, {}, std::span(&outcome_pipe, 1), kDetachTimeout, Type::Ok));
  std::string requirements(m.reader().str());
  // The agent closes its sockets after it has answered, so wait for the end of the connection.
  CKPT_CHECK(set_receive_timeout(fd_.get(), kAnswerTimeout));
  (void)receive_message(fd_.get());
  fd_.reset();
  return requirements;
}

Result<> AgentClient::use_devices(const std::string &api,
                                  const std::vector<std::pair<std::string, std::string>> &map) {
  Writer body;
  body.str(api).put(static_cast<u32>(map.size()));
  for (auto &[from, to] : map) body.str(from).str(to);
  CKPT_TRY(Message m, ask(Type::DeviceMap, body, {}, kAnswerTimeout, Type::Ok));
  return {};
}

Result<u64> AgentClient::suspend(const std::string &folder, Depth depth) {
  Type type = depth == Depth::Memory ? Type::SuspendMemory : Type::Suspend;
  return ask_for_bytes(type, Writer().str(folder));
}

std::optional<Depth> AgentClient::depth() {
  Result<Message> m = ask(Type::DepthWanted, {}, {}, kAnswerTimeout, Type::DepthIs);
  if (!m) return {};
  Reader in = m->reader();
  Depth depth = in.get<Depth>();
  if (!in.ok() || depth > Depth::Full) return {};
  return depth;
}

Result<> AgentClient::lock_suspended() {
  return ask(Type::Lock, {}, {}, {}, Type::Ok).transform([](auto &&) {});
}

Result<u64> AgentClient::deepen() { return ask_for_bytes(Type::Deepen, {}); }

Result<u64> AgentClient::ask_for_bytes(Type request, const Writer &body) {
  CKPT_TRY(Message m, ask(request, body, {}, {}, Type::Suspended));
  Reader in = m.reader();
  u64 bytes = in.get<u64>();
  if (!in.ok()) return fail("the agent sent a malformed answer to a suspend");
  return bytes;
}

Result<std::string> AgentClient::requirements() {
  CKPT_TRY(Message m, ask(Type::RequirementsWanted, {}, {}, kAnswerTimeout, Type::Saved));
  return std::string(m.reader().str());
}

Result<DeviceTraffic> AgentClient::traffic() {
  CKPT_TRY(Message m, ask(Type::TrafficWanted, {}, {}, kAnswerTimeout, Type::Traffic));
  Reader in = m.reader();
  DeviceTraffic t;
  t.held_bytes = in.get<u64>();
  t.seconds = static_cast<double>(in.get<u64>()) / 1e9;
  for (u32 n = read_count(in, kTrafficBytes, kMaxParticipants); in.ok() && n > 0; n--) {
    DeviceTraffic::One &one = t.all.emplace_back();
    one.participant = in.str();
    one.known = in.get<u8>() != 0;
    for (u64 *figure : {&one.waits, &one.bytes, &one.answer_ns, &one.bytes_per_second})
      *figure = in.get<u64>();
  }
  if (!in.ok()) return fail("the agent sent a malformed answer about its devices");
  return t;
}

Result<> AgentClient::wake(const std::string &session) {
  CKPT_TRY(Message m, ask(Type::Wake, Writer().str(session), {}, {}, Type::Ok));
  return {};
}

// Without a timeout: the device's compiler may build the programs again.
Result<> AgentClient::attach(const std::string &session) {
  CKPT_TRY(Message m, ask(Type::Attach, Writer().str(session), {}, {}, Type::Ok));
  return {};
}

Result<> AgentClient::resume() {
  CKPT_TRY(Message m, ask(Type::Resume, {}, {}, kAnswerTimeout, Type::Ok));
  return {};
}

Result<> send_outcome(int pipe, protocol::Outcome outcome, u32 agent, const std::string &text) {
  Writer body;
  body.put(outcome).put(agent).str(text.substr(0, protocol::kMaxOutcomeBytes - 64));
  Writer all;
  all.blob(body.bytes());
  return write_all(pipe, all.bytes());
}

}  // namespace ckpt::tools
