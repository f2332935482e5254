// SPDX-License-Identifier: Apache-2.0
#include "tools/device/device.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/base/text.h"
#include "tools/device/apis.h"
#include "tools/device/remote.h"
#include "tools/proc/command.h"
#include "tools/suggestion.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

bool is_number(const std::string &s) {
  return !s.empty() &&
         std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isdigit(c); });
}

// Whether `digits` are this number, however many they are.
bool says(const std::string &digits, int number) {
  int value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && value == number;
}

Device read_device(const std::string &api, const json &j) {
  Device d;
  d.api = json_string(j, "api", api);
  d.id = json_string(j, "id");
  d.platform = json_string(j, "platform");
  d.name = json_string(j, "name");
  d.uuid = json_string(j, "uuid");
  d.memory_bytes = json_value(j, "memory_bytes", u64{0});
  d.all = j;
  return d;
}

bool matches(const Device &d, const std::string &word, int number_in_api) {
  if (is_number(word)) return says(word, d.index);
  if (!d.uuid.empty() && lower(word) == lower(d.uuid)) return true;
  std::string prefix = d.api + ":";
  if (!lower(word).starts_with(prefix)) return false;
  std::string rest = lower(word.substr(prefix.size()));
  if (rest.empty()) return true;
  if (is_number(rest)) return says(rest, number_in_api);
  // PoCL's platform is "Portable Computing Language"; only the version contains "PoCL".
  auto contains = [&](const std::string &text) {
    return lower(text).find(rest) != std::string::npos;
  };
  return rest == lower(d.id) || contains(d.platform) || contains(d.name) ||
         contains(json_string(d.all, "version"));
}

// Names for devices, of those that matches() finds: cuda:0, ocl:rusticl, ocl:pthread, a UUID.
std::vector<std::string> names_of(const std::vector<Device> &devices) {
  std::vector<std::string> names;
  std::map<std::string, int> count;
  for (const Device &d : devices) {
    names.push_back(fmt::format("{}:{}", d.api, count[d.api]++));
    for (const std::string &text : {d.platform, d.name})
      names.push_back(fmt::format("{}:{}", d.api, lower(text.substr(0, text.find_first_of(" -")))));
    if (!d.uuid.empty()) names.push_back(d.uuid);
  }
  return names;
}

// A device that would be found if the word had its API in front: "rusticl" for "ocl:rusticl".
std::string without_api(const std::vector<Device> &devices, const std::string &word) {
  for (const Device &d : devices)
    if (std::string whole = d.api + ":" + word; matches(d, whole, -1)) return whole;
  return {};
}

Error no_such_device(const std::vector<Device> &devices, const std::string &word) {
  std::string what = fmt::format("there is no device \"{}\"", word);
  std::string whole = without_api(devices, word);
  what += whole.empty() ? did_you_mean(word, names_of(devices))
                        : fmt::format("; did you mean \"{}\"?", whole);
  return {what, "ckpt-run --list-devices lists the devices"};
}

Result<> choose_one(const std::vector<Device> &devices, const std::string &word,
                    DeviceChoice &choice) {
  bool found = false;
  std::map<std::string, int> count;
  for (const Device &d : devices) {
    if (!matches(d, word, count[d.api]++)) continue;
    found = true;
    std::vector<std::string> &ids = choice[d.api];
    if (std::find(ids.begin(), ids.end(), d.id) == ids.end()) ids.push_back(d.id);
  }
  if (found) return {};
  return Failure(devices.empty() ? no_devices() : no_such_device(devices, word));
}

// The API that all words of `spec` begin with ("ocl:1,ocl:pocl"), or "". To load the drivers of the
// others would take half a second.
std::string_view only_api(const std::string &spec) {
  for (const Api &api : kApis) {
    auto names_it = [&](const std::string &word) {
      return lower(word).starts_with(fmt::format("{}:", api.name));
    };
    if (std::ranges::all_of(split_at_commas(spec), names_it)) return api.name;
  }
  return {};
}

DeviceCheck read_check(const json &answer) {
  DeviceCheck check;
  check.reasons = json_strings(json_member(answer, "reasons"));
  check.warnings = json_strings(json_member(answer, "warnings"));
  for (const json &pair : json_list(answer, "map"))
    if (std::vector<std::string> both = json_strings(pair); both.size() == 2)
      check.map.emplace_back(both[0], both[1]);
  return check;
}

