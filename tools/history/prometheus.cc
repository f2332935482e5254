// SPDX-License-Identifier: Apache-2.0
#include "tools/history/prometheus.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "ckpt_config.h"
#include "common/base/file_text.h"
#include "common/base/json_depth.h"
#include "common/base/log.h"
#include "common/base/metrics_text.h"
#include "common/base/new_file.h"
#include "common/base/print.h"
#include "common/base/printable.h"
#include "common/proc/file.h"
#include "tools/history/counts.h"
#include "tools/history/history.h"
#include "tools/json_text.h"
#include "tools/session/programs.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// A comment of the format, which its readers skip: the counts from which the next run goes on. In
// the same file, so that it is replaced in the same step.
constexpr std::string_view kState = "# ckpt-history: ";
constexpr int kMaxStateDepth = 8;

// By user and executable.
using Running = std::map<std::pair<std::string, std::string>, size_t>;

struct Samples {
  HistoryCounts counts;
  Running running;
  size_t unreadable = 0;  // histories
};

Failure not_ours(const std::string &file, const char *why) {
  return fail_with_hint(fmt::format("{} {}: not replaced", file, why),
                        "name a new file, or remove this one");
}

// The text of the file that is to be replaced; "" if there is none.
Result<std::string> text_before(const std::string &file) {
  UniqueFd fd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return "";
  struct stat s {};
  if (!fd || ::fstat(fd.get(), &s) != 0) return fail_errno("cannot read {}", file);
  if (!S_ISREG(s.st_mode)) return not_ours(file, "is not a regular file");
  if (s.st_uid != ::geteuid() && s.st_uid != 0) return not_ours(file, "belongs to another user");
  return text_behind(fd.get());
}

Result<HistoryCounts> counts_before(const std::string &file) {
  CKPT_TRY(std::string text, text_before(file));
  if (text.empty()) return HistoryCounts{};
  if (!text.starts_with(kState)) return not_ours(file, "was not written by ckpt-history");
  std::string state = text.substr(kState.size(), text.find('\n') - kState.size());
  if (json_depth(state) > kMaxStateDepth) return not_ours(file, "was not written by ckpt-history");
  return HistoryCounts::from(json::parse(state, nullptr, /*allow_exceptions=*/false));
}

// One history that cannot be read, such as in a home folder that is not mounted, stops no other.
void read(const std::vector<UserHistory> &histories, Samples &all) {
  const std::string host = host_name();
  const double now = static_cast<double>(::time(nullptr));
  for (const UserHistory &history : histories) {
    Result<std::vector<json>> events = events_since(history, all.counts.read[history.file]);
    if (!events) {
      log::info("{}", events.error().what);
      all.unreadable++;
      continue;
    }
    for (const json &event : *events) all.counts.add(history.user, event, host, now);
  }
}

Running running_now(const std::vector<UserHistory> &histories) {
  Running all;
  bool one_user = histories.size() == 1;
  for (const RunningProgram &p :
       running_programs(one_user ? std::optional(histories.front().uid) : std::nullopt)) {
    std::string program = proc::link(p.root, "exe");
    if (p.root > 0 && !program.empty()) all[{printable(p.user), printable(program, 300)}]++;
  }
  return all;
}

void put_operations(MetricsText &text, const HistoryCounts &counts) {
  text.metric("ckpt_dumps_total", "counter", "Dumps by the user of the tool and by result.");
  for (const auto &[user, n] : counts.users)
    text.sample(n.dumps, {{"user", user}, {"result", "ok"}})
        .sample(n.failed_dumps, {{"user", user}, {"result", "failed"}});
  text.metric("ckpt_restores_total", "counter", "Restores by the user of the tool and by result.");
  for (const auto &[user, n] : counts.users)
    text.sample(n.restores, {{"user", user}, {"result", "ok"}})
        .sample(n.failed_restores, {{"user", user}, {"result", "failed"}});
  text.metric("ckpt_stored_bytes_total", "counter", "Bytes that dumps have written to images.");
  for (const auto &[user, n] : counts.users) text.sample(n.stored_bytes, {{"user", user}});
}

void put_durations(MetricsText &text, const HistoryCounts &counts) {
  auto put = [&](const char *name, const char *help, const Durations &d) {
    text.metric(name, "histogram", help).histogram(d.counts(), Durations::kLimits, d.sum());
  };
  put("ckpt_dump_seconds", "Time of successful dumps, from the start of the tool to its end.",
      counts.dump);
  put("ckpt_dump_pause_seconds", "Time for which successful dumps paused the program.",
      counts.pause);
  put("ckpt_restore_seconds", "Time of successful restores.", counts.restore);
}

void put_newest(MetricsText &text, const Samples &all, const std::vector<UserHistory> &histories) {
  std::vector<std::pair<MetricsText::Labels, const NewestImage *>> there;
  for (const UserHistory &history : histories) {
    auto user = all.counts.users.find(history.user);
    if (user == all.counts.users.end()) continue;
    for (const auto &[program, newest] : user->second.newest)
      if (may_exist(history, newest.image))
        there.push_back({{{"user", history.user}, {"program", program}}, &newest});
  }
  auto put = [&](const char *name, const char *help, auto value) {
    text.metric(name, "gauge", help);
    for (const auto &[labels, newest] : there) text.sample(value(*newest), labels);
  };
  put("ckpt_newest_image_timestamp_seconds", "When the newest image of the program was written.",
      [](const NewestImage &n) { return fmt::format("{:.0f}", n.time); });
  put("ckpt_newest_image_bytes", "What the newest image of the program holds.",
      [](const NewestImage &n) { return n.bytes; });
  put("ckpt_newest_image_stored_bytes", "What the newest image of the program takes on the disk.",
      [](const NewestImage &n) { return n.stored_bytes; });
}

std::string text_of(const Samples &all, const std::vector<UserHistory> &histories) {
  MetricsText text;
  text.metric("ckpt_build_info", "gauge", "Always 1, with the version of ckpt.")
      .sample(1, {{"version", CKPT_VERSION}});
  put_operations(text, all.counts);
  put_durations(text, all.counts);
  put_newest(text, all, histories);
  text.metric("ckpt_running_programs", "gauge",
              "Programs that run under ckpt-run or ckpt-restore.");
  for (const auto &[program, n] : all.running)
    text.sample(n, {{"user", program.first}, {"program", program.second}});
  text.metric("ckpt_unreadable_histories", "gauge", "Histories of users that could not be read.")
      .sample(all.unreadable);
  text.metric("ckpt_metrics_timestamp_seconds", "gauge", "When these metrics were written.")
      .sample(::time(nullptr));
  return text.take();
}

}  // namespace

Result<> write_metrics(const std::string &file, const std::vector<UserHistory> &histories) {
  Samples all;
  const bool to_output = file == "-";
  if (!to_output) {
    CKPT_TRY(all.counts, counts_before(file));
  }
  read(histories, all);
  all.running = running_now(histories);
  std::string text = text_of(all, histories);
  if (to_output) {
    print_text(text);
    return {};
  }
  std::string state = fmt::format("{}{}\n", kState, json_text(all.counts.saved()));
  return replace_file(file, state + text, 0644);
}

}  // namespace ckpt::tools
