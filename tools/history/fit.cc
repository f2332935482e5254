// SPDX-License-Identifier: Apache-2.0
#include "tools/history/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/json_fields.h"

namespace ckpt::tools {

using namespace schedule;
using nlohmann::json;

namespace {

constexpr double kBytesPerMegabyte = 1e6;

std::optional<double> number(const json &event, const char *name) {
  auto at = event.find(name);
  if (at == event.end() || !at->is_number()) return {};
  double value = at->get<double>();
  return value >= 0 && value < 1e18 ? std::optional(value) : std::nullopt;
}

// Of a host, as Slurm names nodes.
std::string short_name(const std::string &host) { return host.substr(0, host.find('.')); }

bool counts(const json &event, const FitOptions &o) {
  return json_string(event, "result") == "ok" &&
         (o.devices.empty() || devices_of(event) == o.devices) &&
         (o.storage.empty() || storage_of(event) == o.storage) &&
         (o.hosts.empty() || o.hosts.contains(short_name(json_string(event, "host"))));
}

// `extra`: the seconds that are no cost of the data.
SizedFit fit_sized(const std::vector<const json *> &events, const char *extra) {
  SizedFit fit;
  std::vector<SizedSample> samples;
  // What was measured long ago says little.
  constexpr size_t kNewest = 2000;
  for (const json *e : events) {
    double megabytes = *number(*e, "bytes") / kBytesPerMegabyte, seconds = *number(*e, "seconds");
    double stored = number(*e, "stored_bytes").value_or(0) / kBytesPerMegabyte;
    double other = std::min(number(*e, extra).value_or(0), seconds);
    double load = number(*e, "load").value_or(1);
    samples.push_back({megabytes, stored, seconds - other, load});
    fit.all.push_back({json_string(*e, "program"), megabytes, stored, load,
                       number(*e, "compile_seconds").value_or(0), other, seconds});
  }
  fit.bound = bound_cost(std::span(samples).last(std::min(samples.size(), kNewest)));
  for (PredictedCost &p : fit.all)
    p.predicted += fit.bound.median.at(p.megabytes, p.stored_megabytes, p.load);
  return fit;
}

}  // namespace

std::string devices_of(const json &event) {
  std::vector<std::string> apis = json_strings(json_member(event, "devices"));
  return apis.empty() ? "none" : fmt::format("{}", fmt::join(apis, ","));
}

std::string storage_of(const json &event) {
  std::string storage = json_string(event, "storage");
  return storage.empty() ? "unknown" : storage;
}

CostModel HistoryFit::worst_case() const {
  return {dump.bound.worst_case(), restore.bound.worst_case()};
}

std::vector<double> SizedFit::errors() const {
  std::vector<double> all_errors;
  for (const PredictedCost &p : all) all_errors.push_back(relative_error(p.predicted, p.measured));
  return all_errors;
}

HistoryFit fit_history(const std::vector<json> &events, const FitOptions &o) {
  std::vector<CheckpointSample> dumps;
  std::vector<RestoreSample> restores;
  std::vector<const json *> dump_events, restore_events;
  for (const json &e : events) {
    std::optional<double> bytes = number(e, "bytes"), seconds = number(e, "seconds");
    if (!counts(e, o) || !bytes || !seconds || *seconds <= 0) continue;
    double megabytes = *bytes / kBytesPerMegabyte;
    if (json_string(e, "event") == "dump") {
      dumps.push_back({megabytes, *seconds, number(e, "waited_seconds").value_or(0)});
      dump_events.push_back(&e);
    } else if (json_string(e, "event") == "restore") {
      restores.push_back({megabytes, *seconds, number(e, "compile_seconds").value_or(0)});
      restore_events.push_back(&e);
    }
  }
  HistoryFit fit;
  fit.model = fit_costs(dumps, restores);
  fit.dump = fit_sized(dump_events, "waited_seconds");
  fit.restore = fit_sized(restore_events, "compile_seconds");
  fit.dumps = dumps.size();
  fit.restores = restores.size();
  std::vector<double> waits, compiles, sizes;
  for (const CheckpointSample &s : dumps) waits.push_back(s.waited);
  for (const CheckpointSample &s : dumps) sizes.push_back(s.megabytes);
  for (const RestoreSample &s : restores) compiles.push_back(s.compiled);
  fit.wait = seldom_exceeded(std::move(waits));
  fit.compile = seldom_exceeded(std::move(compiles));
  fit.megabytes = seldom_exceeded(std::move(sizes));
  for (const CheckpointSample &s : dumps)
    fit.dump_errors.push_back(
        relative_error(fit.model.checkpoint_seconds(s.megabytes, s.waited), s.seconds));
  for (const RestoreSample &s : restores)
    fit.restore_errors.push_back(
        relative_error(fit.model.restore_seconds(s.megabytes, s.compiled), s.seconds));
  return fit;
}

}  // namespace ckpt::tools
