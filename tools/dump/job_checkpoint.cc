// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/job_checkpoint.h"

#include <algorithm>
#include <set>
#include <thread>

#include "common/base/clock.h"
#include "common/base/json_depth.h"
#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "tools/job/ends.h"
#include "tools/job/match.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

// The connections of a program that connects and closes all the time differ between any two
// inspections.
constexpr int kJobAttempts = 5;
constexpr auto kJobAttemptInterval = 300ms;
constexpr auto kRestoreTimeout = 10s;
constexpr int kMaxReportDepth = 4;

json report_of(const std::string &text) {
  return json_depth(text) <= kMaxReportDepth ? json::parse(text, nullptr, false) : json();
}

// A program that has not started yet must be in the checkpoint, too: the job continues from it.
std::optional<Error> not_all_run(const JobFolder &folder,
                                 const std::map<std::string, MemberAddress> &members) {
  unsigned programs = 0;
  std::string start;
  for (const auto &[name, member] : members) {
    if (member.restoring != 0)
      return Error{fmt::format("member {} of the job is being restored", name),
                   "start ckpt-restore --job of the others"};
    if (member.programs > programs) start = member.start;
    programs = std::max(programs, member.programs);
  }
  size_t known = members.size() + count_ends(folder, start);
  if (known >= programs) return std::nullopt;
  return Error{
      fmt::format("of the {} programs of the job, {} have started", programs, known),
      "wait until all have started; if the job has fewer, say so with ckpt-run --programs"};
}

// Nor is one made of those that are left when a program has failed: the job could not continue from
// it, and in time it would replace all from which it can.
Result<> check_none_has_failed(const JobFolder &folder,
                               const std::map<std::string, MemberAddress> &members) {
  std::string start;
  for (const auto &[name, member] : members)
    if (start.empty()) start = member.start;
  std::optional<FailedMember> failed = failed_member(folder, start);
  if (!failed || members.contains(failed->name)) return {};
  return fail_with_hint(
      fmt::format("member {} of the job has ended with exit code {}", failed->name, failed->code),
      fmt::format("end the others and start the job again, from its last checkpoint; if it is to "
                  "be checkpointed without {}, remove {}",
                  failed->name, failed->file));
}

}  // namespace

Result<JobReport> JobCheckpoint::run() {
  CKPT_TRY(JobFolder folder, JobFolder::open(options_.folder));
  CKPT_TRY(std::optional<UniqueFd> lock, folder.lock());
  busy_ = !lock;
  if (busy_)
    return fail_with_hint("another checkpoint of this job is under way",
                          "wait until that ckpt-dump --job has ended");
  auto start = Clock::now();
  for (int n = 1;; n++) {
    Result<> done = attempt(folder);
    if (done) break;
    if (!may_pass_ || n == kJobAttempts || !cancel_.check()) return Failure(done.error());
    log::debug("the connections of the job have changed; the checkpoint is started again");
    std::this_thread::sleep_for(kJobAttemptInterval);
  }
  prune(folder);
  phases_.end();
  report_.seconds = phases_.seconds_since(start);
  report_.phases = phases_.json();
  return std::move(report_);
}

// Whatever fails before the decision undoes the dumps of all members. If this process dies, each
// member finds its connection closed, and does the same.
Result<> JobCheckpoint::attempt(const JobFolder &folder) {
  may_pass_ = false;
  phases_.begin("job-begin");
  CKPT_TRY(report_.checkpoint, folder.begin_checkpoint());
  report_.folder = folder.checkpoint(report_.checkpoint);
  Crew crew(folder, [this] { return cancel_.check(); });
  Result<> led = lead(folder, crew);
  if (led) return finish(crew);
  Result<json> decision = decide(folder.decision(report_.checkpoint), abandoned(led.error().what));
  if (decision && is_complete(*decision)) return finish(crew);  // it could not be read before
  crew.abort(led.error().text());
  if (decision) folder.remove_checkpoint(report_.checkpoint);
  return fail_with_hint(led.error().what, led.error().hint.empty()
                                              ? "all programs of the job keep running"
                                              : led.error().hint +
                                                    "; all programs of the job keep "
                                                    "running");
}

