// SPDX-License-Identifier: Apache-2.0
#include "tools/devd/proxies.h"

#include <fcntl.h>

#include "tools/device/apis.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

Result<std::vector<std::string>> command(const std::vector<std::string> &arguments) {
  std::vector<std::string> all{proxy_executable(*find_api("ocl"))};
  if (all.front().empty())
    return fail_with_hint("ckpt-ocl-proxy was not found on the server's node",
                          "the installation of ckpt there is incomplete; install it again");
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

Result<remote::ProxyStarter::Answer> ask(const std::vector<std::string> &arguments,
                                         const std::string &input) {
  CKPT_TRY(std::vector<std::string> argv, command(arguments));
  CKPT_TRY(CommandResult r, run_command(argv, input));
  return remote::ProxyStarter::Answer{r.exit_code, std::move(r.output)};
}

Result<pid_t> start(const std::vector<std::string> &arguments, int client, int control, int output,
                    int errors) {
  CKPT_TRY(std::vector<std::string> argv, command(arguments));
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

}  // namespace

remote::ProxyStarter proxy_starter() { return {ask, start}; }

}  // namespace ckpt::tools
