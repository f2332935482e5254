// SPDX-License-Identifier: Apache-2.0
//
// ckpt-history: lists the dumps and restores of the past.
#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "common/base/io.h"
#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "common/base/named_user.h"
#include "common/base/new_file.h"
#include "common/base/print.h"
#include "common/base/printable.h"
#include "common/base/units.h"
#include "tools/command_line.h"
#include "tools/error_json.h"
#include "tools/history/fit.h"
#include "tools/history/history.h"
#include "tools/history/picture.h"
#include "tools/history/prometheus.h"
#include "tools/history/trace.h"
#include "tools/json_text.h"
#include "tools/session/programs.h"
#include "tools/table.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr int kFailed = 1;

struct Options {
  std::string user, job, file;
  bool json = false, fit = false, all_users = false;
  std::string metrics, trace, svg;  // the files for them
  std::vector<std::string> homes;   // folders
  std::optional<unsigned> last;
};

// Fields of a file that its user may have written by hand: of any type, or missing.
std::string text_field(const json &event, const char *name) {
  return printable(json_string(event, name, "-"));
}

double number_field(const json &event, const char *name) { return json_value(event, name, 0.0); }

std::string seconds_of(const json &event, const char *name) {
  return event.contains(name) ? fmt::format("{:.3f}", number_field(event, name)) : "-";
}

// The whole. Events of ckpt 0.1 have less in "seconds": a dump without the steps before the pause.
std::string total_of(const json &event) {
  double sum = 0;
  for (const auto &step : json_member(event, "phases"))
    if (step.is_number()) sum += step.get<double>();
  double total =
      std::max({number_field(event, "seconds"), number_field(event, "pause_seconds"), sum});
  return event.contains("seconds") ? fmt::format("{:.3f}", total) : "-";
}

std::string bytes_of(const json &event) {
  double bytes = std::clamp(number_field(event, "bytes"), 0.0, 1e18);
  return event.contains("bytes") ? human_bytes(static_cast<u64>(bytes)) : "-";
}

std::string list_of(const json &event, const char *name) {
  std::vector<std::string> words = json_strings(json_member(event, name));
  return words.empty() ? "-" : printable(fmt::format("{}", fmt::join(words, ",")));
}

std::string text_of(const std::vector<json> &events, bool all_users) {
  std::vector<std::string> head{"TIME",  "WHAT",  "RESULT",  "JOB",     "SIZE",
                                "PAUSE", "TOTAL", "DEVICES", "PROGRAM", "IMAGE"};
  if (all_users) head.insert(head.begin() + 1, "USER");
  Table table(head);
  for (const json &e : events) {
    std::vector<std::string> row{local_time_of(e),
                                 text_field(e, "event"),
                                 text_field(e, "result"),
                                 text_field(e, "job"),
                                 bytes_of(e),
                                 seconds_of(e, "pause_seconds"),
                                 total_of(e),
                                 list_of(e, "devices"),
                                 text_field(e, "program"),
                                 text_field(e, "image")};
    if (all_users) row.insert(row.begin() + 1, text_field(e, "user"));
    table.row(row);
  }
  return table.text();
}

constexpr double kLimits[] = {0.33, 0.5, 1.0};  // as KS-4 reports errors

using schedule::SizedCost;

// What has costs of its own.
struct Kind {
  std::string devices, storage;
  // NOLINTNEXTLINE(modernize-use-nullptr): a false report of clang-tidy 14
  auto operator<=>(const Kind &) const = default;
};

std::string fit_text(const Kind &kind, const char *what, const SizedFit &fit) {
  const schedule::CostBound &b = fit.bound;
  const SizedCost &c = b.median;
  std::vector<double> errors = fit.errors();
  std::string text =
      fmt::format("{:<9} {:<9} {:<11} {:>5} {:>11.6f} {:>11.6f} {:>9.4f} {:>5.1f}",
                  printable(kind.devices), printable(kind.storage), what, errors.size(),
                  c.per_megabyte, c.per_stored_megabyte, c.base, c.of_load);
  for (double limit : kLimits)
    text += fmt::format(" {:>7.0f} %", 100 * schedule::share_within(errors, limit));
  return text + fmt::format(" {:>7.2f}{}\n", b.factor, b.has_enough() ? "" : " (few)");
}

double largest_of(const SizedFit &fit) {
  double largest = 0;
  for (const PredictedCost &p : fit.all) largest = std::max(largest, p.megabytes);
  return largest;
}

double most_seconds(const HistoryFit &fit) {
  return fit.worst_case().checkpoint_seconds(largest_of(fit.dump), fit.wait);
}

