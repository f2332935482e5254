// SPDX-License-Identifier: Apache-2.0
#include "tools/phases.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/test_points.h"

namespace ckpt::tools {
namespace {

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

void Phases::begin(const std::string &name) {
  end();
  all_.push_back({name, Clock::now(), {}});
  log::info("{}", name);
  test_point(name);
}

void Phases::end() {
  if (!all_.empty() && all_.back().stop == Clock::time_point{}) all_.back().stop = Clock::now();
}

double Phases::seconds_since(Clock::time_point t) const { return seconds(Clock::now() - t); }

double Phases::total_seconds() const {
  if (all_.empty()) return 0;
  Clock::time_point stop = all_.back().stop;
  return seconds((stop == Clock::time_point{} ? Clock::now() : stop) - all_.front().start);
}

std::vector<PhaseTimes> Phases::times() const {
  std::vector<PhaseTimes> list;
  for (const Phase &p : all_) {
    Clock::time_point stop = p.stop == Clock::time_point{} ? Clock::now() : p.stop;
    list.push_back({p.name, seconds(p.start - all_.front().start), seconds(stop - p.start)});
  }
  return list;
}

nlohmann::json Phases::json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const PhaseTimes &p : times())
    list.push_back({{"name", p.name}, {"start", p.start}, {"seconds", p.seconds}});
  return list;
}

}  // namespace ckpt::tools
