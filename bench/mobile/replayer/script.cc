// SPDX-License-Identifier: Apache-2.0
#include "bench/mobile/replayer/script.h"

#include <cstdlib>
#include <map>
#include <sstream>

namespace ckpt::replay {
namespace {

std::vector<std::string> parts(const std::string &list) {
  std::vector<std::string> all;
  std::istringstream in(list == "-" ? "" : list);
  for (std::string part; std::getline(in, part, ',');) all.push_back(part);
  return all;
}

std::optional<Operation> operation(const std::string &text) {
  static const std::map<char, Operation::On> kinds = {{'k', Operation::On::Kernels},
                                                      {'m', Operation::On::Mapped},
                                                      {'c', Operation::On::Bus},
                                                      {'h', Operation::On::Host}};
  auto kind = kinds.find(text.empty() ? ' ' : text[0]);
  if (kind == kinds.end()) return std::nullopt;
  char *end = nullptr;
  Operation o{kind->second, std::strtod(text.c_str() + 1, &end), 0};
  if (*end == ':') o.bytes = static_cast<u64>(std::strtod(end + 1, &end));
  bool good = *end == '\0' && o.seconds >= 0;
  return good ? std::optional(o) : std::nullopt;
}

bool read_operations(std::istream &in, std::vector<Operation> &all) {
  std::string list;
  if (!(in >> list)) return false;
  for (const std::string &part : parts(list)) {
    std::optional<Operation> o = operation(part);
    if (!o) return false;
    all.push_back(*o);
  }
  return true;
}

bool read_program(std::istream &in, Script &s) {
  std::string allocations;
  in >> s.name >> s.workload >> s.exclusive >> s.variables >> s.ahead >> s.steps >> allocations;
  if (!in || s.ahead == 0) return false;
  for (const std::string &part : parts(allocations))
    s.allocations.push_back(static_cast<u64>(std::strtod(part.c_str(), nullptr)));
  return read_operations(in, s.before) && read_operations(in, s.step) &&
         read_operations(in, s.after);
}

bool read_node(std::istream &in, Hardware &h) {
  double bytes = 0, context = 0;
  in >> h.gpus >> bytes >> context >> h.copy >> h.switch_cost >> h.crowd >> h.mapped;
  h.bytes = static_cast<u64>(bytes);
  h.context = static_cast<u64>(context);
  return static_cast<bool>(in) && h.gpus > 0 && h.copy > 0;
}

bool read_setting(std::istream &in, manager::Settings &s) {
  static const std::map<std::string, manager::Time manager::Settings::*> times = {
      {"starvation-limit", &manager::Settings::starvation_limit},
      {"min-residency", &manager::Settings::min_residency},
      {"progress-interval", &manager::Settings::progress_interval},
      {"pairing-limit", &manager::Settings::pairing_limit},
      {"rebalance-after", &manager::Settings::rebalance_after},
      {"time-slice", &manager::Settings::time_slice}};
  static const std::map<std::string, manager::PlacementMode> modes = {
      {"first-fit", manager::PlacementMode::FirstFit},
      {"interference", manager::PlacementMode::Interference},
      {"demand", manager::PlacementMode::Demand}};
  std::string name, value;
  if (!(in >> name >> value)) return false;
  if (auto t = times.find(name); t != times.end()) {
    s.*t->second = manager::Time(static_cast<i64>(std::atof(value.c_str()) * 1e6));
    return true;
  }
  if (name == "victim" && (value == "cheapest" || value == "requester")) {
    s.victim = value == "cheapest" ? manager::Victim::Cheapest : manager::Victim::Requester;
    return true;
  }
  auto mode = modes.find(value);
  if (name != "placement" || mode == modes.end()) return false;
  s.placement = mode->second;
  return true;
}

}  // namespace

Result<Experiment> read_experiment(std::istream &in) {
  Experiment e;
  std::string line;
  for (int number = 1; std::getline(in, line); number++) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    bool good = what == "node"      ? read_node(words, e.node)
                : what == "set"     ? read_setting(words, e.settings)
                : what == "program" ? read_program(words, e.programs.emplace_back())
                                    : false;
    if (!good) return fail("line {} is invalid: {}", number, line);
  }
  return e;
}

}  // namespace ckpt::replay
