// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/dry_run.h"

#include <algorithm>
#include <thread>

#include "common/base/clock.h"
#include "tools/device/remote.h"
#include "tools/history/history.h"
#include "tools/history/moves.h"
#include "tools/restore/resumed_agents.h"
#include "tools/restore/way_to_node.h"
#include "tools/session/chosen_devices.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

using schedule::Estimate;
using schedule::Way;
using schedule::Work;

// What one process of the program has told of its traffic.
struct Sample {
  pid_t pid = 0;
  double seconds = 0;
  std::vector<DeviceTraffic::One> all;
};
struct Sampled {
  double held_bytes = 0;
  std::vector<Sample> processes;

  const Sample *of(pid_t pid) const {
    auto it = std::ranges::find(processes, pid, &Sample::pid);
    return it == processes.end() ? nullptr : &*it;
  }
};

Result<Sampled> sample(std::vector<ResumedAgent> &agents) {
  Sampled s;
  size_t sampled = 0;
  CKPT_CHECK(for_living(agents, sampled, [&s](ResumedAgent &one) -> Result<> {
    CKPT_TRY(DeviceTraffic t, one.agent.traffic());
    s.held_bytes += static_cast<double>(t.held_bytes);
    s.processes.push_back({one.welcome.pid, t.seconds, std::move(t.all)});
    return {};
  }));
  return s;
}

std::optional<double> known(u64 figure, double unit) {
  return figure > 0 ? std::optional(static_cast<double>(figure) / unit) : std::nullopt;
}

// What a process does in a second, and the way to its devices as it has measured it.
struct Rates {
  double seconds = 0;
  Work work;
  Way way;
  std::string why_unknown;  // the work
};

// Between two samples, or since the process has its devices. It has got others in between if it has
// waited less often then. `first` is null also for a process that was not there before.
Rates rates_of(const Sample &last, const Sample *first) {
  Rates r{.seconds = last.seconds - (first ? first->seconds : 0),
          .work = {},
          .way = {false, {}, {}},
          .why_unknown = "it got its devices while it was watched"};
  double waits = 0, bytes = 0;
  for (size_t i = 0; i < last.all.size(); i++) {
    const DeviceTraffic::One &now = last.all[i];
    DeviceTraffic::One before;
    if (first && i < first->all.size()) before = first->all[i];
    if (!now.known)
      r.why_unknown = "their driver is in its process, so that its calls are not counted";
    if (!now.known || now.waits < before.waits || now.bytes < before.bytes) return r;
    waits += static_cast<double>(now.waits - before.waits);
    bytes += static_cast<double>(now.bytes - before.bytes);
    auto slower = [](const std::optional<double> &a, std::optional<double> b) {
      return a && (!b || *a > *b) ? a : b;
    };
    r.way.answer = slower(known(now.answer_ns, 1e9), r.way.answer);
    if (std::optional<double> rate = known(now.bytes_per_second, 1))
      r.way.rate = r.way.rate ? std::min(*r.way.rate, *rate) : *rate;
  }
  if (r.seconds > 0) r.work = {waits / r.seconds, bytes / r.seconds};
  return r;
}

// The process that loses the most: the others wait for it, or need not.
Rates slowest(const std::vector<Rates> &all) {
  auto loss = [](const Rates &r) { return schedule::lost_share(r.work, r.way).value; };
  return *std::ranges::max_element(all, {}, loss);
}

Result<std::vector<Rates>> all_rates(const Sampled &last, const Sampled *first) {
  std::vector<Rates> all;
  for (const Sample &one : last.processes)
    if (!one.all.empty()) all.push_back(rates_of(one, first ? first->of(one.pid) : nullptr));
  if (all.empty()) return fail("no process of the program uses a device");
  return all;
}

class Look {
 public:
  explicit Look(const MoveDryRunOptions &options) : o_(options) {}

