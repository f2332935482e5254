// SPDX-License-Identifier: Apache-2.0
#include "agent/lifecycle/lifecycle.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "agent/ipc/session.h"
#include "agent/lifecycle/residue.h"
#include "agent/transfer/loader.h"
#include "agent/transfer/sink.h"
#include "agent/transfer/store_io.h"
#include "common/base/clock.h"
#include "common/base/driver_files.h"
#include "common/base/log.h"
#include "common/base/reversed.h"

namespace ckpt::agent {

using protocol::Depth;
using protocol::State;
using std::chrono::milliseconds;
using std::chrono::system_clock;

namespace {

constexpr milliseconds kMaxQuiesce = std::chrono::hours(24);
// Less than a tool waits for the answer to Preflight.
constexpr milliseconds kStartTimeout = std::chrono::seconds(45);
// A connection to the session keeper is used for one request and its answer.
constexpr milliseconds kKeeperTimeout = std::chrono::seconds(5);

milliseconds milliseconds_since(Clock::time_point t) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - t);
}

}  // namespace

Error cannot(const char *verb, const Participant *p, Error why) {
  return std::move(why).in(fmt::format("{} cannot {}", p->name(), verb));
}

// ---- before CRIU

std::vector<std::string> Lifecycle::preflight() {
  // Until its participant is added, the mappings of a driver that is being started look foreign.
  if (!barrier.wait_empty(kStartTimeout))
    return {"a device driver is still being started: try again later"};
  std::vector<std::string> reasons;
  for (Participant *p : participants_()) p->preflight(reasons);
  auto answered = [this](std::string_view file) { return answered_for(file); };
  if (Result<std::vector<std::string>> drivers = mapped_drivers(answered))
    for (const std::string &path : *drivers)
      reasons.push_back(fmt::format("the device driver {} is loaded in the program itself: {}",
                                    path, remedy_for_driver(path)));
  return reasons;
}

std::vector<std::string> Lifecycle::remarks() const {
  std::vector<std::string> all;
  for (Participant *p : participants_()) p->remarks(all);
  return all;
}

std::vector<std::string> Lifecycle::devices() const {
  std::vector<std::string> all;
  for (Participant *p : participants_()) p->devices(all);
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
  waits_.clear();
  Clock::time_point begun = Clock::now();
  // The callbacks of the program come first, because they may use the devices.
  if (Result<> agreed = callbacks.before(); !agreed)
    return undo_and_fail(std::move(agreed).error());
  waits_.push_back({"callbacks", milliseconds_since(begun)});

  barrier.close();
  checkpoint_at_ = system_clock::now();
  gated_at_ = Clock::now();
  Clock::time_point deadline = gated_at_ + std::min(timeout, kMaxQuiesce);
  if (!barrier.wait_empty(std::min(timeout, kMaxQuiesce)))
    return undo_and_fail(
        {"a device driver did not start in time", "try again, or with a longer --timeout"});
  collect_members();
  for (Member &m : members_) {
    m.stage = Stage::Gated;  // also if it fails, because the gate may be closed
    begun = Clock::now();
    if (Result<> r = m.participant->quiesce(deadline); !r)
      return undo_and_fail(cannot("quiesce", m.participant, std::move(r).error()));
    waits_.push_back({std::string(m.participant->name()), milliseconds_since(begun)});
  }
  state_ = State::Quiesced;
  return {};
}

Result<std::string> Lifecycle::save(Channel &tool, Staging &staging,
                                    const StagingSink::Lineage &lineage) {
  StagingSink sink(tool, staging, lineage);
  if (members_.size() == 1) sink.set_alone();
  for (Member &m : members_) {
    sink.set_participant(m.participant->name());
    if (Result<> r = save_one(*m.participant, sink); !r)
      return undo_and_fail(cannot("save its devices", m.participant, std::move(r).error()));
  }
  if (Result<> reported = sink.report(); !reported)
    return undo_and_fail(std::move(reported).error());
  prepared_.reset();  // where no participant needed it
  saved_bytes_ = sink.bytes();
  state_ = State::Saved;
  return requirements();
}

