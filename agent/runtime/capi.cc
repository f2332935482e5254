// SPDX-License-Identifier: Apache-2.0
//
// The C API of include/ckpt/ckpt.h: checks the arguments and turns errors into numbers.
#include <unistd.h>

#include <cstdio>

#include "agent/ipc/session.h"
#include "agent/ipc/this_copy.h"
#include "agent/runtime/agent.h"
#include "ckpt/ckpt.h"
#include "ckpt_config.h"
#include "common/base/fields.h"

namespace ckpt::agent {
namespace {

using protocol::Depth;
using protocol::Type;

static_assert(CKPT_STOP == protocol::kStopAfter && CKPT_OVERWRITE == protocol::kOverwrite &&
              CKPT_TEMPLATE == protocol::kAsTemplate && CKPT_WITH_FILES == protocol::kWithFiles);
constexpr u32 kNotIgnored = protocol::kCheckpointFlags & ~protocol::kWithFiles;  // by any keeper

// Plain bytes, because a thread_local with a destructor would run our code at the end of every
// thread.
thread_local char t_last_error[1024];

int failed(int code, const Error &why) {
  std::snprintf(t_last_error, sizeof t_last_error, "%s", why.text().c_str());
  return code;
}

int failed(int code) { return failed(code, {ckpt_strerror(code), {}}); }

int agent_error(const Error &why) {
  return failed(session_socket().empty() ? CKPT_ERR_NO_SESSION : CKPT_ERR_SYSTEM, why);
}

// The session keeper may have a different current directory.
Result<std::string> absolute(const std::string &path) {
  if (path.starts_with('/')) return path;
  char *here = ::getcwd(nullptr, 0);
  if (!here) return fail_errno("cannot determine the current directory");
  std::string full = std::string(here) + "/" + path;
  std::free(here);
  return full;
}

// An older keeper would write an image that lacks what the flag asks for.
Result<> check_flags(const Channel &keeper, u32 flags) {
  if ((flags & ~kNotIgnored) == 0) return {};
  CKPT_CHECK(keeper.send(Type::CheckpointFlagsWanted, Writer().put(protocol::kVersion)));
  CKPT_TRY(std::optional<Incoming> answer, keeper.receive());
  if (!answer) return fail("the session keeper hung up");
  u32 known = answer->type == Type::Ok ? answer->reader().get<u32>() : kNotIgnored;
  if ((flags & ~known) == 0) return {};
  return fail_with_hint(
      "the program was started by an earlier version of ckpt-run or ckpt-restore, which does not "
      "know CKPT_WITH_FILES",
      "start it with this version, or write the image with ckpt-dump --with-files");
}

// The connection is closed when this returns, so that CRIU never sees it.
Result<> ask_keeper(Agent &agent, const std::string &image, u32 flags) {
  CheckpointBarrier::Pass pass(agent.lifecycle.barrier);
  CKPT_TRY(Channel keeper, connect_to_session());
  CKPT_CHECK(check_flags(keeper, flags));
  CKPT_CHECK(
      keeper.send(Type::CheckpointWanted, Writer().put(protocol::kVersion).str(image).put(flags)));
  CKPT_TRY(Incoming answer, keeper.answer());
  return answer.type == Type::Ok ? Result<>{} : fail("the session keeper sent a malformed answer");
}

bool keeper_alive(Agent &agent) {
  CheckpointBarrier::Pass pass(agent.lifecycle.barrier);
  return connect_to_session().has_value();
}

void fill(ckpt_result *out, int outcome, const Lifecycle &lifecycle) {
  if (!out) return;
  *out = {};
  out->outcome = outcome;
  out->seconds =
      outcome == CKPT_RESTORED ? lifecycle.seconds_since_checkpoint() : lifecycle.seconds_paused();
  out->device_bytes = lifecycle.saved_bytes();
}

int checkpoint(Agent &agent, const std::string &image, unsigned flags, ckpt_result *out) {
  Result<> asked = ask_keeper(agent, image, flags);
  if (!asked) return failed(CKPT_ERR_FAILED, asked.error());
  Verdict verdict = agent.lifecycle.pending.wait([&] { return keeper_alive(agent); });
  if (verdict.code < 0 && verdict.why.what.empty()) return failed(verdict.code);
  if (verdict.code < 0) return failed(verdict.code, verdict.why);
  fill(out, verdict.code, agent.lifecycle);
  return verdict.code;
}

constexpr u32 kSuspendTimeoutMs = 60'000;

Result<> ask_self(const Channel &self, Type type, const Writer &body = {}) {
  CKPT_CHECK(self.send(type, body));
  CKPT_TRY(Incoming answer, self.answer());
  if (answer.type != Type::Reasons) return {};
  Reader in = answer.reader();
  std::string all;
  for (const std::string &reason : read_texts(in)) all += (all.empty() ? "" : "; ") + reason;
  return all.empty() ? Result<>{} : fail("{}", all);
}

Result<Depth> depth_of(const Channel &self) {
  CKPT_CHECK(self.send(Type::DepthWanted));
  CKPT_TRY(Incoming answer, self.answer());
  return answer.reader().get<Depth>();
}

Result<> suspend(Agent &agent, const std::string &folder, Depth wanted) {
  CKPT_TRY(Channel self, agent.connect_to_self());
  CKPT_TRY(Depth now, depth_of(self));
  if (now == Depth::Memory && wanted == Depth::Full) return ask_self(self, Type::Deepen);
  CKPT_CHECK(ask_self(self, Type::Preflight));
  if (folder.empty())
    CKPT_CHECK(ask_self(self, Type::Prepare, Writer().put(protocol::kAheadBytes)));
  CKPT_CHECK(ask_self(self, Type::Quiesce, Writer().put(kSuspendTimeoutMs)));
  Type type = wanted == Depth::Memory ? Type::SuspendMemory : Type::Suspend;
  return ask_self(self, type, Writer().str(folder));
}

Result<> resume(Agent &agent) {
  CKPT_TRY(Channel self, agent.connect_to_self());
  return ask_self(self, Type::Wake, Writer().str(session_socket()));
}

int suspend(const char *folder, Depth depth) {
  if (folder && !*folder) return failed(CKPT_ERR_INVALID);
  Result<Agent *> agent = Agent::get();
  if (!agent) return agent_error(agent.error());
  if ((*agent)->on_its_thread()) return failed(CKPT_ERR_IN_CALLBACK);
  Result<std::string> path = folder ? absolute(folder) : std::string();
  if (!path) return failed(CKPT_ERR_INVALID, path.error());
  Result<> done = suspend(**agent, *path, depth);
  return done ? 0 : failed(CKPT_ERR_FAILED, done.error());
}

}  // namespace
}  // namespace ckpt::agent