  Result<MoveDryRun> run() {
    const std::vector<nlohmann::json> events = read_history(history_file());
    CKPT_TRY(target_, resolve_target(o_.resume.pid));
    CKPT_CHECK(check_container(target_, o_.resume));
    CKPT_CHECK(greet());
    CKPT_CHECK(look_as_owner(target_));
    CKPT_TRY(DeviceChoice choice, choose_devices(o_.resume.device));
    CKPT_CHECK(find_places(choice));
    CKPT_CHECK(take_first_sample());
    CKPT_CHECK(check(choice));
    CKPT_CHECK(watch());
    foresee(events);
    return std::move(r_);
  }

 private:
  Result<> greet() {
    CKPT_TRY(agents_, greeted_agents(target_));
    apis_ = apis_of(agents_);
    auto suspended = [](const ResumedAgent &a) {
      return a.welcome.state == protocol::State::Suspended;
    };
    r_.suspended = std::ranges::any_of(agents_, suspended);
    if (r_.suspended) leave_out_running(agents_);
    if (!r_.suspended && o_.resume.device.empty())
      return fail_with_hint("the program is not suspended",
                            "name other devices with --device to look at a move to them");
    r_.pid = target_.root;
    r_.program = executable_of(target_.root);
    r_.device = o_.resume.device;
    r_.step = o_.step;
    return {};
  }

  Result<> find_places(const DeviceChoice &choice) {
    CKPT_TRY(std::optional<DeviceChoice> former, chosen_devices_of(target_, apis_));
    if (!former) r_.unknown.push_back("where its devices are: its keeper is of an earlier version");
    r_.from = former ? place_of(*former) : "";
    r_.to = place_of(choice.empty() && former ? *former : choice);
    return {};
  }

  Result<> take_first_sample() {
    Result<Sampled> first = sample(agents_);
    if (first) first_ = std::move(*first);
    sampled_at_ = Clock::now();
    if (!first)
      r_.unknown.push_back(
          "what it has on its devices, and how often it waits for them: it runs with an earlier "
          "version of ckpt");
    return {};
  }

  // An agent of an earlier version does not while it runs.
  bool says_what_it_needs() {
    for (ResumedAgent &one : agents_)
      if (Result<std::string> needs = one.agent.requirements(); !needs) {
        r_.unknown.push_back("whether the devices suit it: " + needs.error().text());
        return false;
      }
    return true;
  }

  // All that the real command checks before it changes anything.
  Result<> check(const DeviceChoice &choice) {
    for (size_t i = 0; !r_.suspended && i < agents_.size(); i++) {
      CKPT_TRY(std::vector<std::string> blockers, agents_[i].agent.preflight());
      for (std::string &why : blockers)
        r_.reasons.push_back(fmt::format("process {}: {}", agents_[i].welcome.pid, why));
    }
    if (!r_.suspended && !says_what_it_needs()) return {};
    CKPT_CHECK(check_devices_for(agents_, o_.resume, choice));
    auto at_memory = [](ResumedAgent &a) { return a.agent.depth() == protocol::Depth::Memory; };
    if (std::ranges::any_of(agents_, at_memory))
      r_.unknown.push_back(
          "how much room it needs beside its contents: it has given back memory alone, and the "
          "rest is still on its devices");
    r_.checked = true;
    Reasons against = reasons_against(agents_, choice);
    std::ranges::move(against, std::back_inserter(r_.reasons));
    return {};
  }

  // The program can talk to other tools meanwhile.
  Result<> watch() {
    agents_.clear();
    if (!first_) return {};
    Sampled last = *first_;
    const bool watched = !r_.suspended;
    if (watched) {
      std::this_thread::sleep_until(sampled_at_ + std::chrono::duration<double>(o_.watch));
      CKPT_TRY(agents_, greeted_agents(target_));
      CKPT_TRY(last, sample(agents_));
      agents_.clear();
    }
    CKPT_TRY(std::vector<Rates> all, all_rates(last, watched ? &*first_ : nullptr));
    Rates rates = slowest(all);
    r_.held_bytes = last.held_bytes;
    r_.watched = rates.seconds;
    r_.work = rates.work;
    r_.now = rates.way;
    why_no_work_ = rates.why_unknown;
    return {};
  }