// Neither function of the JSON library may throw here: a participant's JSON comes from a driver's
// strings, which need not be UTF-8.
std::string Lifecycle::joined(const std::vector<std::string> &requirements) {
  using nlohmann::ordered_json;
  ordered_json all = ordered_json::array();
  for (const std::string &text : requirements) {
    ordered_json one = ordered_json::parse(text, nullptr, false);
    if (!one.is_discarded()) all.push_back(std::move(one));
  }
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string Lifecycle::requirements() const {
  std::vector<std::string> all;
  for (const Member &m : members_) all.push_back(m.participant->requirements());
  return joined(all);
}

Result<> Lifecycle::lock() {
  for (Member &m : members_) {
    m.stage = Stage::Detached;  // as in detach_members()
    if (Result<> r = m.participant->lock(); !r)
      return undo_and_fail(cannot("leave its devices", m.participant, std::move(r).error()));
  }
  return {};
}

Result<> Lifecycle::detach(std::span<const int> our_fds) {
  Result<> done = detach_members();
  if (done && !barrier.wait_empty(kKeeperTimeout))
    done = fail("the session keeper has not answered a request of this process in time");
  if (done) done = keep_with_keeper();
  if (done) done = check_residue(our_fds);
  if (!done) return undo_and_fail(std::move(done).error());
  exclusions.drop_pages();
  state_ = State::Detached;
  return {};
}

Result<> Lifecycle::detach_members() {
  for (Member &m : members_) {
    m.stage = Stage::Detached;  // also if it fails: attach_again() then repairs a partial detach
    if (Result<> r = leave(*m.participant); !r)
      return Failure(cannot("leave its devices", m.participant, std::move(r).error()));
  }
  return {};
}

Result<> Lifecycle::keep_with_keeper() {
  if (!store_) return {};
  Result<> handed = store_->hand_to_keeper();
  if (handed) return {};
  return Failure(std::move(handed.error()).in("the session keeper cannot keep device memory"));
}

// A safety net against bugs of participants; residue.h explains what would happen without it.
Result<> Lifecycle::check_residue(std::span<const int> our_fds) const {
  auto answered = [this](std::string_view file) { return answered_for(file); };
  CKPT_TRY(std::vector<std::string> found, residue(our_fds, session_folder(), answered));
  if (found.empty()) return {};
  return fail_with_hint(
      fmt::format("the process still holds device state after it was detached: {}",
                  fmt::join(found, "; ")),
      "please report this");
}

bool Lifecycle::answered_for(std::string_view file) const {
  for (Participant *p : participants_())
    if (p->answers_for(file)) return true;
  return false;
}

void Lifecycle::undo(const Error &why) {
  reattach();
  finish({CKPT_ERR_FAILED, why});
}

Failure Lifecycle::undo_and_fail(Error why) {
  undo(why);
  return Failure(std::move(why));
}

// ---- in a restored copy, after CRIU

Result<> Lifecycle::attach(const std::string &session) {
  for (Member &m : members_) {
    if (Result<> r = m.participant->attach(session); !r) {
      detach_again();
      return Failure(cannot("use its new devices", m.participant, std::move(r).error()));
    }
    m.stage = Stage::Attached;
  }
  state_ = State::Attached;
  return {};
}

// The socket can be that of one participant only.
std::vector<bool> Lifecycle::load_later(std::span<const LaterRegion> regions, int socket) {
  std::vector<bool> taken(regions.size());
  later_bytes_ = 0;
  for (Member &m : members_) {
    std::string prefix = std::string(m.participant->name()) + "/";
    std::vector<LaterRegion> own;
    std::vector<size_t> places;
    for (size_t i = 0; i < regions.size(); i++)
      if (regions[i].name.starts_with(prefix)) {
        own.push_back({regions[i].name.substr(prefix.size()), regions[i].bytes});
        places.push_back(i);
      }
    std::vector<bool> takes =
        own.empty() ? std::vector<bool>() : m.participant->load_later(own, socket);
    for (size_t i = 0; i < takes.size(); i++) {
      taken[places[i]] = takes[i];
      if (takes[i]) later_bytes_ += own[i].bytes;
    }
    if (later_bytes_ > 0) break;
  }
  return taken;
}

Result<> Lifecycle::load(Channel &tool, Staging &staging, DirectMemory *file) {
  Loader loader(tool, staging, {file, place_loader()});
  std::vector<Participant *> all;
  for (Member &m : members_) all.push_back(m.participant);
  Result<> loaded = loader.run(all);
  // More bytes are right: an image stores holes as zeros.
  u64 bytes = loader.bytes() + std::exchange(later_bytes_, 0);
  if (loaded && bytes < saved_bytes_)
    loaded = fail("the image contains {} bytes of device memory instead of {}", bytes,
                  saved_bytes_.load());
  if (!loaded) detach_again();
  state_ = loaded ? State::Loaded : State::Detached;
  return loaded;
}

std::vector<Lifecycle::Wait> Lifecycle::compiled() const {
  std::vector<Wait> all;
  for (const Member &m : members_)
    all.push_back({m.participant->name(), m.participant->compiled()});
  return all;
}

void Lifecycle::resume() {
  age_ = std::max(0.0, std::chrono::duration<double>(system_clock::now() - checkpoint_at_).count());
  open_gates();
}

// ---- the end of a checkpoint

void Lifecycle::reattach(bool complete) {
  reattach_members(complete);
  open_gates();
}

void Lifecycle::lose_devices(const Error &why) {
  devices_lost_ = true;
  lost_because_ = why.what;
  detach_again();  // new devices without the contents are of no use
  open_gates();
}

void Lifecycle::finish(Verdict verdict) {
  if (devices_lost_) verdict.code = CKPT_ERR_LOST;
  devices_lost_ = false;
  members_.clear();
  store_.reset();
  kept_ = locked_ = false;
  depth_ = Depth::Full;
  drop_prepared();
  state_ = State::Running;
  barrier.open();
  callbacks.after(verdict.code < 0 ? CKPT_FAILED : static_cast<ckpt_outcome>(verdict.code));
  if (verdict.code == CKPT_ERR_FAILED)
    pending.presume(std::move(verdict));
  else
    pending.decide(std::move(verdict));
}

// ---- steps

void Lifecycle::collect_members() {
  members_.clear();
  for (Participant *p : participants_()) members_.push_back({p, Stage::Open});
}

void Lifecycle::reattach_members(bool complete) {
  for (Member &m : reversed(members_)) {
    if (m.stage != Stage::Detached) continue;
    Result<> r = reattach(m.participant, complete);
    m.stage = r ? Stage::Gated : Stage::Detached;
    if (r) continue;
    Error why = cannot("use its devices again", m.participant, std::move(r).error());
    devices_lost_ = true;
    lost_because_ = why.what;
    log::error(why);
  }
}

// Devices without their contents are given up again: every call must fail then, since the program
// would compute with whatever the new memory holds.
Result<> Lifecycle::reattach(Participant *participant, bool complete) {
  CKPT_CHECK(participant->attach_again());
  Result<> loaded = load_kept(participant, complete);
  if (loaded) return {};
  if (Result<> r = participant->detach(); !r) log::error(std::move(r).error());
  return loaded;
}

Result<> Lifecycle::load_kept(Participant *participant, bool complete) {
  if (participant->has_contents() || !store_) return {};
  if (store_->has_due() && !complete)
    return fail(
        "the process that held the device memory during the dump has ended, and the contents with "
        "it");
  if (store_->handed()) CKPT_CHECK(store_->fetch_from_keeper());
  return load_from_store(participant);
}

void Lifecycle::detach_again() {
  for (Member &m : reversed(members_)) {
    if (m.stage != Stage::Attached) continue;
    if (Result<> r = leave(*m.participant); !r) log::error(std::move(r).error());
    m.stage = Stage::Detached;
  }
  if (state_ != State::Running) state_ = State::Detached;
}

void Lifecycle::open_gates() {
  for (Member &m : reversed(members_))
    if (m.stage != Stage::Open) m.participant->resume();
  paused_ = seconds_since(gated_at_);
  begin_counting();
}

std::vector<std::string> Lifecycle::participant_names() const {
  std::vector<std::string> names;
  for (Participant *p : participants_()) names.emplace_back(p->name());
  return names;
}

}  // namespace ckpt::agent
