// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/dialogue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "agent/ipc/outcome_pipe.h"
#include "agent/participant/participant.h"
#include "common/base/fields.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::agent {

using protocol::Depth;
using protocol::State;
using protocol::Type;

namespace {

// Whether this process itself is the peer.
bool is_own(int socket) {
  Result<ucred> peer = peer_credentials(socket);
  return peer && peer->pid == ::getpid();
}

constexpr const char *state_name(State state) {
  switch (state) {
    case State::Running: return "running";
    case State::Quiesced: return "quiesced";
    case State::Saved: return "saved";
    case State::Detached: return "detached";
    case State::Attached: return "attached";
    case State::Loaded: return "loaded";
    case State::Suspended: return "suspended";
  }
  return "?";
}

// A tool that looks and then keeps the connection must not keep the Manager waiting for the
// program.
constexpr std::chrono::milliseconds kLookTimeout{2000};

// Or a hang-up.
bool has_input(int fd, std::chrono::milliseconds timeout) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, static_cast<int>(timeout.count())) > 0;
}

// Either side may abort a transfer. Messages that the other side has sent before arrive after it.
bool is_left_over(Type type) {
  return type == Type::Region || type == Type::RegionSame || type == Type::SlotFull ||
         type == Type::SlotFree || type == Type::ZerosAt || type == Type::ContentsIn ||
         type == Type::LoadEnd;
}

}  // namespace

// All requests, and the state that each of them needs.
struct Dialogue::Verb {
  Type type;
  const char *name;
  std::optional<State> in;
  void (Dialogue::*serve)(Incoming &);
  bool looks = false;  // changes nothing, so that the program need not leave its Manager
};

const Dialogue::Verb Dialogue::kVerbs[] = {
    {Type::Hello, "Hello", {}, &Dialogue::hello, true},
    {Type::Preflight, "Preflight", State::Running, &Dialogue::preflight, true},
    {Type::RemarksWanted, "RemarksWanted", State::Running, &Dialogue::remarks, true},
    {Type::DevicesWanted, "DevicesWanted", State::Running, &Dialogue::devices, true},
    {Type::LossWanted, "LossWanted", {}, &Dialogue::loss, true},
    {Type::CallbacksWanted, "CallbacksWanted", State::Running, &Dialogue::callbacks, true},
    {Type::Prepare, "Prepare", State::Running, &Dialogue::prepare},
    {Type::CopyAhead, "CopyAhead", State::Running, &Dialogue::copy_ahead},
    {Type::SurveyWanted, "SurveyWanted", State::Running, &Dialogue::survey},
    {Type::OwnerWanted, "OwnerWanted", State::Running, &Dialogue::start_owner},
    {Type::OwedAllowed, "OwedAllowed", State::Running, &Dialogue::allow_owed},
    {Type::ParentChunks, "ParentChunks", State::Running, &Dialogue::parent_chunks},
    {Type::Quiesce, "Quiesce", State::Running, &Dialogue::quiesce},
    {Type::WaitsWanted, "WaitsWanted", State::Quiesced, &Dialogue::waits},
    {Type::ContentsReadable, "ContentsReadable", State::Quiesced, &Dialogue::contents_readable},
    {Type::Increment, "Increment", State::Quiesced, &Dialogue::increment},
    {Type::Save, "Save", State::Quiesced, &Dialogue::save},
    {Type::Detach, "Detach", State::Saved, &Dialogue::detach},
    {Type::Attach, "Attach", State::Detached, &Dialogue::attach},
    {Type::CompileWanted, "CompileWanted", State::Attached, &Dialogue::compiled},
    {Type::ZerosLoadable, "ZerosLoadable", State::Attached, &Dialogue::zeros_loadable},
    {Type::ContentsLoadable, "ContentsLoadable", State::Attached, &Dialogue::contents_loadable},
    {Type::ContentsArrive, "ContentsArrive", State::Attached, &Dialogue::contents_arrive},
    {Type::Load, "Load", State::Attached, &Dialogue::load},
    {Type::Resume, "Resume", State::Loaded, &Dialogue::resume},
    {Type::Keep, "Keep", State::Quiesced, &Dialogue::keep},
    {Type::Lock, "Lock", {}, &Dialogue::lock},
    {Type::Suspend, "Suspend", {}, &Dialogue::suspend},
    {Type::SuspendMemory, "SuspendMemory", {}, &Dialogue::suspend_memory},
    {Type::DepthWanted, "DepthWanted", {}, &Dialogue::depth, true},
    {Type::Deepen, "Deepen", State::Suspended, &Dialogue::deepen},
    {Type::RequirementsWanted, "RequirementsWanted", {}, &Dialogue::requirements, true},
    {Type::TrafficWanted, "TrafficWanted", {}, &Dialogue::traffic, true},
    {Type::DeviceMap, "DeviceMap", {}, &Dialogue::device_map},
    {Type::Wake, "Wake", State::Suspended, &Dialogue::wake},
    {Type::CheckpointFailed, "CheckpointFailed", {}, &Dialogue::checkpoint_failed},
};

