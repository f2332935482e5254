// SPDX-License-Identifier: Apache-2.0
#include "agent/lifecycle/lifecycle.h"

#include <algorithm>

#include "agent/ipc/session.h"
#include "agent/lifecycle/residue.h"
#include "agent/transfer/loader.h"
#include "agent/transfer/sink.h"
#include "agent/transfer/store_io.h"
#include "common/base/log.h"
#include "common/base/reversed.h"

namespace ckpt::agent {

using protocol::State;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

namespace {

constexpr milliseconds kLongestQuiesce = std::chrono::hours(24);
// A connection to the session keeper lives for one question and its answer.
constexpr milliseconds kKeepersAnswer = std::chrono::seconds(5);
// Staging memory of our own, for what goes into a store or comes out of it.
constexpr u32 kStoreSlots = 32;
constexpr u32 kStoreSlotBytes = 1u << 20;

std::string prefix_of(const Participant *who) { return std::string(who->name()) + "/"; }

Error at(const char *verb, const Participant *who, Error why) {
  return std::move(why).in(fmt::format("{} cannot {}", who->name(), verb));
}

}  // namespace

// ---- towards CRIU

std::vector<std::string> Lifecycle::preflight() {
  std::vector<std::string> reasons;
  for (Participant *p : participants_()) p->preflight(reasons);
  auto by_somebody = [this](std::string_view file) { return answered(file); };
  if (Result<std::vector<std::string>> drivers = mapped_drivers(by_somebody))
    for (const std::string &path : *drivers)
      reasons.push_back(fmt::format("the device driver {} is loaded in the program itself", path));
  return reasons;
}

std::vector<std::string> Lifecycle::remarks() const {
  std::vector<std::string> all;
  for (Participant *p : participants_()) p->remarks(all);
  return all;
}

Participant::Calls Lifecycle::calls() const {
  Participant::Calls sum;
  for (Participant *p : participants_()) {
    Participant::Calls c = p->calls();
    sum.count += c.count;
    sum.last = std::max(sum.last, c.last);
    sum.copied += c.copied;
  }
  return sum;
}

Result<> Lifecycle::quiesce(milliseconds timeout) {
  // The program's own callbacks come first: they may still use the devices.
  if (Result<> agreed = callbacks.before(); !agreed) return undone(std::move(agreed).error());

  // From here on nobody joins and nobody connects, and new device calls wait.
  barrier.shut();
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
  for (Member &m : members_) {
    sink.set_participant(m.who->name());
    if (Result<> r = save_one(*m.who, sink); !r)
      return undone(at("save its devices", m.who, std::move(r).error()));
  }
  saved_bytes_ = sink.bytes();
  state_ = State::Saved;
  return needs();
}

// What the devices of `who` will lose at detach() is kept here, too, until the dump is over.
Result<> Lifecycle::save_one(Participant &who, StagingSink &sink) {
  if (who.keeps_contents()) return who.save(sink);
  if (!kept_) {
    u64 bytes = 0;
    for (const Member &m : members_)
      if (!m.who->keeps_contents()) bytes += m.who->contents_bytes();
    CKPT_TRY(std::string folder, ContentsStore::place_for(bytes));
    CKPT_TRY(kept_, ContentsStore::create(folder));
  }
  CopyingSink both(sink, *kept_, prefix_of(&who));
  CKPT_CHECK(who.save(both));
  return both.finish();
}

std::string Lifecycle::needs() const {
  std::string all;
  for (const Member &m : members_) {
    std::string one = m.who->needs();
    if (!one.empty()) all += (all.empty() ? "" : ",") + one;
  }
  return "[" + all + "]";
}

Result<> Lifecycle::detach(std::span<const int> our_fds) {
  for (Member &m : members_) {
    m.stage = Stage::Detached;  // also if it fails: attach_again() mends what is half done
    if (Result<> r = m.who->detach(); !r)
      return undone(at("leave its devices", m.who, std::move(r).error()));
  }
  if (!barrier.wait_empty(kKeepersAnswer))
    return undone({"the session keeper has not answered a question of this process", {}});
  if (kept_)
    if (Result<> handed = kept_->hand_to_keeper(); !handed)
      return undone(std::move(handed.error()).in("the keeper does not take device memory"));
  if (Result<> clean = nothing_left(our_fds); !clean) return undone(std::move(clean).error());
  exclusions.drop_pages();
  state_ = State::Detached;
  return {};
}

// Trust nobody: CRIU would dump some of these without a word and restore something else.
Result<> Lifecycle::nothing_left(std::span<const int> our_fds) const {
  auto by_somebody = [this](std::string_view file) { return answered(file); };
  CKPT_TRY(std::vector<std::string> found, residue(our_fds, session_folder(), by_somebody));
  if (found.empty()) return {};
  return fail_with_hint(
      fmt::format("still in the process after it left its devices: {}", fmt::join(found, "; ")),
      "please report this");
}

bool Lifecycle::answered(std::string_view file) const {
  for (Participant *p : participants_())
    if (p->answers_for(file)) return true;
  return false;
}

void Lifecycle::undo(const Error &why) {
  go_on();
  finish({CKPT_ERR_FAILED, why});
}

Failure Lifecycle::undone(Error why) {
  undo(why);
  return Failure(std::move(why));
}

// ---- suspended

Result<u64> Lifecycle::suspend(const std::string &folder) {
  Result<ContentsStore> store = ContentsStore::create(folder);
  if (!store) return undone(std::move(store).error());
  kept_.emplace(std::move(*store));
  if (Result<> moved = move_into_store(); !moved) return undone(std::move(moved).error());
  for (Member &m : members_) {
    m.stage = Stage::Detached;
    if (Result<> r = m.who->detach(); !r)
      return undone(at("leave its devices", m.who, std::move(r).error()));
  }
  for (Member &m : members_) m.who->release_devices();
  state_ = State::Suspended;
  return kept_->bytes();
}

Result<> Lifecycle::move_into_store() {
  CKPT_TRY(Staging staging, Staging::create(kStoreSlots, kStoreSlotBytes));
  for (Member &m : members_) {
    StoreSink sink(*kept_, staging, prefix_of(m.who));
    Result<> saved = m.who->save(sink);
    if (saved) saved = sink.finish();
    if (!saved) return Failure(at("save its devices", m.who, std::move(saved).error()));
  }
  return {};
}

Result<> Lifecycle::wake(const std::string &session) {
  Result<> awake = attach(session);
  for (Member &m : members_)
    if (awake) awake = load_kept(m.who);
  if (awake) {
    open_gates();
    finish({CKPT_CONTINUED, {}});
    return {};
  }
  detach_again();
  for (Member &m : members_) m.who->release_devices();
  state_ = State::Suspended;
  return awake;
}

Result<> Lifecycle::load_kept(Participant *who) {
  CKPT_TRY(Staging staging, Staging::create(kStoreSlots, kStoreSlotBytes));
  StoreSource source(*kept_, staging, prefix_of(who));
  Result<> loaded = who->load(source);
  if (!loaded) return Failure(at("load its devices", who, std::move(loaded).error()));
  return {};
}

// ---- in a copy, after CRIU

Result<> Lifecycle::use_devices(const std::string &participant, std::span<const DevicePair> map) {
  for (Member &m : members_)
    if (m.who->name() == participant) return m.who->use_devices(map);
  return fail("this program does not use the API \"{}\"", participant);
}

std::string Lifecycle::unsuited() const {
  for (const Member &m : members_)
    if (std::string why = m.who->unsuited(); !why.empty()) return why;
  return {};
}

std::string Lifecycle::place() const {
  for (Participant *p : participants_())
    if (std::string gpu = p->place(); !gpu.empty()) return gpu;
  return {};
}

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
  Loader loading(tool, staging);
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
  kept_.reset();
  state_ = State::Running;
  barrier.open();
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
  for (Member &m : reversed(members_)) {
    if (m.stage != Stage::Detached) continue;
    Result<> r = return_to_devices(m.who);
    m.stage = r ? Stage::Gated : Stage::Detached;
    if (r) continue;
    devices_lost_ = true;
    log::error(at("return to its devices", m.who, std::move(r).error()));
  }
}

Result<> Lifecycle::return_to_devices(Participant *who) {
  CKPT_CHECK(who->attach_again());
  if (who->keeps_contents() || !kept_) return {};
  if (kept_->handed()) CKPT_CHECK(kept_->fetch_from_keeper());
  return load_kept(who);
}

void Lifecycle::detach_again() {
  for (Member &m : reversed(members_)) {
    if (m.stage != Stage::Attached) continue;
    if (Result<> r = m.who->detach(); !r) log::error(std::move(r).error());
    m.stage = Stage::Detached;
  }
  if (state_ != State::Running) state_ = State::Detached;
}

void Lifecycle::open_gates() {
  for (Member &m : reversed(members_))
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

}  // namespace ckpt::agent