// By which a site chooses the time between the signal and the end of a job.
std::string longest_text(const Kind &kind, const HistoryFit &fit) {
  if (fit.dumps == 0) return "";
  return fmt::format(
      "{}, {}: a checkpoint of {:.0f} MB, the largest so far, takes at most {:.1f} s ({}).\n",
      printable(kind.devices), printable(kind.storage), largest_of(fit.dump), most_seconds(fit),
      fit.dump.bound.has_enough()
          ? fmt::format("{:.0f} % of them", 100 * schedule::kCoverage)
          : fmt::format("{} checkpoints are too few to be sure", fit.dumps));
}

json line_json(const schedule::Line &line, const std::vector<double> &errors) {
  return {{"samples", errors.size()},
          {"seconds_per_mb", line.slope},
          {"seconds", line.base},
          {"errors", errors}};
}

json sized_json(const SizedFit &fit) {
  json all = json::array();
  for (const PredictedCost &p : fit.all)
    all.push_back({{"program", p.program},
                   {"mb", p.megabytes},
                   {"stored_mb", p.stored_megabytes},
                   {"load", p.load},
                   {"compile_seconds", p.compiled},
                   {"predicted", p.predicted},
                   {"measured", p.measured}});
  const SizedCost &c = fit.bound.median;
  return {{"samples", fit.all.size()},
          {"seconds_per_mb", c.per_megabyte},
          {"seconds_per_stored_mb", c.per_stored_megabyte},
          {"seconds", c.base},
          {"of_load", c.of_load},
          {"bound",
           {{"factor", fit.bound.factor},
            {"coverage", schedule::kCoverage},
            {"enough", fit.bound.has_enough()},
            {"spread", fit.bound.spread}}},
          {"errors", fit.errors()},
          {"events", std::move(all)}};
}

// K: the mean time in which the kernels of a program were compiled by its restores.
std::map<std::string, double> compile_seconds(const HistoryFit &fit) {
  std::map<std::string, double> sum;
  std::map<std::string, double> count;
  for (const PredictedCost &p : fit.restore.all) {
    sum[p.program] += p.compiled;
    count[p.program] += 1;
  }
  for (auto &[program, seconds] : sum) seconds /= count[program];
  std::erase_if(sum, [](const auto &each) { return each.second == 0; });
  return sum;
}

std::map<Kind, HistoryFit> fits_by_kind(const std::vector<json> &events) {
  std::set<Kind> kinds;
  for (const json &e : events) kinds.insert({devices_of(e), storage_of(e)});
  std::map<Kind, HistoryFit> fits;
  for (const Kind &kind : kinds)
    if (HistoryFit fit = fit_history(events, {.devices = kind.devices, .storage = kind.storage});
        fit.dumps + fit.restores > 0)
      fits[kind] = std::move(fit);
  return fits;
}

void print_fit_json(const std::vector<json> &events) {
  HistoryFit all = fit_history(events, {});
  json kinds = json::array();
  for (const auto &[kind, fit] : fits_by_kind(events))
    kinds.push_back({{"devices", kind.devices},
                     {"storage", kind.storage},
                     {"largest_mb", largest_of(fit.dump)},
                     {"most_checkpoint_seconds", most_seconds(fit)},
                     {"checkpoint", sized_json(fit.dump)},
                     {"restore", sized_json(fit.restore)}});
  print_text(json_text({{"checkpoint", line_json(all.model.checkpoint, all.dump_errors)},
                        {"restore", line_json(all.model.restore, all.restore_errors)},
                        {"kinds", std::move(kinds)},
                        {"compile_seconds", compile_seconds(all)}},
                       2) +
             "\n");
}

// Costs over the sizes, with the shares of the events that they predict with an error of at most
// 0.33, 0.5 and 1 of what was measured, and the factor that few events exceed.
void print_fit(const std::vector<json> &events) {
  print(
      "DEVICES   STORAGE   WHAT            N        S/MB S/STORED MB   SECONDS  LOAD    <= 0.33"
      "    <= 0.5      <= 1   BOUND\n");
  std::map<Kind, HistoryFit> fits = fits_by_kind(events);
  for (const auto &[kind, fit] : fits)
    print_text(fit_text(kind, "checkpoint", fit.dump) + fit_text(kind, "restore", fit.restore));
  for (const auto &[kind, fit] : fits) print_text(longest_text(kind, fit));
  for (const auto &[program, seconds] : compile_seconds(fit_history(events, {})))
    print("{:.3f} s to compile the kernels of {}\n", seconds, printable(program));
}

// Each user's tools write a file of their own.
std::string own_file_of(const Options &o) {
  bool only_own = o.file.empty() && !o.all_users;
  std::optional<uid_t> uid = only_own ? named_user(o.user) : std::nullopt;
  const passwd *user = uid ? ::getpwuid(*uid) : nullptr;
  if (!user || user->pw_uid == ::geteuid() || user->pw_uid == 0) return {};
  return fmt::format(
      "; this user's own dumps are in --file={}/.local/state/ckpt/history.jsonl, and --all-users "
      "reads those of all users",
      printable(user->pw_dir));
}