Dialogue::End Dialogue::run() {
  while (!over_) {
    if (!has_input(tool_.fd(), kLookTimeout)) begin_changes();
    Result<std::optional<Incoming>> request = tool_.receive();
    if (!request) log::warn("closing the connection of a tool: {}", request.error().what);
    if (!request || !*request) {
      lifecycle_.drop_prepared();
      return End::HungUp;
    }
    serve(**request);
  }
  return end_;
}

void Dialogue::serve(Incoming &request) {
  if (is_left_over(request.type)) return;
  const Verb *verb = std::ranges::find(kVerbs, request.type, &Verb::type);
  if (verb == std::end(kVerbs))
    return answer(fail_with_hint(fmt::format("the agent of this program does not know request {}",
                                             static_cast<u16>(request.type)),
                                 "it has version 1 of the protocol: use an older tool"));
  if (Result<> possible = check(*verb); !possible) return answer(possible);
  if (!verb->looks) begin_changes();
  (this->*verb->serve)(request);
  lifecycle_.release_spent();
}

void Dialogue::begin_changes() {
  if (!std::exchange(changes_, true) && before_changes_) before_changes_();
}

Result<> Dialogue::check(const Verb &verb) const {
  State state = lifecycle_.state();
  if (!greeted_ && verb.type != Type::Hello && verb.type != Type::CheckpointFailed)
    return fail("{} before Hello", verb.name);
  if (state == State::Suspended && verb.in == State::Running)
    return fail_with_hint("the program is suspended", "first run ckpt-restore --resume PID");
  if (verb.in && *verb.in != state)
    return fail("{} is possible only when the program is {}; it is {}", verb.name,
                state_name(*verb.in), state_name(state));
  return {};
}

void Dialogue::quiesce(Incoming &request) {
  Reader in = request.reader();
  std::chrono::milliseconds timeout(in.get<u32>());
  if (!in.done()) return malformed("Quiesce");
  answer(lifecycle_.quiesce(timeout));
}

void Dialogue::prepare(Incoming &request) {
  Reader in = request.reader();
  u64 bytes = in.get<u64>();
  if (!in.done()) return malformed("Prepare");
  lifecycle_.prepare(bytes);
  answer({});
}

void Dialogue::copy_ahead(Incoming &request) {
  Reader in = request.reader();
  u32 rounds = in.get<u32>();
  if (!in.done()) return malformed("CopyAhead");
  lifecycle_.copy_ahead(rounds, [this] { return tool_.hung_up(); });
  answer({});
}

void Dialogue::contents_readable(Incoming &request) {
  if (!request.reader().done()) return malformed("ContentsReadable");
  lineage_.reads_store = true;
  answer({});
}

void Dialogue::survey(Incoming &request) {
  Reader in = request.reader();
  u64 seed = in.get<u64>();
  if (!in.done()) return malformed("SurveyWanted");
  lineage_.seed = seed;
  (void)tool_.send(Type::Ok, Writer().put(static_cast<u8>(lifecycle_.looks())));
}

void Dialogue::start_owner(Incoming &request) {
  if (!request.reader().done()) return malformed("OwnerWanted");
  Result<bool> started = lifecycle_.start_owner();
  lineage_.has_owner = started.value_or(false);
  std::string why_not = started ? std::string() : started.error().text();
  (void)tool_.send(Type::Ok, Writer().put(static_cast<u8>(lineage_.has_owner)).str(why_not));
}