  // The way to a place of which nothing was measured from inside the program.
  Way way_to(const std::string &place) {
    if (place == kHere) return {};
    Way way{.here = false, .answer = {}, .rate = {}};
    Result<double> trip = round_trip_to(place.substr(kRemotePrefix.size()));
    if (trip)
      way.answer = *trip;
    else
      r_.unknown.push_back(fmt::format("the round trip to {}: {}", place, trip.error().what));
    return way;
  }

  void foresee(const std::vector<nlohmann::json> &events) {
    const bool stays = r_.from == r_.to;
    if (r_.from == kHere) r_.now = {};
    r_.now.here = r_.from == kHere;
    if (!r_.now.here && !r_.now.answer && !r_.from.empty()) r_.now = way_to(r_.from);
    r_.then = stays ? r_.now : way_to(r_.to);
    EarlierMoves moves = earlier_moves(events, r_.from, r_.to, host_name());
    r_.left = moves.leave.size();
    r_.entered = moves.enter.size();
    if (first_) {
      r_.leave = r_.suspended ? Estimate::about(0)
                              : schedule::part_of_move(moves.leave, r_.held_bytes, r_.now);
      r_.enter = schedule::part_of_move(moves.enter, r_.held_bytes, r_.then);
      if (r_.suspended)
        r_.back = schedule::part_of_move(earlier_moves(events, "", r_.from, host_name()).enter,
                                         r_.held_bytes, r_.now);
    }
    say_what_is_unknown(stays);
    r_.forecast = schedule::forecast_move(cost(), schedule::lost_share(r_.work, r_.now),
                                          schedule::lost_share(r_.work, r_.then));
  }

  // A suspended program needs devices in any case: what a move costs is how much longer it takes to
  // get the new ones than the former ones.
  Estimate cost() const {
    Estimate all = schedule::sum_of_parts(r_.leave, r_.enter);
    if (!r_.suspended) return all;
    Estimate more = r_.enter - r_.back;
    more.value = std::max(0.0, more.value);
    if (more.known()) return more;
    bool bounded = r_.enter.known() && r_.enter.sense != Estimate::Sense::AtLeast;
    return bounded ? Estimate::at_most(r_.enter.value) : Estimate{};
  }

  void say_what_is_unknown(bool stays) {
    auto missing = [](const Estimate &e) {
      return !e.known() || e.sense == Estimate::Sense::AtLeast;
    };
    auto &all = r_.unknown;
    if (first_ && !r_.suspended && missing(r_.leave))
      all.push_back(fmt::format("how long it takes to leave {}: the history has no such move",
                                text_of_place(r_.from)));
    if (first_ && missing(r_.enter))
      all.push_back(
          fmt::format("how long it takes to get devices of {}: the history has no such "
                      "move",
                      text_of_place(r_.to)));
    if (first_ && !r_.work.waits)
      all.push_back("how often it waits for its devices: " + why_no_work_);
    if (!r_.now.here && r_.work.bytes && *r_.work.bytes > 0 && !r_.now.rate)
      all.push_back(
          "the rate of the link: the program has read no block of 1 MiB over it, so what its bytes "
          "cost now is not counted");
    if (!stays && !r_.then.here)
      all.push_back(
          fmt::format("the rate of the link to {}: what bytes would cost there is not counted",
                      text_of_place(r_.to)));
    all.push_back("which devices compute faster: both count as equally fast");
  }

  const MoveDryRunOptions &o_;
  MoveDryRun r_;
  Target target_;
  std::vector<ResumedAgent> agents_;
  std::set<std::string> apis_;
  std::optional<Sampled> first_;
  Clock::time_point sampled_at_;
  std::string why_no_work_;
};

}  // namespace

Result<MoveDryRun> look_at_move(const MoveDryRunOptions &options) { return Look(options).run(); }

}  // namespace ckpt::tools
