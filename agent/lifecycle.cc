// SPDX-License-Identifier: Apache-2.0
#include "agent/lifecycle.h"

#include <algorithm>

#include "agent/backwards.h"
#include "agent/leftovers.h"
#include "agent/loading.h"
#include "agent/session.h"
#include "agent/sink.h"
#include "common/log.h"

namespace ckpt {

using protocol::State;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

namespace {

constexpr milliseconds kLongestQuiesce = std::chrono::hours(24);
// A connection to the session keeper lives for one question and its answer.
constexpr milliseconds kKeepersAnswer = std::chrono::seconds(5);

Error at(const char *verb, const Participant *who, Error why) {
  return std::move(why).in(fmt::format("{} cannot {}", who->name(), verb));
}

}  // namespace

// ---- towards CRIU

std::vector<std::string> Lifecycle::preflight() {
  std::vector<std::string> reasons;
  for (Participant *p : participants_()) p->preflight(reasons);
  if (Result<std::vector<std::string>> drivers = mapped_drivers())
    for (const std::string &path : *drivers)
      reasons.push_back(fmt::format("the device driver {} is loaded in the program itself", path));
  return reasons;
}

Result<> Lifecycle::quiesce(milliseconds timeout) {
  // The program's own callbacks come first: they may still use the devices.
  if (Result<> agreed = callbacks.before(); !agreed) return undone(std::move(agreed).error());

  // From here on nobody joins and nobody connects, and new device calls wait.
  door.shut();
  muster();
  checkpoint_at_ = system_clock::now();
  gated_at_ = steady_clock::now();
  steady_clock::time_point deadline = gated_at_ + std::min(timeout, kLongestQuiesce);
  for (Member &m : members_) {
    m.stage = Stage::Gated;  // also if it fails: the gate may be half shut
    if (Result<> r = m.who->quiesce(deadline); !r)
      return undone(at("come to rest", m.who, std::move(r).error()));
  }
  state_ = State::Quiesced;
  return {};
}

Result<std::string> Lifecycle::save(Channel &tool, Staging &staging,
                                    const StagingSink::Lineage &lineage) {
  StagingSink sink(tool, staging, lineage);
  std::string needs;
  for (Member &m : members_) {
    sink.set_participant(m.who->name());
    if (Result<> r = m.who->save(sink); !r)
      return undone(at("save its devices", m.who, std::move(r).error()));
    std::string one = m.who->needs();
    if (!one.empty()) needs += (needs.empty() ? "" : ",") + one;
  }
  saved_bytes_ = sink.bytes();
  state_ = State::Saved;
  return "[" + needs + "]";
}

Result<> Lifecycle::detach(std::span<const int> our_fds) {
  for (Member &m : members_) {
    m.stage = Stage::Detached;  // also if it fails: attach_again() mends what is half done
    if (Result<> r = m.who->detach(); !r)
      return undone(at("leave its devices", m.who, std::move(r).error()));
  }
  if (!door.wait_empty(kKeepersAnswer))
    return undone({"the session keeper has not answered a question of this process", {}});
  if (Result<> clean = nothing_left(our_fds); !clean) return undone(std::move(clean).error());
  excluded.drop_pages();
  state_ = State::Detached;
  return {};
}

// Trust nobody: CRIU would dump some of these without a word and restore something else.
Result<> Lifecycle::nothing_left(std::span<const int> our_fds) const {
  CKPT_TRY(std::vector<std::string> found, leftovers(our_fds, session_folder()));
  if (found.empty()) return {};
  return fail_with_hint(
      fmt::format("still in the process after it left its devices: {}", fmt::join(found, "; ")),
      "please report this");
}

void Lifecycle::undo(const Error &why) {
  go_on();
  finish({CKPT_ERR_FAILED, why});
}

Failure Lifecycle::undone(Error why) {
  undo(why);
  return Failure(std::move(why));
}

// ---- in a copy, after CRIU

Result<> Lifecycle::attach(const std::string &session) {
  for (Member &m : members_) {
    if (Result<> r = m.who->attach(session); !r) {
      detach_again();
      return Failure(at("use its new devices", m.who, std::move(r).error()));
    }
    m.stage = Stage::Attached;
  }
  state_ = State::Attached;
  return {};
}

Result<> Lifecycle::load(Channel &tool, Staging &staging) {
  Loading loading(tool, staging);
  std::vector<Participant *> all;
  for (Member &m : members_) all.push_back(m.who);
  Result<> loaded = loading.run(all);
  if (loaded && loading.bytes() < saved_bytes_)  // more: the image filled holes with zeros
    loaded = fail("the image gave {} bytes of device memory instead of {}", loading.bytes(),
                  saved_bytes_.load());
  if (!loaded) detach_again();
  state_ = loaded ? State::Loaded : State::Detached;
  return loaded;
}

void Lifecycle::resume() {
  age_ = std::max(0.0, std::chrono::duration<double>(system_clock::now() - checkpoint_at_).count());
  open_gates();
}

// ---- ends

void Lifecycle::go_on() {
  take_back();
  open_gates();
}

void Lifecycle::lose() {
  devices_lost_ = true;
  detach_again();  // devices without their contents are none
  open_gates();
}

void Lifecycle::finish(Verdict verdict) {
  if (devices_lost_) verdict.code = CKPT_ERR_LOST;
  devices_lost_ = false;
  members_.clear();
  state_ = State::Running;
  door.open();
  callbacks.after(verdict.code < 0 ? CKPT_FAILED : static_cast<ckpt_outcome>(verdict.code));
  if (verdict.code == CKPT_ERR_FAILED)
    wanted.presume(std::move(verdict));
  else
    wanted.decide(std::move(verdict));
}

// ---- parts

void Lifecycle::muster() {
  members_.clear();
  for (Participant *p : participants_()) members_.push_back({p, Stage::Open});
}

void Lifecycle::take_back() {
  for (Member &m : backwards(members_)) {
    if (m.stage != Stage::Detached) continue;
    Result<> r = m.who->attach_again();
    m.stage = r ? Stage::Gated : Stage::Detached;
    if (r) continue;
    devices_lost_ = true;
    log::error(at("return to its devices", m.who, std::move(r).error()));
  }
}

void Lifecycle::detach_again() {
  for (Member &m : backwards(members_)) {
    if (m.stage != Stage::Attached) continue;
    if (Result<> r = m.who->detach(); !r) log::error(std::move(r).error());
    m.stage = Stage::Detached;
  }
  if (state_ != State::Running) state_ = State::Detached;
}

void Lifecycle::open_gates() {
  for (Member &m : backwards(members_))
    if (m.stage != Stage::Open) m.who->resume();
  paused_ = std::chrono::duration<double>(steady_clock::now() - gated_at_).count();
}

std::vector<std::string> Lifecycle::participant_names() const {
  std::vector<std::string> names;
  for (Participant *p : participants_()) names.emplace_back(p->name());
  return names;
}

double Lifecycle::seconds_paused() const { return paused_; }
double Lifecycle::seconds_since_checkpoint() const { return age_; }

}  // namespace ckpt