void Dialogue::allow_owed(Incoming &request) {
  if (!request.reader().done()) return malformed("OwedAllowed");
  lineage_.takes_owed = true;
  answer({});
}

void Dialogue::parent_chunks(Incoming &request) {
  Result<ParentChunks> chunks = ParentChunks::from(request);
  if (!chunks) return answer(Failure(chunks.error()));
  lineage_.chunks = std::make_shared<ParentChunks>(std::move(*chunks));
  answer({});
}

void Dialogue::increment(Incoming &request) {
  Reader in = request.reader();
  for (ImageId *id : {&lineage_.image, &lineage_.parent}) {
    ByteView bytes = in.raw(id->size());
    if (!in.ok()) return malformed("Increment");
    std::memcpy(id->data(), bytes.data(), bytes.size());
  }
  answer(in.done() ? Result<>{} : fail("malformed Increment"));
}

void Dialogue::save(Incoming &request) {
  Result<Staging> staging = Staging::map(request);
  if (!staging) {
    lifecycle_.undo(staging.error());
    return answer(Failure(staging.error()));
  }
  Result<std::string> requirements = lifecycle_.save(tool_, *staging, std::exchange(lineage_, {}));
  if (!requirements) return answer(Failure(requirements.error()));
  (void)tool_.send(Type::Saved, Writer().str(*requirements));
}

// Without the answer the tool does not know that the process is detached, so a failed send undoes
// it.
void Dialogue::detach(Incoming &request) {
  if (!request.reader().done() || request.fds.size() != 1 || !is_pipe(request.fds[0].get()))
    return malformed("Detach");
  std::vector<int> ours = our_fds_;
  ours.insert(ours.end(), {tool_.fd(), request.fds[0].get()});
  Result<> detached = lifecycle_.detach(ours);
  if (!detached) return answer(detached);
  Writer now;
  now.str(lifecycle_.requirements());
  if (Result<> sent = tool_.send(Type::Ok, now); !sent) return lifecycle_.undo(sent.error());
  outcome_pipe_ = std::move(request.fds[0]);
  over_ = true;
  end_ = End::Detached;
}

void Dialogue::keep(Incoming &request) {
  Reader in = request.reader();
  std::string folder(in.str());
  if (!in.done()) return malformed("Keep");
  Result<u64> bytes = lifecycle_.keep(folder);
  if (!bytes) return answer(Failure(bytes.error()));
  (void)tool_.send(Type::Suspended, Writer().put(*bytes));
}

void Dialogue::lock(Incoming &request) {
  if (!request.reader().done()) return malformed("Lock");
  if (lifecycle_.depth() == Depth::Memory) return answer(lifecycle_.lock_suspended());
  if (lifecycle_.state() != State::Saved)
    return answer(fail("Lock is possible only when the program is saved; it is {}",
                       state_name(lifecycle_.state())));
  answer(lifecycle_.lock());
}

void Dialogue::suspend(Incoming &request) { suspend_to(Depth::Full, request); }
void Dialogue::suspend_memory(Incoming &request) { suspend_to(Depth::Memory, request); }

void Dialogue::suspend_to(Depth depth, Incoming &request) {
  Reader in = request.reader();
  std::string folder(in.str());
  if (!in.done()) return malformed("Suspend");
  if (!lifecycle_.can_suspend())
    return answer(fail("Suspend is possible only when the program is quiesced; it is {}",
                       state_name(lifecycle_.state())));
  Result<u64> bytes = lifecycle_.suspend(folder, depth);
  if (!bytes) return answer(Failure(bytes.error()));
  // A tool that was killed resumes nothing, and its user does not know of the suspended program.
  if (Result<> sent = tool_.send(Type::Suspended, Writer().put(*bytes)); !sent)
    (void)lifecycle_.wake(session_socket());
}

void Dialogue::deepen(Incoming &request) {
  if (!request.reader().done()) return malformed("Deepen");
  if (lifecycle_.depth() != Depth::Memory)
    return answer(fail("the program has given everything back already"));
  Result<u64> bytes = lifecycle_.deepen();
  if (!bytes) return answer(Failure(bytes.error()));
  (void)tool_.send(Type::Suspended, Writer().put(*bytes));
}

