// SPDX-License-Identifier: Apache-2.0
#include "tools/history/trace.h"

#include <filesystem>
#include <map>

#include "common/base/json_fields.h"
#include "tools/history/history.h"
#include "tools/session/programs.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// The format counts in microseconds.
constexpr double kSecond = 1e6;

std::string title_of(const json &event) {
  std::string program = std::filesystem::path(json_string(event, "program")).filename().string();
  return json_string(event, "event", "?") + (program.empty() ? "" : " " + program);
}

json span(const json &event, const std::string &name, double begin, double seconds) {
  return {{"name", name},
          {"cat", json_string(event, "event", "?")},
          {"ph", "X"},
          {"ts", begin * kSecond},
          {"dur", seconds * kSecond},
          {"pid", json_value(event, "uid", 0u)},
          {"tid", json_value(event, "pid", 0u)}};
}

// "time" is when it ended.
void add(const json &event, json &all) {
  double seconds = seconds_in(event, "seconds"), begin = seconds_in(event, "time") - seconds;
  json whole = span(event, title_of(event), begin, seconds);
  for (const char *name : {"result", "why", "image", "bytes", "stored_bytes", "job", "host"})
    if (const json &value = json_member(event, name); !value.is_null()) whole["args"][name] = value;
  all.push_back(std::move(whole));
  const json &lasted = json_object(event, "phases");
  for (const auto &[name, start] : json_object(event, "starts").items())
    if (start.is_number())
      all.push_back(
          span(event, name, begin + start.get<double>(), seconds_in(lasted, name.c_str())));
}

// The titles of the rows.
void add_users(const std::vector<json> &events, json &all) {
  std::map<unsigned, std::string> names;
  for (const json &e : events) {
    unsigned uid = json_value(e, "uid", 0u);
    if (!names.contains(uid)) names[uid] = json_string(e, "user", user_name(uid));
  }
  for (const auto &[uid, name] : names)
    all.push_back(
        {{"name", "process_name"}, {"ph", "M"}, {"pid", uid}, {"args", {{"name", name}}}});
}

}  // namespace

json trace_of(const std::vector<json> &events) {
  json all = json::array();
  add_users(events, all);
  for (const json &event : events) add(event, all);
  return {{"traceEvents", std::move(all)}, {"displayTimeUnit", "ms"}};
}

}  // namespace ckpt::tools
