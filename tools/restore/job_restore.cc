// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/job_restore.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "storage/format/uuid.h"
#include "tools/net/announce.h"
#include "tools/phases.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto kLookInterval = 100ms;
constexpr auto kPatience = 5s;  // until the user is told which members are missing
constexpr auto kDecisionInterval = 1s;
constexpr auto kAnnounceInterval = 1s;
constexpr const char *kAttemptPrefix = "restore-";

std::string list_of(const std::vector<std::string> &names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<std::unique_ptr<JobRestore>> JobRestore::choose(JobOptions o, unsigned checkpoint) {
  CKPT_TRY(JobFolder folder, JobFolder::open(o.folder));
  if (checkpoint == 0) CKPT_CHECK(folder.check_readable());
  std::vector<unsigned> complete = folder.complete();
  if (complete.empty())
    return fail_with_hint(fmt::format("the job {} has no complete checkpoint", folder.path()),
                          "write one with ckpt-dump --job");
  if (checkpoint == 0) checkpoint = complete.front();
  if (std::find(complete.begin(), complete.end(), checkpoint) == complete.end())
    return fail_with_hint(
        fmt::format("the job {} has no complete checkpoint {}", folder.path(), checkpoint),
        fmt::format("the newest one is {}", complete.front()));
  CKPT_TRY(json decision, read_decision(folder.decision(checkpoint)));
  std::unique_ptr<JobRestore> r(new JobRestore(std::move(o), std::move(folder), checkpoint));
  r->names_ = members_of(decision);
  if (std::find(r->names_.begin(), r->names_.end(), r->options_.member) != r->names_.end())
    return r;
  return Failure(not_in_checkpoint(r->folder_, checkpoint, r->options_.member, r->names_));
}

JobRestore::~JobRestore() { leave(); }

void JobRestore::leave() {
  stop_ = true;
  if (coordinator_.joinable()) coordinator_.join();
  member_.reset();
}

Result<> JobRestore::join(const std::set<u16> &ports) {
  CKPT_TRY(member_, JobMember::join(options_, {.checkpoint = checkpoint_, .ports = ports}));
  if (options_.member != names_.front()) return {};
  CKPT_TRY(coordinator_, start_thread([this] { coordinate(); }));
  return {};
}

Result<> JobRestore::meet_before(const Check &check) {
  CKPT_CHECK(accept_coordinator(check));
  return link_->meet({.stage = Stage::Ready}, check);
}

// A peer without the job's key, or of another job, is ignored.
Result<> JobRestore::accept_coordinator(const Check &check) {
  auto since = Clock::now();
  for (Clock::time_point announced{};;) {
    CKPT_CHECK(check());
    if (Clock::now() - announced > kAnnounceInterval) {
      announce_addresses();
      announced = Clock::now();
    }
    if (gave_up_) return fail("the job gives up: {}", why_);
    if (wait_ && Clock::now() - since > *wait_) return Failure(others_are_missing());
    pollfd p{member_->entrance().fd(), POLLIN, 0};
    if (::poll(&p, 1, static_cast<int>(kLookInterval.count())) <= 0) continue;
    for (Opening &opening : member_->entrance().turn(Clock::now()))
      if (accept(std::move(opening))) return {};
  }
}

bool JobRestore::accept(Opening opening) {
  Bytes state = opening.state();
  Result<Channel> channel = Channel::resume(opening.take_socket(), folder_.key(), state);
  if (!channel) return false;
  Result<MemberLink> link = MemberLink::accept(std::move(*channel), options_.member, Task::Restore);
  if (!link) log::debug("refused a connection: {}", link.error().what);
  if (link) link_ = std::make_unique<MemberLink>(std::move(*link));
  return link.has_value();
}

Error JobRestore::others_are_missing() const {
  Result<std::vector<std::string>> missing = missing_members();
  return {
      fmt::format("the job gives up: it was not restored within {} s, as there is no ckpt-restore "
                  "--job of {}",
                  wait_->count(), missing ? list_of(*missing) : "the other members"),
      "start all programs of the job, on the nodes of the checkpoint"};
}

Result<> JobRestore::meet_restored(const Check &check) {
  Result<> met = link_->meet({.stage = Stage::Restored}, check);
  while (!met) {
    Result<bool> complete = ask_decision(met.error());
    if (complete && *complete) return {};
    if (complete) return met;
    CKPT_CHECK(check());
    std::this_thread::sleep_for(kDecisionInterval);
  }
  return met;
}

Result<bool> JobRestore::ask_decision(const Error &why) {
  const std::string &attempt = link_->task().attempt;
  CKPT_CHECK(check_member_name(attempt));
  CKPT_TRY(json decision, decide(decision_of(attempt), abandoned(why.what)));
  return is_complete(decision);
}

std::string JobRestore::decision_of(const std::string &attempt) const {
  return folder_.checkpoint(checkpoint_) + "/" + attempt;
}

void JobRestore::serve(Keeper &keeper) { member_->serve(keeper); }

void JobRestore::coordinate() {
  Crew crew(folder_, [this] { return not_stopped(); });
  std::string attempt;
  Result<> led = guarded([&]() -> Result<> {
    CKPT_TRY(storage::Uuid uuid, storage::random_uuid());
    attempt = kAttemptPrefix + storage::uuid_text(uuid);
    return lead(crew, attempt);
  });
  if (led) return crew.go_all(Stage::Restored);
  why_ = led.error().text();
  gave_up_ = true;
  (void)decide(decision_of(attempt), abandoned(led.error().what));
  crew.abort(led.error().text());
}

Result<> JobRestore::not_stopped() const { return stop_ ? fail("cancelled") : Result<>{}; }

Result<> JobRestore::lead(Crew &crew, const std::string &attempt) {
  Phases phases;
  phases.begin("job-wait");
  CKPT_TRY(auto members, wait_for_members());
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(folder_.checkpoint(checkpoint_), ec))
    if (e.path().filename().string().starts_with(kAttemptPrefix)) fs::remove(e.path(), ec);
  phases.begin("job-connect");
  Begin begin{.task = Task::Restore, .checkpoint = checkpoint_, .attempt = attempt};
  for (const std::string &name : names_) CKPT_CHECK(crew.add(name, members[name], begin));
  phases.begin("job-ready");
  CKPT_CHECK(crew.gather(Stage::Ready));
  CKPT_CHECK(crew.go(Stage::Ready));
  phases.begin("job-restore");
  CKPT_CHECK(crew.gather(Stage::Restored));
  phases.begin("job-commit");
  CKPT_TRY(json decision, decide(decision_of(attempt), {{"result", "complete"}}));
  if (!is_complete(decision)) return fail("a member of the job has given up");
  phases.begin("job-finish");
  return {};
}

Result<std::vector<std::string>> JobRestore::missing_members() const {
  CKPT_TRY(auto members, folder_.members());
  std::vector<std::string> missing;
  for (const std::string &name : names_)
    if (auto m = members.find(name);
        m == members.end() || !m->second.lives || m->second.restoring != checkpoint_)
      missing.push_back(name);
  return missing;
}

Result<std::map<std::string, MemberAddress>> JobRestore::wait_for_members() const {
  for (auto start = Clock::now(); !stop_; std::this_thread::sleep_for(kLookInterval)) {
    CKPT_TRY(std::vector<std::string> missing, missing_members());
    if (missing.empty()) return folder_.members();
    if (Clock::now() - start < kPatience) continue;
    log::warn("waiting for ckpt-restore --job of the members {}", list_of(missing));
    start = Clock::now() + 24h;  // once
  }
  return fail("cancelled");
}

}  // namespace ckpt::tools