void Dialogue::device_map(Incoming &request) {
  if (lifecycle_.state() != State::Detached && lifecycle_.state() != State::Suspended)
    return answer(fail("DeviceMap is possible only when the program is detached or suspended"));
  Reader in = request.reader();
  std::string participant(in.str());
  std::vector<DevicePair> map;
  for (u32 n = read_count(in, 2 * sizeof(u32)); n > 0 && in.ok(); n--) {
    DevicePair &pair = map.emplace_back();
    pair.from = in.str();
    pair.to = in.str();
  }
  if (!in.done()) return malformed("DeviceMap");
  answer(lifecycle_.use_devices(participant, map));
}

void Dialogue::wake(Incoming &request) {
  Reader in = request.reader();
  std::string session(in.str());
  if (!in.done()) return malformed("Wake");
  // The program's own ckpt_resume() returns when the program runs.
  if (is_own(tool_.fd())) return answer(lifecycle_.wake(session));
  // Once it runs, the program may end at once, and this thread with it.
  Result<> awake = lifecycle_.wake(session, [this] { (void)tool_.send(Type::Ok); });
  if (!awake) answer(awake);
}

void Dialogue::attach(Incoming &request) {
  Reader in = request.reader();
  std::string session(in.str());
  if (!in.done()) return malformed("Attach");
  answer(lifecycle_.attach(session));
}

void Dialogue::contents_loadable(Incoming &request) {
  Reader in = request.reader();
  u64 bytes = in.get<u64>();
  if (!in.done() || request.fds.size() != 1) return malformed("ContentsLoadable");
  Participant *participant = lifecycle_.place_loader();
  if (participant == nullptr) return answer(fail("no device of this program copies from a file"));
  Result<std::unique_ptr<DirectMemory>> file = DirectMemory::of_file(request.fds[0].get(), bytes);
  if (!file) return answer(Failure(file.error()));
  contents_ = std::move(*file);
  (void)tool_.send(Type::Ok, Writer().str(participant->name()));
}

void Dialogue::contents_arrive(Incoming &request) {
  Reader in = request.reader();
  std::vector<LaterRegion> regions;
  for (u32 n = read_count(in, sizeof(u32) + sizeof(u64)); n > 0 && in.ok(); n--) {
    LaterRegion &region = regions.emplace_back();
    region.name = in.str();
    region.bytes = in.get<u64>();
  }
  if (!in.done() || request.fds.size() != 1) return malformed("ContentsArrive");
  Writer taken;
  for (bool takes : lifecycle_.load_later(regions, request.fds[0].get()))
    taken.put(static_cast<u8>(takes));
  (void)tool_.send(Type::Ok, taken);
}

void Dialogue::load(Incoming &request) {
  std::unique_ptr<DirectMemory> contents = std::exchange(contents_, nullptr);
  Result<Staging> staging = Staging::map(request);
  if (!staging) return answer(Failure(staging.error()));
  if (!tool_.send(Type::Ok)) return;
  answer(lifecycle_.load(tool_, *staging, contents.get()));
}

void Dialogue::resume(Incoming &request) {
  if (!request.reader().done()) return malformed("Resume");
  lifecycle_.resume();
  over_ = true;
  end_ = End::Resumed;
}

void Dialogue::checkpoint_failed(Incoming &request) {
  Reader in = request.reader();
  Error why{std::string(in.str()), {}};
  why.hint = in.str();
  if (!in.done()) return malformed("CheckpointFailed");
  if (!lifecycle_.pending.awaited()) log::warn("the checkpoint failed: {}", why.text());
  lifecycle_.pending.decide({CKPT_ERR_FAILED, std::move(why)});
  answer({});
}

void Dialogue::answer(const Result<> &result) {
  if (result)
    (void)tool_.send(Type::Ok);
  else
    (void)tool_.send(Type::Failed, Writer().str(result.error().what).str(result.error().hint));
}

void Dialogue::malformed(const char *request) { answer(fail("malformed {}", request)); }

}  // namespace ckpt::agent