// In the order of their times. An event is of the user that the history belongs to, whatever it
// says.
Result<std::vector<json>> events_of_all(const Options &o) {
  CKPT_TRY(std::vector<UserHistory> histories, all_histories(o.homes));
  std::vector<json> all;
  for (const UserHistory &history : histories) {
    ReadUpTo beginning;
    Result<std::vector<json>> events = events_since(history, beginning);
    if (!events) log::warn("{}", events.error().what);
    for (json &e : events ? *events : std::vector<json>{}) {
      e["user"] = history.user;
      e["uid"] = history.uid;
      all.push_back(std::move(e));
    }
  }
  std::ranges::stable_sort(all, {}, [](const json &e) { return number_field(e, "time"); });
  return all;
}

Result<int> run_metrics(const Options &o) {
  std::vector<UserHistory> histories;
  if (o.all_users) {
    CKPT_TRY(histories, all_histories(o.homes));
  } else {
    CKPT_TRY(UserHistory own, one_history(o.file));
    histories.push_back(std::move(own));
  }
  CKPT_CHECK(write_metrics(o.metrics, histories));
  return 0;
}

// "-": to standard output.
Result<> write_output(const std::string &file, const std::string &text) {
  if (file == "-") {
    print_text(text);
    return {};
  }
  CKPT_TRY(UniqueFd out, open_output(file, O_TRUNC, 0666));
  return write_all(out.get(), view(text));
}

Result<int> run(const Options &o) {
  if (!o.metrics.empty()) return run_metrics(o);
  CKPT_TRY(std::optional<uid_t> uid, selected_user(o.user));
  std::string file = o.file.empty() ? history_file() : o.file;
  CKPT_TRY(std::vector<json> events, o.all_users ? events_of_all(o) : history_of(o.file));
  std::erase_if(events, [&](const json &e) {
    bool others = !o.user.empty() && number_field(e, "uid") != *uid;
    return others || (!o.job.empty() && text_field(e, "job") != o.job);
  });
  if (o.last && events.size() > *o.last) events.erase(events.begin(), events.end() - *o.last);
  if (!o.trace.empty())
    CKPT_CHECK(write_output(o.trace, json_text(trace_of(events)) + "\n"));
  else if (!o.svg.empty())
    CKPT_CHECK(write_output(o.svg, picture_of(events)));
  else if (o.fit && o.json)
    print_fit_json(events);
  else if (o.fit)
    print_fit(events);
  else if (o.json)
    print_text(json_text(json(events), 2) + "\n");
  else if (events.empty())
    print("no dump or restore{} is recorded in {}{}\n",
          o.user.empty() ? "" : " of " + printable(o.user), file.empty() ? "-" : printable(file),
          own_file_of(o));
  else
    print_text(text_of(events, o.all_users));
  return 0;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  Options o;
  CommandLine line("ckpt-history", "Lists the dumps and restores of the past, the oldest first.");
  Option job = line.option("--job=NUMBER", o.job, "only dumps and restores of this batch job");
  Option last = line.option("--last=N", o.last, "only the N newest lines").range(1, 1000000);
  Option user = line.option("--user=NAME", o.user, "only programs of this user");
  Option file = line.option("--file=FILE", o.file, "read the history from this file")
                    .default_is("this user's");
  Option fit = line.flag("--fit", o.fit,
                         "fit the cost of checkpoints and restores to their sizes, and print it");
  Option all =
      line.flag("--all-users", o.all_users, "read the histories of all users; only for root");
  line.repeated(
          "--homes=FOLDER", o.homes,
          "with --all-users: a folder with home folders, such as /home, for users that the name "
          "service does not list; may be repeated")
      .needs(all);
  Option metrics =
      line.option("--prometheus=FILE", o.metrics,
                  "write metrics for Prometheus to this file, for node_exporter; -: to "
                  "standard output");
  Option trace = line.option("--chrome-trace=FILE", o.trace,
                             "write the steps of dumps and restores to this file, for "
                             "ui.perfetto.dev; -: to standard output");
  Option svg = line.option("--svg=FILE", o.svg,
                           "draw the steps of dumps and restores into this SVG file; -: to "
                           "standard output");
  Option json = line.flag("--json", o.json, "print JSON");
  for (Option *other : {&job, &last, &user, &fit, &json, &trace, &svg}) metrics.excludes(*other);
  for (Option *other : {&fit, &json}) trace.excludes(*other);
  for (Option *other : {&fit, &json, &trace}) svg.excludes(*other);
  all.excludes(file);
  return run_tool_with_json(line, argc, argv, kFailed, o.json, [&] { return run(o); });
}
