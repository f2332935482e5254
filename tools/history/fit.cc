// SPDX-License-Identifier: Apache-2.0
#include "tools/history/fit.h"

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

std::string word(const json &event, const char *name) {
  auto at = event.find(name);
  return at != event.end() && at->is_string() ? at->get<std::string>() : "";
}

std::string devices_of(const json &event) {
  std::string list;
  auto at = event.find("devices");
  if (at != event.end() && at->is_array())
    for (const json &api : *at)
      if (api.is_string()) list += (list.empty() ? "" : ",") + api.get<std::string>();
  return list.empty() ? "none" : list;
}

bool counts(const json &event, const FitOptions &o) {
  return word(event, "result") == "ok" && (o.devices.empty() || devices_of(event) == o.devices) &&
         (o.storage.empty() || word(event, "storage") == o.storage);
}

}  // namespace

HistoryFit fit_history(const std::vector<json> &events, const FitOptions &o) {
  std::vector<CheckpointSample> dumps;
  std::vector<RestoreSample> restores;
  for (const json &e : events) {
    std::optional<double> bytes = number(e, "bytes"), seconds = number(e, "seconds");
    if (!counts(e, o) || !bytes || !seconds || *seconds <= 0) continue;
    double megabytes = *bytes / kBytesPerMegabyte;
    if (word(e, "event") == "dump")
      dumps.push_back({megabytes, *seconds, number(e, "waited_seconds").value_or(0)});
    else if (word(e, "event") == "restore")
      restores.push_back({megabytes, *seconds, number(e, "compile_seconds").value_or(0)});
  }
  HistoryFit fit{fit_costs(dumps, restores), dumps.size(), restores.size(), {}, {}};
  for (const CheckpointSample &s : dumps)
    fit.dump_errors.push_back(
        relative_error(fit.model.checkpoint_seconds(s.megabytes, s.waited), s.seconds));
  for (const RestoreSample &s : restores)
    fit.restore_errors.push_back(
        relative_error(fit.model.restore_seconds(s.megabytes, s.compiled), s.seconds));
  return fit;
}

}  // namespace ckpt::tools
