// SPDX-License-Identifier: Apache-2.0
#include "tools/devd/proxies.h"

#include <fcntl.h>

#include "common/base/json_fields.h"
#include "common/base/json_text.h"
#include "tools/device/apis.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

Failure not_found(const std::string &executable) {
  return fail_with_hint(executable + " was not found on the server's node",
                        "the installation of ckpt there is incomplete; install it again");
}

Result<std::vector<std::string>> command(const std::string &api,
                                         const std::vector<std::string> &arguments) {
  std::vector<std::string> all{proxy_executable(*find_api(api))};
  if (all.front().empty()) return not_found("ckpt-" + api + "-proxy");
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

Result<remote::ProxyStarter::Answer> ask(const std::string &api,
                                         const std::vector<std::string> &arguments,
                                         const std::string &input) {
  // A node that has devices of one API only has none of the other one.
  bool none = proxy_executable(*find_api(api)).empty() && why_no_proxy().empty();
  if (none && arguments.front() == "--list") return remote::ProxyStarter::Answer{0, "[]"};
  CKPT_TRY(std::vector<std::string> argv, command(api, arguments));
  CKPT_TRY(CommandResult r, run_command(argv, input));
  return remote::ProxyStarter::Answer{r.exit_code, std::move(r.output)};
}

Result<pid_t> start(const std::vector<std::string> &arguments, int client, int control, int output,
                    int errors) {
  CKPT_TRY(std::vector<std::string> argv, command("ocl", arguments));
  argv.insert(argv.begin() + 2, std::to_string(client));  // the value of --serve
  argv.insert(argv.end(), {"--control", std::to_string(control)});
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return spawn({.argv = std::move(argv),
                .in = null.get(),
                .out = output,
                .err = errors,
                .keep = {client, control},
                .die_with_us = true});
}

// ckpt-cuda-proxy says where the driver is, and which variables it needs.
Result<pid_t> start_cuda(const std::string &devices, int connection, int daemon) {
  std::string server = cuda_server_executable();
  if (server.empty()) return not_found("ckpt-cuda-server");
  std::vector<std::string> question{"--environment"};
  if (!devices.empty()) question.insert(question.end(), {"--device", devices});
  CKPT_TRY(remote::ProxyStarter::Answer answer, ask("cuda", question, ""));
  nlohmann::json environment = parse_json(answer.output);
  const nlohmann::json &set = json_object(environment, "set");
  if (answer.exit_code != 0 || set.empty())
    return fail_with_hint("the server's node has no CUDA driver",
                          "ckpt-run --list-devices --host HOST lists its devices");
  Spawn spec{
      .argv = {server, "--serve", std::to_string(connection), "--account", std::to_string(daemon)},
      .keep = {connection, daemon},
      .die_with_us = true};
  for (auto &[name, value] : set.items())
    if (value.is_string()) spec.environment.emplace_back(name, value.get<std::string>());
  return spawn(spec);
}

}  // namespace

remote::ProxyStarter proxy_starter() { return {ask, start, start_cuda}; }

}  // namespace ckpt::tools
