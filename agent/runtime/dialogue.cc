// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/dialogue.h"

#include <unistd.h>

#include <algorithm>

#include "agent/ipc/outcome_pipe.h"
#include "common/base/log.h"

namespace ckpt::agent {

using protocol::State;
using protocol::Type;

namespace {

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

// Both sides of a transfer may end it; what the other had sent by then arrives later.
bool belated(Type type) {
  return type == Type::Region || type == Type::RegionSame || type == Type::SlotFull ||
         type == Type::SlotFree || type == Type::LoadEnd;
}

}  // namespace

// The language in one table: what may be asked in which state.
struct Dialogue::Verb {
  Type type;
  const char *name;
  std::optional<State> in;
  void (Dialogue::*serve)(Incoming &);
};

const Dialogue::Verb Dialogue::kVerbs[] = {
    {Type::Hello, "Hello", {}, &Dialogue::hello},
    {Type::Preflight, "Preflight", State::Running, &Dialogue::preflight},
    {Type::RemarksWanted, "RemarksWanted", State::Running, &Dialogue::remarks},
    {Type::Quiesce, "Quiesce", State::Running, &Dialogue::quiesce},
    {Type::Increment, "Increment", State::Quiesced, &Dialogue::increment},
    {Type::Save, "Save", State::Quiesced, &Dialogue::save},
    {Type::Detach, "Detach", State::Saved, &Dialogue::detach},
    {Type::Attach, "Attach", State::Detached, &Dialogue::attach},
    {Type::Load, "Load", State::Attached, &Dialogue::load},
    {Type::Resume, "Resume", State::Loaded, &Dialogue::resume},
    {Type::Suspend, "Suspend", State::Quiesced, &Dialogue::suspend},
    {Type::RequirementsWanted, "RequirementsWanted", State::Suspended, &Dialogue::needs_wanted},
    {Type::DeviceMap, "DeviceMap", {}, &Dialogue::device_map},
    {Type::Wake, "Wake", State::Suspended, &Dialogue::wake},
    {Type::CheckpointFailed, "CheckpointFailed", {}, &Dialogue::checkpoint_failed},
};

Dialogue::End Dialogue::run() {
  while (!over_) {
    Result<std::optional<Incoming>> request = tool_.receive();
    if (!request) log::warn("the connection of a tool is given up: {}", request.error().what);
    if (!request || !*request) return End::HungUp;
    serve(**request);
  }
  return end_;
}

void Dialogue::serve(Incoming &request) {
  if (belated(request.type)) return;
  const Verb *verb = std::ranges::find(kVerbs, request.type, &Verb::type);
  if (verb == std::end(kVerbs))
    return answer(fail_with_hint(fmt::format("this program's agent does not know request {}",
                                             static_cast<u16>(request.type)),
                                 "it speaks version 1 of the protocol: use an older tool"));
  if (!greeted_ && verb->type != Type::Hello && verb->type != Type::CheckpointFailed)
    return answer(fail("{} before Hello", verb->name));
  if (life_.state() == State::Suspended && verb->in == State::Running)
    return answer(fail_with_hint("the program is suspended", "ckpt-restore --resume PID first"));
  if (verb->in && *verb->in != life_.state())
    return answer(fail("{} is possible when the program is {}; it is {}", verb->name,
                       state_name(*verb->in), state_name(life_.state())));
  (this->*verb->serve)(request);
}

// Messages are only ever added, so any version gets an answer; what a newer tool asks that this
// agent does not know is refused when it is asked.
void Dialogue::hello(Incoming &request) {
  Reader in = request.reader();
  u32 version = in.get<u32>();
  in.str();
  if (!in.done() || version == 0) return malformed("Hello");
  greeted_ = true;
  Writer out;
  out.put(protocol::kVersion).put(static_cast<u32>(::getpid())).put(life_.state());
  std::vector<std::string> names = life_.participant_names();
  out.put(static_cast<u32>(names.size()));
  for (const std::string &name : names) out.str(name);
  (void)tool_.send(Type::Welcome, out);  // a tool that is gone is noticed by receive()
}

void Dialogue::preflight(Incoming &request) {
  if (!request.reader().done()) return malformed("Preflight");
  answer_with(life_.preflight());
}

void Dialogue::remarks(Incoming &request) {
  if (!request.reader().done()) return malformed("RemarksWanted");
  answer_with(life_.remarks());
}

void Dialogue::answer_with(const std::vector<std::string> &sentences) {
  Writer out;
  out.put(static_cast<u32>(sentences.size()));
  for (const std::string &s : sentences) out.str(s);
  (void)tool_.send(Type::Reasons, out);
}

void Dialogue::quiesce(Incoming &request) {
  Reader in = request.reader();
  std::chrono::milliseconds timeout(in.get<u32>());
  if (!in.done()) return malformed("Quiesce");
  answer(life_.quiesce(timeout));
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
    life_.undo(staging.error());
    return answer(Failure(staging.error()));
  }
  Result<std::string> needs = life_.save(tool_, *staging, std::exchange(lineage_, {}));
  if (!needs) return answer(Failure(needs.error()));
  (void)tool_.send(Type::Saved, Writer().str(*needs));
}

