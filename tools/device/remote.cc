// SPDX-License-Identifier: Apache-2.0
#include "tools/device/remote.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "common/base/json_fields.h"
#include "common/base/json_text.h"
#include "common/base/text.h"
#include "tools/device/apis.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// As ckpt-remote-proxy reports why it has no answer.
Failure remote_failure(const json &answer) {
  const json &error = json_member(answer, "error");
  if (!error.is_object()) return fail("ckpt-remote-proxy failed without a reason");
  return fail_with_hint(json_string(error, "what"), json_string(error, "hint"));
}

Error several_nodes() {
  return {"a program's devices are all on one node",
          "give --device names of this node, or names that begin with the same remote:HOST/"};
}

Result<RemoteName> same_node(const std::vector<std::string> &words) {
  std::optional<RemoteName> first = parse_remote(words.front());
  for (const std::string &word : words) {
    std::optional<RemoteName> name = parse_remote(word);
    if (!first || !name || name->host != first->host) return Failure(several_nodes());
  }
  return *first;
}

// The API of all these names; empty: of several, or of one that they do not tell.
std::string_view only_api(const std::vector<std::string> &words) {
  std::string_view only;
  for (const std::string &word : words) {
    std::string device = parse_remote(word)->device;
    const Api *api = device.empty() ? &kApis[0] : find_api(device.substr(0, device.find(':')));
    if (!api || (!only.empty() && only != api->name)) return {};
    only = api->name;
  }
  return only;
}

// Of each ID "1.0@SOURCE": "1:SOURCE", for the proxy's --driver; the ID becomes "1.0". Without a
// source for all of them, the proxy must load all drivers.
std::set<std::string> take_sources(std::vector<std::string> &ids) {
  std::set<std::string> sources;
  bool all = true;
  for (std::string &id : ids) {
    size_t end = id.find('@'), dot = id.find('.');
    all = all && end != id.npos && dot < end;
    if (end == id.npos) continue;
    sources.insert(id.substr(0, dot) + ":" + id.substr(end + 1));
    id.resize(end);
  }
  return all ? sources : std::set<std::string>();
}

bool is_remote_id(const std::string &id) { return id.starts_with(kRemotePrefix); }

Error more_than_two_nodes() {
  return {"devices of two nodes are CUDA devices of this node and of one other",
          "docs/REMOTE.md says how the devices of a program move one by one"};
}

// Of this node and of another one, in the order of the words, which is that of the program's
// devices.
Result<DeviceChoice> choose_split_devices(const std::vector<std::string> &words) {
  DeviceChoice choice;
  std::string host;
  for (const std::string &word : words) {
    std::optional<RemoteName> name = parse_remote(word);
    if (name && !host.empty() && name->host != host) return Failure(more_than_two_nodes());
    if (name) host = name->host;
    CKPT_TRY(DeviceChoice one, choose_devices(word));
    for (auto &[api, ids] : one)
      for (std::string &id : ids) {
        if (api != "cuda") return Failure(several_nodes());
        if (std::ranges::find(choice[api], id) == choice[api].end())
          choice[api].push_back(std::move(id));
      }
  }
  return choice;
}

}  // namespace

// The host may be a path, so its end is the last slash.
std::optional<RemoteName> parse_remote(const std::string &name) {
  if (!name.starts_with(kRemotePrefix)) return {};
  std::string rest = name.substr(kRemotePrefix.size());
  bool path = rest.starts_with('/');
  size_t end = rest.rfind('/');
  // "remote:/run/ckpt-devd.sock" names a socket, and no device on it.
  bool no_device = path && rest.find(':', end) == std::string::npos;
  if (end == std::string::npos || no_device) return RemoteName{rest, ""};
  return RemoteName{rest.substr(0, end), rest.substr(end + 1)};
}