Result<> JobCheckpoint::lead(const JobFolder &folder, Crew &crew) {
  // All members, and what each is to do.
  phases_.begin("job-connect");
  CKPT_CHECK(connect(folder, crew));
  // Nothing prevents the dump of any of them. None is touched yet.
  phases_.begin("job-ready");
  CKPT_TRY(std::vector<Reached> ready, crew.gather(Stage::Ready));
  CKPT_CHECK(compare_connections(crew, ready));
  CKPT_CHECK(crew.go(Stage::Ready));
  // The programs have closed their connections, if they wanted to, and devices are detached.
  phases_.begin("job-settle");
  CKPT_CHECK(crew.gather(Stage::Settled));
  CKPT_CHECK(crew.go(Stage::Settled));
  // No packet moves between the programs.
  phases_.begin("job-lock");
  CKPT_TRY(std::vector<Reached> locked, crew.gather(Stage::Locked));
  CKPT_CHECK(compare_connections(crew, locked));
  CKPT_CHECK(crew.go(Stage::Locked));
  // CRIU has read every program. From here on they may run again.
  phases_.begin("job-capture");
  CKPT_CHECK(crew.gather(Stage::Captured));
  CKPT_CHECK(crew.go(Stage::Captured));
  // All images are on their disk.
  phases_.begin("job-durable");
  CKPT_CHECK(crew.gather(Stage::Durable));
  // The checkpoint is complete, or none.
  phases_.begin("job-commit");
  return commit(folder, crew);
}

// A program that has just been restored may still be waiting for its devices.
Result<JobCheckpoint::Members> JobCheckpoint::running_members(const JobFolder &folder) {
  for (auto end = Clock::now() + kRestoreTimeout;; std::this_thread::sleep_for(100ms)) {
    CKPT_CHECK(cancel_.check());
    CKPT_TRY(Members members, folder.members());
    std::optional<Error> why = not_all_run(folder, members);
    if (!why) return members;
    if (Clock::now() > end) return Failure(std::move(*why));
  }
}

Result<> JobCheckpoint::connect(const JobFolder &folder, Crew &crew) {
  CKPT_TRY(Members members, running_members(folder));
  if (members.empty())
    return fail_with_hint(fmt::format("the job {} has no running program", folder.path()),
                          "start each of its programs with ckpt-run --job");
  CKPT_CHECK(check_none_has_failed(folder, members));
  for (const auto &[name, address] : members)
    if (!address.lives)
      return fail_with_hint(
          fmt::format("the ckpt-run of member {} was killed, or its node has failed", name),
          fmt::format("if its program is not to be in the checkpoint, remove {}",
                      folder.member_file(name)));
  Begin begin{.task = Task::Dump,
              .checkpoint = report_.checkpoint,
              .stop = !options_.leave_running,
              .timeout_seconds = options_.timeout_seconds};
  for (const auto &[name, address] : members) CKPT_CHECK(crew.add(name, address, begin));
  return {};
}

Result<> JobCheckpoint::compare_connections(const Crew &crew, const std::vector<Reached> &reached) {
  std::vector<MemberConnections> all;
  for (size_t i = 0; i < reached.size(); i++)
    all.push_back({crew.names()[i], reached[i].node, reached[i].connections});
  Reasons reasons = unmatched_connections(all);
  if (reasons.empty()) return {};
  may_pass_ = true;
  return fail("the job cannot be checkpointed now:{}", as_list(reasons));
}

// A program that has started meanwhile is not in any image, and neither are the messages that were
// sent to it.
Result<> JobCheckpoint::commit(const JobFolder &folder, Crew &crew) {
  crew.say_alive();
  CKPT_TRY(auto now, folder.members());
  std::vector<std::string> names;
  for (const auto &[name, address] : now) names.push_back(name);
  if (names != crew.names())
    return fail_with_hint(
        "a program of the job has started or ended in the middle of the checkpoint",
        "run ckpt-dump --job again");
  CKPT_TRY(
      json decision,
      decide(folder.decision(report_.checkpoint),
             {{"result", "complete"}, {"members", names}, {"stopped", !options_.leave_running}}));
  if (!is_complete(decision))
    return fail("a member of the job has given up: {}", json_string(decision, "why"));
  return {};
}

Result<> JobCheckpoint::finish(Crew &crew) {
  complete_ = true;
  phases_.begin("job-finish");
  crew.go_all(Stage::Durable);
  Result<std::vector<Reached>> done = crew.gather(Stage::Done);
  if (!done)
    return fail_with_hint(
        fmt::format("the checkpoint {} is complete, but {}", report_.folder, done.error().what),
        options_.leave_running ? "" : "end the programs of the job that still run");
  for (size_t i = 0; i < done->size(); i++)
    report_.members[crew.names()[i]] = report_of((*done)[i].report);
  return {};
}

// The newest checkpoint of each program that has not finished stays.
void JobCheckpoint::prune(const JobFolder &folder) const {
  if (!options_.keep) return;
  std::set<std::string> later;
  std::vector<unsigned> all = folder.complete();
  for (size_t i = 0; i < all.size(); i++) {
    Result<json> decision = read_decision(folder.decision(all[i]));
    bool needed = false;
    for (const std::string &member : decision ? members_of(*decision) : std::vector<std::string>{})
      needed |= later.insert(member).second && all[i] > folder.finished() &&
                !has_ended_well(folder, member);
    if (i >= *options_.keep && !needed) folder.remove_checkpoint(all[i]);
  }
}

}  // namespace ckpt::tools