// A tool that dies before it has the answer has not taken the program over: undo.
void Dialogue::detach(Incoming &request) {
  if (!request.reader().done() || request.fds.size() != 1 || !is_pipe(request.fds[0].get()))
    return malformed("Detach");
  std::vector<int> ours = our_fds_;
  ours.insert(ours.end(), {tool_.fd(), request.fds[0].get()});
  Result<> detached = life_.detach(ours);
  if (!detached) return answer(detached);
  if (Result<> sent = tool_.send(Type::Ok); !sent) return life_.undo(sent.error());
  outcome_pipe_ = std::move(request.fds[0]);
  over_ = true;
  end_ = End::Detached;
}

void Dialogue::suspend(Incoming &request) {
  Reader in = request.reader();
  std::string folder(in.str());
  if (!in.done()) return malformed("Suspend");
  Result<u64> bytes = life_.suspend(folder);
  if (!bytes) return answer(Failure(bytes.error()));
  (void)tool_.send(Type::Suspended, Writer().put(*bytes));
}

void Dialogue::needs_wanted(Incoming &request) {
  if (!request.reader().done()) return malformed("RequirementsWanted");
  (void)tool_.send(Type::Saved, Writer().str(life_.needs()));
}

void Dialogue::device_map(Incoming &request) {
  if (life_.state() != State::Detached && life_.state() != State::Suspended)
    return answer(fail("DeviceMap is possible when the program has left its devices"));
  Reader in = request.reader();
  std::string participant(in.str());
  std::vector<DevicePair> map;
  for (u32 n = in.get<u32>(); n > 0 && in.ok(); n--) {
    DevicePair &pair = map.emplace_back();
    pair.from = in.str();
    pair.to = in.str();
  }
  if (!in.done()) return malformed("DeviceMap");
  answer(life_.use_devices(participant, map));
}

void Dialogue::wake(Incoming &request) {
  Reader in = request.reader();
  std::string session(in.str());
  if (!in.done()) return malformed("Wake");
  answer(life_.wake(session));
}

void Dialogue::attach(Incoming &request) {
  Reader in = request.reader();
  std::string session(in.str());
  if (!in.done()) return malformed("Attach");
  answer(life_.attach(session));
}

void Dialogue::load(Incoming &request) {
  Result<Staging> staging = Staging::map(request);
  if (!staging) return answer(Failure(staging.error()));
  if (!tool_.send(Type::Ok)) return;
  answer(life_.load(tool_, *staging));
}

void Dialogue::resume(Incoming &request) {
  if (!request.reader().done()) return malformed("Resume");
  life_.resume();
  over_ = true;
  end_ = End::Resumed;
}

void Dialogue::checkpoint_failed(Incoming &request) {
  Reader in = request.reader();
  Error why{std::string(in.str()), {}};
  why.hint = in.str();
  if (!in.done()) return malformed("CheckpointFailed");
  if (!life_.wanted.awaited()) log::warn("the checkpoint failed: {}", why.text());
  life_.wanted.decide({CKPT_ERR_FAILED, std::move(why)});
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
