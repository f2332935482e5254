// SPDX-License-Identifier: Apache-2.0
#include "tools/history/moves.h"

#include <algorithm>

#include "common/base/json_fields.h"
#include "tools/history/history.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// Links and nodes change: what was long ago says little.
constexpr size_t kNewest = 50;
constexpr size_t kMostWhyBytes = 2000;

void add(std::vector<schedule::MovedBytes> &all, const json &event, const char *seconds) {
  double took = seconds_in(event, seconds), bytes = json_value(event, "device_bytes", -1.0);
  if (all.size() < kNewest && took > 0 && bytes >= 0) all.push_back({bytes, took});
}

}  // namespace

json as_event(const MoveLine &line) {
  const char *what = !line.enter ? "suspend" : line.leave ? "move" : "resume";
  json event{{"event", what},           {"pid", line.pid},      {"result", "ok"},
             {"program", line.program}, {"devices", line.apis}, {"device_bytes", line.device_bytes},
             {"seconds", line.seconds}};
  if (!line.from.empty()) event["from"] = line.from;
  if (!line.to.empty()) event["to"] = line.to;
  if (line.leave) event["leave_seconds"] = *line.leave;
  if (line.enter) event["enter_seconds"] = *line.enter;
  if (line.leave && line.enter) event["pause_seconds"] = *line.leave + *line.enter;
  return event;
}

json failed_move(const char *event, pid_t pid, const std::string &why) {
  return {
      {"event", event}, {"pid", pid}, {"result", "failed"}, {"why", why.substr(0, kMostWhyBytes)}};
}

EarlierMoves earlier_moves(const std::vector<json> &events, const std::string &from,
                           const std::string &to, const std::string &host) {
  EarlierMoves moves;
  for (auto at = events.rbegin(); at != events.rend(); ++at) {
    const json &event = *at;
    if (json_string(event, "result") != "ok" || json_string(event, "host", host) != host) continue;
    if (json_string(event, "from") == from) add(moves.leave, event, "leave_seconds");
    if (json_string(event, "to") == to) add(moves.enter, event, "enter_seconds");
  }
  return moves;
}

}  // namespace ckpt::tools