Result<std::vector<Device>> list_remote_devices(const std::string &host, std::string_view only) {
  std::string proxy = remote_proxy_executable();
  if (proxy.empty())
    return fail_with_hint("ckpt-remote-proxy was not found",
                          "the installation of ckpt is incomplete; install it again");
  std::vector<Device> devices;
  for (const Api &api : kApis) {
    if (!only.empty() && api.name != only) continue;
    CKPT_TRY(CommandResult r,
             run_command({proxy, "--host", host, "--list", "--api", api.name}, ""));
    json list = parse_json(r.output);
    if (r.exit_code != 0 || !list.is_array()) return remote_failure(list);
    for (const json &j : list) add_device(api.name, j, devices);
  }
  return devices;
}

Result<DeviceChoice> choose_remote_devices(const std::string &spec) {
  std::vector<std::string> words = split_at_commas(spec);
  auto is_name = [](const std::string &word) { return parse_remote(word).has_value(); };
  if (!std::ranges::all_of(words, is_name)) return choose_split_devices(words);
  CKPT_TRY(RemoteName node, same_node(words));
  CKPT_TRY(std::vector<Device> devices, list_remote_devices(node.host, only_api(words)));
  std::string names;
  for (const std::string &word : words) {
    std::string device = parse_remote(word)->device;
    names += (names.empty() ? "" : ",") + (device.empty() ? "ocl:" : device);
  }
  Result<DeviceChoice> choice = choose_devices(names, devices);
  if (!choice)
    return fail_with_hint(fmt::format("{}: {}", node.host, choice.error().what),
                          "ckpt-run --list-devices --host " + node.host + " lists its devices");
  for (auto &[api, ids] : *choice)
    for (std::string &id : ids) id = fmt::format("{}{}/{}", kRemotePrefix, node.host, id);
  return choice;
}

bool is_remote(const DeviceChoice &choice) {
  return std::ranges::any_of(
      choice, [](const auto &api) { return std::ranges::any_of(api.second, is_remote_id); });
}

bool is_split(const DeviceChoice &choice) {
  return is_remote(choice) && std::ranges::any_of(choice, [](const auto &api) {
           return !std::ranges::all_of(api.second, is_remote_id);
         });
}

std::string place_of(const DeviceChoice &choice) {
  for (const auto &[api, ids] : choice)
    for (const std::string &id : ids)
      if (is_remote_id(id)) return id.substr(0, id.rfind('/'));
  return std::string(kHere);
}

std::string text_of_place(const std::string &place) {
  if (place == kHere) return "this node";
  return place.starts_with(kRemotePrefix) ? place.substr(kRemotePrefix.size()) : "its devices";
}

Error not_split_at_start() {
  Error e = several_nodes();
  return {e.what + " when it starts",
          e.hint + "; ckpt-restore --resume moves single devices later"};
}

std::vector<std::string> proxy_command(const std::string &api_name, const DeviceChoice &choice) {
  const Api *api = find_api(api_name);
  std::vector<std::string> ids;
  if (auto found = choice.find(api_name); found != choice.end()) ids = found->second;
  std::string host;
  for (std::string &id : ids)
    if (id.starts_with(kRemotePrefix)) {
      size_t end = id.rfind('/');
      host = id.substr(kRemotePrefix.size(), end - kRemotePrefix.size());
      id = id.substr(end + 1);
    }
  std::string executable = !api           ? ""
                           : host.empty() ? proxy_executable(*api)
                                          : remote_proxy_executable();
  if (executable.empty()) return {};
  std::vector<std::string> command{executable};
  if (!host.empty()) command.insert(command.end(), {"--host", host, "--api", api_name});
  std::set<std::string> drivers = take_sources(ids);
  if (!ids.empty())
    command.insert(command.end(), {"--device", fmt::format("{}", fmt::join(ids, ","))});
  for (const std::string &driver : drivers) command.insert(command.end(), {"--driver", driver});
  return command;
}

}  // namespace ckpt::tools