// What the devices of one side must offer: those of the program for which it has a place, with
// their numbers there.
json needs_of_side(const json &all, const std::vector<std::string> &ids, bool remote) {
  std::map<u64, u64> numbers;
  for (size_t i = 0; i < ids.size(); i++)
    if (is_remote(DeviceChoice{{"", {ids[i]}}}) == remote) numbers.emplace(i, numbers.size());
  json needs = all, devices = json::array();
  for (json device : json_list(all, "devices")) {
    auto found = numbers.find(json_value(device, "number", u64{0}));
    if (found == numbers.end()) continue;
    device["number"] = found->second;
    devices.push_back(std::move(device));
  }
  needs["devices"] = std::move(devices);
  return needs;
}

DeviceChoice side_of(const std::string &api, const std::vector<std::string> &ids, bool remote) {
  DeviceChoice side;
  for (const std::string &id : ids)
    if (is_remote(DeviceChoice{{"", {id}}}) == remote) side[api].push_back(id);
  return side;
}

// Why the program's devices cannot be of two nodes; empty: they can.
std::string why_not_split(const json &requirements) {
  const json &why = json_member(requirements, "split");
  if (!why.is_string())
    return "only a program that was started on CUDA devices of another node, with this version of "
           "ckpt, can have devices of two nodes";
  std::string text = why.get<std::string>();
  return text.empty() ? text : "its devices cannot be of two nodes: " + text;
}

// Whether an OpenCL program has shared virtual memory
// (libckpt-ocl/client/lifecycle/requirements.h).
bool has_shared_memory(const json &requirements) {
  const json &devices = json_list(requirements, "devices");
  return std::ranges::any_of(devices, [](const json &d) { return !json_list(d, "svm").empty(); });
}

// Each side is asked for its own devices.
Result<DeviceCheck> check_split(const std::string &api, const std::vector<std::string> &ids,
                                const json &requirements, ReadLimits limits) {
  DeviceCheck both;
  if (std::string why = why_not_split(requirements); !why.empty())
    return DeviceCheck{{why}, {}, {}};
  for (bool remote : {false, true}) {
    CKPT_TRY(DeviceCheck one, check_devices(api, side_of(api, ids, remote),
                                            needs_of_side(requirements, ids, remote), limits));
    both.reasons.insert(both.reasons.end(), one.reasons.begin(), one.reasons.end());
    both.warnings.insert(both.warnings.end(), one.warnings.begin(), one.warnings.end());
  }
  for (const json &device : json_list(requirements, "devices"))
    if (json_value(device, "used", false) && json_value(device, "number", u64{0}) >= ids.size())
      both.reasons.push_back(
          fmt::format("there is no CUDA device for \"{}\", device {} of the program",
                      json_string(device, "name"), json_value(device, "number", u64{0})));
  return both;
}

}  // namespace

void add_device(const std::string &api, const json &description, std::vector<Device> &devices) {
  if (!description.is_object()) return;
  devices.push_back(read_device(api, description));
  devices.back().index = static_cast<int>(devices.size()) - 1;
}

Result<std::vector<Device>> list_devices(std::string_view only) {
  std::vector<Device> devices;
  for (const Api &api : kApis) {
    if (!only.empty() && only != api.name) continue;
    std::string proxy = proxy_executable(api);
    if (proxy.empty()) continue;
    CKPT_TRY(CommandResult r, run_command({proxy, "--list"}, ""));
    json list = json::parse(r.output, nullptr, false);
    if (r.exit_code != 0 || !list.is_array()) {
      log::warn("{} --list failed with exit code {}, so its devices are missing", proxy,
                r.exit_code);
      continue;
    }
    for (const json &j : list) add_device(api.name, j, devices);
  }
  return devices;
}

Result<DeviceChoice> choose_devices(const std::string &spec) {
  DeviceChoice choice;
  if (spec.empty()) return choice;
  if (spec.find("remote:") != std::string::npos) return choose_remote_devices(spec);
  CKPT_TRY(std::vector<Device> devices, list_devices(only_api(spec)));
  CKPT_TRY(choice, choose_devices(spec, devices));
  for (const Device &d : devices)
    for (std::string &id : choice[d.api])
      if (std::string source = json_string(d.all, "platform_source"); id == d.id && !source.empty())
        id += "@" + source;
  std::erase_if(choice, [](const auto &api) { return api.second.empty(); });
  return choice;
}

