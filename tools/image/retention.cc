// SPDX-License-Identifier: Apache-2.0
#include "tools/image/retention.h"

#include <fmt/format.h>

namespace ckpt::tools {
namespace {

// The hour, day, week or month of a time, as a text that differs from that of any other.
std::string period_of(time_t time, const char *format) {
  tm local{};
  char text[64] = "";
  if (::localtime_r(&time, &local)) ::strftime(text, sizeof text, format, &local);
  return text;
}

struct Rule {
  const char *name;
  unsigned left;
  const char *period;  // for strftime(3); null: each image is a period of its own
  std::optional<std::string> last = {};

  bool keeps(time_t time, size_t number, bool is_oldest) {
    if (left == 0) return false;
    std::string now = period ? period_of(time, period) : fmt::format("{}", number);
    if (last == now && !is_oldest) return false;
    last = now;
    left--;
    return true;
  }
};

bool is_within(time_t time, time_t newest, const Retention &rules) {
  return rules.within && std::difftime(newest, time) <= rules.within->count();
}

}  // namespace

std::vector<std::vector<std::string>> rules_that_keep(const std::vector<time_t> &times,
                                                      const Retention &rules) {
  Rule all[] = {{"last", rules.last, nullptr},
                {"hourly", rules.hourly, "%Y-%m-%d %H"},
                {"daily", rules.daily, "%Y-%m-%d"},
                {"weekly", rules.weekly, "%G-%V"},
                {"monthly", rules.monthly, "%Y-%m"}};
  std::vector<std::vector<std::string>> kept(times.size());
  for (size_t i = 0; i < times.size(); i++) {
    for (Rule &rule : all)
      if (rule.keeps(times[i], i, i + 1 == times.size())) kept[i].emplace_back(rule.name);
    if (is_within(times[i], times.front(), rules)) kept[i].emplace_back("within");
  }
  return kept;
}

}  // namespace ckpt::tools
