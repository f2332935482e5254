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

void Dialogue::requirements(Incoming &request) {
  if (!request.reader().done()) return malformed("RequirementsWanted");
  (void)tool_.send(Type::Saved, Writer().str(lifecycle_.requirements()));
}

}  // namespace ckpt::agent