Result<DeviceChoice> choose_devices(const std::string &spec, const std::vector<Device> &devices) {
  DeviceChoice choice;
  std::istringstream words(spec);
  for (std::string word; std::getline(words, word, ',');)
    CKPT_CHECK(choose_one(devices, word, choice));
  return choice;
}

Error no_devices() {
  if (std::string why = why_no_proxy(); !why.empty())
    return {"no device was found, because parts of ckpt are missing: " + why,
            "install ckpt again, or copy the whole tree"};
  return {"no device was found: no OpenCL driver offers one, and CUDA has none",
          "install a driver; clinfo and nvidia-smi show what the drivers find"};
}

std::string device_table(std::vector<Device> devices) {
  // Another node has named them.
  for (Device &d : devices)
    for (std::string *text : {&d.api, &d.platform, &d.name, &d.uuid}) *text = printable(*text);
  size_t api = 3, platform = std::string_view("implementation").size(), name = 4;
  for (const Device &d : devices) {
    api = std::max(api, d.api.size());
    platform = std::max(platform, d.platform.size());
    name = std::max(name, d.name.size());
  }
  std::string out = fmt::format("{:>5}  {:<{}}  {:<{}}  {:<{}}  {:>9}  {}\n", "index", "api", api,
                                "implementation", platform, "name", name, "memory", "uuid");
  for (const Device &d : devices)
    out += fmt::format("{:>5}  {:<{}}  {:<{}}  {:<{}}  {:>5.1f} GiB  {}\n", d.index, d.api, api,
                       d.platform, platform, d.name, name,
                       static_cast<double>(d.memory_bytes) / (1ull << 30), d.uuid);
  return out;
}

json device_json(const std::vector<Device> &devices) {
  json list = json::array();
  for (const Device &d : devices) {
    json j = d.all;
    j["index"] = d.index;
    j["api"] = d.api;
    list.push_back(std::move(j));
  }
  return list;
}

void warn_of_limits(const std::vector<std::string> &warnings) {
  static std::set<std::string> given;
  for (const std::string &w : warnings)
    if (given.insert(w).second) log::warn("{}", w);
}

std::string misdirected(const DeviceChoice &choice, const std::set<std::string> &apis) {
  auto named = [&](const std::string &api) { return choice.contains(api); };
  if (choice.empty() || apis.empty() || std::ranges::any_of(apis, named)) return {};
  return fmt::format("the program uses the API \"{}\", but --device names no device of it",
                     fmt::join(apis, "\", \""));
}

Result<DeviceCheck> check_devices(const std::string &api_name, const DeviceChoice &choice,
                                  const json &requirements, ReadLimits limits) {
  auto chosen = choice.find(api_name);
  if (chosen != choice.end() && is_split({*chosen}))
    return check_split(api_name, chosen->second, requirements, limits);
  if (chosen != choice.end() && is_remote(DeviceChoice{*chosen}) && has_shared_memory(requirements))
    return DeviceCheck{{"the program uses shared virtual memory, which a device of another node "
                        "cannot map (docs/OPENCL.md)"},
                       {},
                       {}};
  std::vector<std::string> command = proxy_command(api_name, choice);
  if (command.empty())
    return DeviceCheck{
        {fmt::format("the program uses the API \"{}\", which this version of ckpt does not support",
                     api_name)},
        {},
        {}};
  command.push_back("--check");
  CKPT_TRY(CommandResult r,
           run_command(command, json{{"needs", requirements},
                                     {"ignore_limits", limits == ReadLimits::Ignore},
                                     {"strict_limits", limits == ReadLimits::Refuse}}
                                    .dump()));
  json answer = json::parse(r.output, nullptr, false);
  DeviceCheck check = read_check(answer);
  if (r.exit_code == 0) check.reasons.clear();
  if (r.exit_code != 0 && check.reasons.empty())
    check.reasons.push_back(
        fmt::format("{} --check failed with exit code {}", command.front(), r.exit_code));
  return check;
}

}  // namespace ckpt::tools
