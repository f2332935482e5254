// SPDX-License-Identifier: Apache-2.0
#include "tools/device/environment.h"

#include <cstdlib>

#include "common/base/log.h"
#include "tools/device/apis.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// What is there already stands behind.
std::string in_front(const std::string &name, const std::string &value) {
  const char *there = std::getenv(name.c_str());
  return there && *there ? value + ":" + there : value;
}

void add_words_of(const json &words, ProgramEnvironment &e) {
  e.software_cuda = e.software_cuda || words.value("software", false);
  const json set = words.value("set", json::object()),
             front = words.value("in_front", json::object());
  for (auto &[name, value] : set.items())
    if (value.is_string()) e.set.emplace_back(name, value.get<std::string>());
  for (auto &[name, value] : front.items())
    if (value.is_string()) e.set.emplace_back(name, in_front(name, value.get<std::string>()));
}

Result<> ask_executable(const Api &api, const DeviceChoice &choice, ProgramEnvironment &e) {
  std::string executable = proxy_executable(api);
  if (executable.empty()) return {};
  std::vector<std::string> command{executable, "--environment"};
  for (std::string &a : device_arguments(api.name, choice)) command.push_back(std::move(a));
  CKPT_TRY(CommandResult r, run_command(command, ""));
  json words = json::parse(r.output, nullptr, false);
  bool sound = r.exit_code == 0 && words.is_object();
  // Where a program that also knows OpenCL is to use that, it would find no CUDA on this machine.
  bool unwanted =
      sound && words.value("software", false) && !choice.empty() && !choice.contains(api.name);
  if (sound && !unwanted)
    add_words_of(words, e);
  else if (!sound)
    log::warn("{} --environment failed with {}", executable, r.exit_code);
  return {};
}

}  // namespace

Result<ProgramEnvironment> program_environment(const DeviceChoice &choice) {
  ProgramEnvironment e;
  for (const Api &api : kApis) {
    if (!api.variable) {
      CKPT_CHECK(ask_executable(api, choice, e));
    } else if (std::string folder = driver_folder(api); !folder.empty()) {
      e.set.emplace_back(api.variable, folder);
    }
    if (api.other_way) e.without.emplace_back(api.other_way);
  }
  return e;
}

}  // namespace ckpt::tools