using namespace ckpt;
using namespace ckpt::agent;

extern "C" {

int ckpt_checkpoint(const char *image, unsigned flags, struct ckpt_result *result) {
  if (!image || !*image || (flags & ~protocol::kCheckpointFlags)) return failed(CKPT_ERR_INVALID);
  Result<Agent *> agent = Agent::get();
  if (!agent) return agent_error(agent.error());
  if ((*agent)->on_its_thread()) return failed(CKPT_ERR_IN_CALLBACK);
  Result<std::string> path = absolute(image);
  if (!path) return failed(CKPT_ERR_INVALID, path.error());
  if (!(*agent)->lifecycle.pending.begin()) return failed(CKPT_ERR_BUSY);
  int code = checkpoint(**agent, *path, flags, result);
  (*agent)->lifecycle.pending.end();
  return code;
}

int ckpt_on_checkpoint(ckpt_before_fn before, ckpt_after_fn after, void *user) {
  Result<Agent *> agent = Agent::get();
  if (!agent) return agent_error(agent.error());
  return (*agent)->lifecycle.callbacks.add(before, after, user);
}

int ckpt_remove_callbacks(int id) {
  Agent *agent = Agent::running();
  return agent && agent->lifecycle.callbacks.remove(id) ? 0 : failed(CKPT_ERR_UNKNOWN);
}

int ckpt_exclude(const void *address, size_t bytes) {
  bool wraps = reinterpret_cast<size_t>(address) + bytes < bytes;
  if (!address || wraps) return failed(CKPT_ERR_INVALID);
  Result<Agent *> agent = Agent::get();
  if (!agent) return agent_error(agent.error());
  if (bytes > 0) {
    (*agent)->lifecycle.exclusions.add(address, bytes);
    return 0;
  }
  for (Participant *p : (*agent)->participants())
    if (p->exclude(address)) return 0;
  return failed(CKPT_ERR_UNKNOWN);
}

int ckpt_include(const void *address, size_t bytes) {
  Agent *agent = Agent::running();
  if (!agent) return failed(CKPT_ERR_UNKNOWN);
  if (bytes > 0)
    return agent->lifecycle.exclusions.remove(address, bytes) ? 0 : failed(CKPT_ERR_UNKNOWN);
  for (Participant *p : agent->participants())
    if (p->include(address)) return 0;
  return failed(CKPT_ERR_UNKNOWN);
}

int ckpt_copy_info(struct ckpt_copy *copy) {
  const CopyFacts *facts = this_copy();
  if (copy) *copy = {};
  if (facts && copy) *copy = {facts->number, facts->copies, facts->generation, {}};
  return facts ? 1 : 0;
}

const char *ckpt_setting(const char *name) {
  const CopyFacts *facts = name ? this_copy() : nullptr;
  if (!facts) return nullptr;
  auto setting = facts->settings.find(name);
  return setting == facts->settings.end() ? nullptr : setting->second.c_str();
}

int ckpt_suspend(const char *folder) { return suspend(folder, Depth::Full); }
int ckpt_suspend_memory(const char *folder) { return suspend(folder, Depth::Memory); }

int ckpt_resume(void) {
  Agent *agent = Agent::running();
  if (!agent) return failed(CKPT_ERR_NO_SESSION);
  if (agent->on_its_thread()) return failed(CKPT_ERR_IN_CALLBACK);
  Result<> done = resume(*agent);
  return done ? 0 : failed(CKPT_ERR_FAILED, done.error());
}

enum ckpt_state ckpt_state(void) {
  Agent *agent = Agent::running();
  return agent ? static_cast<enum ckpt_state>(1 + static_cast<int>(agent->lifecycle.state()))
               : CKPT_NO_AGENT;
}

const char *ckpt_last_error(void) { return t_last_error; }

const char *ckpt_version(void) { return CKPT_VERSION; }

const char *ckpt_strerror(int error) {
  switch (error) {
    case CKPT_ERR_NO_SESSION: return "the program was not started by ckpt-run or ckpt-restore";
    case CKPT_ERR_BUSY: return "another checkpoint of this program is in progress";
    case CKPT_ERR_INVALID: return "an argument is invalid";
    case CKPT_ERR_FAILED: return "the checkpoint failed; the program continues";
    case CKPT_ERR_LOST: return "the contents of the devices are lost";
    case CKPT_ERR_UNKNOWN: return "unknown handle, range or callback";
    case CKPT_ERR_IN_CALLBACK: return "not possible inside a callback";
    case CKPT_ERR_SYSTEM: return "the checkpoint agent could not be started";
    default: return error < 0 ? "unknown error" : "no error";
  }
}
}
