// SPDX-License-Identifier: Apache-2.0
//
// ckpt-history: lists the dumps and restores of the past.
#include <time.h>

#include <filesystem>

#include "common/base/printable.h"
#include "common/base/units.h"
#include "tools/command_line.h"
#include "tools/history/fit.h"
#include "tools/history/history.h"
#include "tools/json_text.h"
#include "tools/session/programs.h"
#include "tools/table.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr int kFailed = 1;

struct Options {
  std::string user, job, file;
  bool json = false, fit = false;
  std::optional<unsigned> last;
};

// Fields of a file that its user may have written by hand: of any type, or missing.
std::string text_field(const json &event, const char *name) {
  auto it = event.find(name);
  return it != event.end() && it->is_string() ? printable(it->get<std::string>()) : "-";
}

double number_field(const json &event, const char *name) {
  auto it = event.find(name);
  return it != event.end() && it->is_number() ? it->get<double>() : 0;
}

std::string seconds_of(const json &event, const char *name) {
  return event.contains(name) ? fmt::format("{:.3f}", number_field(event, name)) : "-";
}

std::string time_of(const json &event) {
  time_t when = static_cast<time_t>(std::clamp(number_field(event, "time"), 0.0, 1e11));
  tm local{};
  char text[32] = "";
  if (::localtime_r(&when, &local)) ::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

std::string bytes_of(const json &event) {
  double bytes = std::clamp(number_field(event, "bytes"), 0.0, 1e18);
  return event.contains("bytes") ? human_bytes(static_cast<u64>(bytes)) : "-";
}

std::string list_of(const json &event, const char *name) {
  std::string list;
  auto it = event.find(name);
  if (it == event.end() || !it->is_array()) return "-";
  for (const json &word : *it)
    if (word.is_string()) list += (list.empty() ? "" : ",") + printable(word.get<std::string>());
  return list.empty() ? "-" : list;
}

std::string text_of(const std::vector<json> &events) {
  Table table(
      {"TIME", "WHAT", "RESULT", "JOB", "SIZE", "PAUSE", "TOTAL", "DEVICES", "PROGRAM", "IMAGE"});
  for (const json &e : events)
    table.row({time_of(e), text_field(e, "event"), text_field(e, "result"), text_field(e, "job"),
               bytes_of(e), seconds_of(e, "pause_seconds"), seconds_of(e, "seconds"),
               list_of(e, "devices"), text_field(e, "program"), text_field(e, "image")});
  return table.text();
}

constexpr double kLimits[] = {0.33, 0.5, 1.0};  // as KS-4 reports errors

std::string fit_text(const char *what, const schedule::Line &line,
                     const std::vector<double> &errors) {
  std::string text =
      fmt::format("{:<11} {:>6} {:>13.6f} {:>9.4f}", what, errors.size(), line.slope, line.base);
  for (double limit : kLimits)
    text += fmt::format(" {:>7.0f} %", 100 * schedule::share_within(errors, limit));
  return text + "\n";
}

// Costs as lines over the size, with the shares of the events that they predict with an error of at
// most 0.33, 0.5 and 1 of what was measured.
void print_fit(const std::vector<nlohmann::json> &events, bool as_json) {
  HistoryFit fit = fit_history(events, {});
  const schedule::CostModel &m = fit.model;
  if (as_json) {
    auto part = [](const schedule::Line &l, const std::vector<double> &errors) {
      return nlohmann::json{{"samples", errors.size()},
                            {"seconds_per_mb", l.slope},
                            {"seconds", l.base},
                            {"errors", errors}};
    };
    fmt::print("{}\n", json_text({{"checkpoint", part(m.checkpoint, fit.dump_errors)},
                                  {"restore", part(m.restore, fit.restore_errors)}},
                                 2));
    return;
  }
  fmt::print("                 n      seconds/MB   seconds    <= 0.33    <= 0.5      <= 1\n{}{}",
             fit_text("checkpoint", m.checkpoint, fit.dump_errors),
             fit_text("restore", m.restore, fit.restore_errors));
}

Result<int> run(const Options &o) {
  CKPT_TRY(std::optional<uid_t> uid, selected_user(o.user));
  std::string file = o.file.empty() ? history_file() : o.file;
  std::vector<json> events = read_history(file);
  std::erase_if(events, [&](const json &e) {
    bool others = !o.user.empty() && number_field(e, "uid") != *uid;
    return others || (!o.job.empty() && text_field(e, "job") != o.job);
  });
  if (o.last && events.size() > *o.last) events.erase(events.begin(), events.end() - *o.last);
  if (o.fit)
    print_fit(events, o.json);
  else if (o.json)
    fmt::print("{}\n", json_text(json(events), 2));
  else if (events.empty())
    fmt::print("no dump or restore is recorded in {}\n", file.empty() ? "-" : printable(file));
  else
    fmt::print("{}", text_of(events));
  return 0;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  Options o;
  CommandLine line("ckpt-history", "Lists the dumps and restores of the past, the oldest first.");
  line.option("--job=NUMBER", o.job, "only those of this batch job");
  line.option("--last=N", o.last, "only the N newest").range(1, 1000000);
  line.option("--user=NAME", o.user, "only those of this user");
  line.option("--file=FILE", o.file, "read this history").default_is("this user's");
  line.flag("--fit", o.fit, "print what checkpoints and restores cost by their size");
  line.flag("--json", o.json, "print JSON");
  return run_tool(line, argc, argv, kFailed, [&] { return run(o); });
}
