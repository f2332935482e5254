// SPDX-License-Identifier: Apache-2.0
//
// The requests that only ask.
#include <unistd.h>

#include "agent/runtime/dialogue.h"

namespace ckpt::agent {

using protocol::Type;

// Any version is accepted, because messages are only added: a request of a newer tool that this
// agent does not know fails when it arrives.
void Dialogue::hello(Incoming &request) {
  Reader in = request.reader();
  u32 version = in.get<u32>();
  in.str();
  if (!in.done() || version == 0) return malformed("Hello");
  greeted_ = true;
  Writer out;
  out.put(protocol::kVersion).put(static_cast<u32>(::getpid())).put(lifecycle_.state());
  std::vector<std::string> names = lifecycle_.participant_names();
  out.put(static_cast<u32>(names.size()));
  for (const std::string &name : names) out.str(name);
  (void)tool_.send(Type::Welcome, out);  // receive() notices if the tool has hung up
}

void Dialogue::preflight(Incoming &request) {
  if (!request.reader().done()) return malformed("Preflight");
  answer_reasons(lifecycle_.preflight());
}

void Dialogue::remarks(Incoming &request) {
  if (!request.reader().done()) return malformed("RemarksWanted");
  answer_reasons(lifecycle_.remarks());
}

void Dialogue::devices(Incoming &request) {
  if (!request.reader().done()) return malformed("DevicesWanted");
  answer_reasons(lifecycle_.devices());
}

void Dialogue::callbacks(Incoming &request) {
  if (!request.reader().done()) return malformed("CallbacksWanted");
  answer_reasons(std::vector<std::string>(lifecycle_.callbacks.count_before(), "before"));
}

void Dialogue::loss(Incoming &request) {
  if (!request.reader().done()) return malformed("LossWanted");
  std::vector<std::string> all;
  if (!lifecycle_.lost_because().empty()) all.push_back(lifecycle_.lost_because());
  answer_reasons(all);
}

void Dialogue::answer_reasons(const std::vector<std::string> &sentences) {
  Writer out;
  out.put(static_cast<u32>(sentences.size()));
  for (const std::string &s : sentences) out.str(s);
  (void)tool_.send(Type::Reasons, out);
}

void Dialogue::zeros_loadable(Incoming &request) {
  if (!request.reader().done()) return malformed("ZerosLoadable");
  answer(lifecycle_.loads_zeros() ? Result<>{}
                                  : fail("not all devices of this program write zeros themselves"));
}

void Dialogue::waits(Incoming &request) {
  if (!request.reader().done()) return malformed("WaitsWanted");
  answer_waits(lifecycle_.waits());
}

void Dialogue::compiled(Incoming &request) {
  if (!request.reader().done()) return malformed("CompileWanted");
  answer_waits(lifecycle_.compiled());
}

void Dialogue::answer_waits(const std::vector<Lifecycle::Wait> &waits) {
  Writer out;
  out.put(static_cast<u32>(waits.size()));
  for (const Lifecycle::Wait &w : waits) out.str(w.name).put(static_cast<u64>(w.time.count()));
  (void)tool_.send(Type::Waits, out);
}

void Dialogue::depth(Incoming &request) {
  if (!request.reader().done()) return malformed("DepthWanted");
  (void)tool_.send(Type::DepthIs, Writer().put(lifecycle_.depth()));
}

Result<> Dialogue::runs_or_is_suspended(const char *request) const {
  using protocol::State;
  State state = lifecycle_.state();
  if (state == State::Running || state == State::Suspended) return {};
  return fail("{} is possible only when the program is running or suspended", request);
}

void Dialogue::requirements(Incoming &request) {
  if (!request.reader().done()) return malformed("RequirementsWanted");
  if (Result<> r = runs_or_is_suspended("RequirementsWanted"); !r) return answer(r);
  Result<std::string> needs = lifecycle_.requirements_now();
  if (!needs) return answer(Failure(needs.error()));
  (void)tool_.send(Type::Saved, Writer().str(*needs));
}

void Dialogue::traffic(Incoming &request) {
  if (!request.reader().done()) return malformed("TrafficWanted");
  if (Result<> r = runs_or_is_suspended("TrafficWanted"); !r) return answer(r);
  Lifecycle::Traffics t = lifecycle_.traffic();
  Writer out;
  out.put(t.held_bytes).put(static_cast<u64>(t.time.count())).put(static_cast<u32>(t.all.size()));
  for (const auto &[name, one] : t.all) {
    Traffic known = one.value_or(Traffic{});
    out.str(name).put(static_cast<u8>(one.has_value())).put(known.waits).put(known.bytes);
    out.put(known.answer_ns).put(known.bytes_per_second);
  }
  (void)tool_.send(Type::Traffic, out);
}

}  // namespace ckpt::agent
