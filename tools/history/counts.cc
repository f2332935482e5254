// SPDX-License-Identifier: Apache-2.0
#include "tools/history/counts.h"

#include <algorithm>

#include "common/base/json_fields.h"
#include "common/base/printable.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr size_t kMostText = 300;
constexpr double kMostSeconds = 1e7;
constexpr u64 kMostBytes = u64{1} << 50;

// A user may have written any number.
u64 bytes_in(const json &event, const char *name) {
  return std::min(json_value(event, name, u64{0}), kMostBytes);
}

void add_seconds(Durations &all, const json &event, const char *name) {
  double seconds = json_value(event, name, -1.0);
  if (seconds >= 0 && seconds < kMostSeconds) all.add(seconds);
}

void forget_oldest(std::map<std::string, NewestImage> &newest) {
  auto time = [](const auto &each) { return each.second.time; };
  while (newest.size() > HistoryCounts::kMostPrograms)
    newest.erase(std::ranges::min_element(newest, {}, time));
}

json as_json(const UserCounts &user) {
  json newest = json::object();
  for (const auto &[program, n] : user.newest)
    newest[program] = {
        {"image", n.image}, {"time", n.time}, {"bytes", n.bytes}, {"stored_bytes", n.stored_bytes}};
  return {{"dumps", user.dumps},
          {"failed_dumps", user.failed_dumps},
          {"restores", user.restores},
          {"failed_restores", user.failed_restores},
          {"stored_bytes", user.stored_bytes},
          {"newest", std::move(newest)}};
}

UserCounts user_from(const json &j) {
  auto count = [&](const char *name) { return json_value(j, name, u64{0}); };
  UserCounts user{count("dumps"), count("failed_dumps"), count("restores"),
                  count("failed_restores"), count("stored_bytes")};
  for (const auto &[program, n] : json_object(j, "newest").items())
    user.newest[program] = {json_string(n, "image"), json_value(n, "time", 0.0),
                            json_value(n, "bytes", u64{0}), json_value(n, "stored_bytes", u64{0})};
  return user;
}

}  // namespace

void Durations::add(double seconds) {
  counts_[static_cast<size_t>(std::ranges::lower_bound(kLimits, seconds) - kLimits.begin())]++;
  sum_ += seconds;
}

Durations Durations::from(const json &j) {
  Durations out;
  const json &counts = json_list(j, "counts");
  for (size_t i = 0; i < std::min(counts.size(), out.counts_.size()); i++)
    if (counts[i].is_number_unsigned()) out.counts_[i] = counts[i].get<u64>();
  out.sum_ = json_value(j, "sum", 0.0);
  return out;
}

void HistoryCounts::add_dump(UserCounts &user, const json &event, double now) {
  const std::string program = printable(json_string(event, "program", "-"), kMostText),
                    image = json_string(event, "image");
  user.stored_bytes += bytes_in(event, "stored_bytes");
  add_seconds(dump, event, "seconds");
  add_seconds(pause, event, "pause_seconds");
  double time = std::clamp(json_value(event, "time", 0.0), 0.0, now);
  auto known = user.newest.find(program);
  bool is_older = known != user.newest.end() && time < known->second.time;
  if (is_older || !image.starts_with('/')) return;  // "-": a pipe
  user.newest[program] = {image, time, bytes_in(event, "bytes"), bytes_in(event, "stored_bytes")};
  forget_oldest(user.newest);
}

void HistoryCounts::add(const std::string &name, const json &event, const std::string &host,
                        double now) {
  if (json_string(event, "host", host) != host) return;
  UserCounts &user = users[name];
  const bool done = json_string(event, "result") == "ok";
  const std::string what = json_string(event, "event");
  if (what == "dump") {
    (done ? user.dumps : user.failed_dumps)++;
    if (done) add_dump(user, event, now);
  } else if (what == "restore") {
    (done ? user.restores : user.failed_restores)++;
    if (done) add_seconds(restore, event, "seconds");
  }
}

json HistoryCounts::saved() const {
  json all{{"users", json::object()}, {"read", json::object()}};
  for (const auto &[name, user] : users) all["users"][name] = as_json(user);
  for (const auto &[file, up_to] : read)
    all["read"][file] = {{"file", up_to.file}, {"offset", up_to.offset}, {"older", up_to.older}};
  all["dump"] = dump.saved();
  all["pause"] = pause.saved();
  all["restore"] = restore.saved();
  return all;
}

HistoryCounts HistoryCounts::from(const json &j) {
  HistoryCounts out;
  for (const auto &[name, user] : json_object(j, "users").items())
    out.users[name] = user_from(user);
  for (const auto &[file, up_to] : json_object(j, "read").items())
    out.read[file] = {json_string(up_to, "file"), json_value(up_to, "offset", u64{0}),
                      json_string(up_to, "older")};
  out.dump = Durations::from(json_member(j, "dump"));
  out.pause = Durations::from(json_member(j, "pause"));
  out.restore = Durations::from(json_member(j, "restore"));
  return out;
}

}  // namespace ckpt::tools
