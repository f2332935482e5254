// SPDX-License-Identifier: Apache-2.0
#include "tools/device/environment.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common/base/installation.h"
#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "tools/device/apis.h"
#include "tools/device/remote.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// Puts `value` in front of the variable's present value.
std::string prepended(const std::string &name, const std::string &value) {
  const char *present = std::getenv(name.c_str());
  return present && *present ? value + ":" + present : value;
}

void add_answer(const json &answer, ProgramEnvironment &e) {
  e.software_cuda = e.software_cuda || json_value(answer, "software", false);
  const json &set = json_object(answer, "set"), &front = json_object(answer, "in_front");
  for (auto &[name, value] : set.items())
    if (value.is_string()) e.set.emplace_back(name, value.get<std::string>());
  for (auto &[name, value] : front.items())
    if (value.is_string()) e.put_in_front(name, value.get<std::string>());
  if (std::string auditor = json_string(answer, "audit"); !auditor.empty()) e.auditor = auditor;
  if (std::string toucher = json_string(answer, "touch"); !toucher.empty()) e.toucher = toucher;
}

Result<> ask_executable(const Api &api, const DeviceChoice &choice, ProgramEnvironment &e) {
  std::vector<std::string> command = proxy_command(api.name, choice);
  if (command.empty()) return {};
  command.push_back("--environment");
  CKPT_TRY(CommandResult r, run_command(command, ""));
  json answer = json::parse(r.output, nullptr, false);
  bool sound = r.exit_code == 0 && answer.is_object();
  // If --device names only devices of another API, the program must find no CUDA, as on any machine
  // without a GPU, instead of the software device.
  bool unwanted = sound && json_value(answer, "software", false) && !choice.empty() &&
                  !choice.contains(api.name);
  if (sound && !unwanted)
    add_answer(answer, e);
  else if (!sound)
    log::warn("{} --environment failed with exit code {}, so the program runs without it",
              command.front(), r.exit_code);
  return {};
}

std::string agent_library() {
  constexpr const char *kName = "libckpt.so.1";
  return first_existing(
      {own_folder().parent_path() / "libckpt" / kName, installed_libdir() / kName});
}

}  // namespace

void ProgramEnvironment::put_in_front(const std::string &name, const std::string &value) {
  set.emplace_back(name, prepended(name, value));
  front.emplace_back(name, value);
}

void ProgramEnvironment::put_behind(const std::string &name, const std::string &value) {
  auto present = std::ranges::find(set, name, &std::pair<std::string, std::string>::first);
  const char *inherited = std::getenv(name.c_str());
  std::string others = present != set.end() ? present->second : inherited ? inherited : "";
  std::string all = others.empty() ? value : others + ":" + value;
  if (present != set.end())
    present->second = all;
  else
    set.emplace_back(name, all);
}

Result<ProgramEnvironment> program_environment(const DeviceChoice &choice) {
  ProgramEnvironment e;
  for (const Api &api : kApis) {
    if (!api.variable) {
      CKPT_CHECK(ask_executable(api, choice, e));
    } else if (std::string folder = driver_folder(api); !folder.empty()) {
      e.set.emplace_back(api.variable, folder);
    }
    if (api.removed_variable) e.without.emplace_back(api.removed_variable);
  }
  // For programs that look for the C API at run time: dlopen("libckpt.so.1").
  if (std::string library = agent_library(); !library.empty())
    e.put_behind("LD_LIBRARY_PATH", std::filesystem::path(library).parent_path());
  return e;
}

}  // namespace ckpt::tools
