// SPDX-License-Identifier: Apache-2.0
//
// ckpt-ocl-proxy: the process that holds the real OpenCL drivers. ckpt-run and ckpt-restore start
// it; it is not meant to be started by hand.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "libckpt-ocl/proxy/check/check.h"
#include "libckpt-ocl/proxy/device/drivers.h"
#include "libckpt-ocl/proxy/device/slice_test.h"
#include "libckpt-ocl/proxy/serve/server.h"

namespace ckpt::ocl {
namespace {

int list_devices() {
  nlohmann::json all = nlohmann::json::array();
  for (const RealPlatform &p : real_platforms())
    for (const RealDevice &d : p.devices) all.push_back(describe(p, d));
  std::cout << all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  return 0;
}

ReadLimits read_limits(const nlohmann::json &input) {
  if (json_value(input, "ignore_limits", false)) return ReadLimits::Ignore;
  return json_value(input, "strict_limits", false) ? ReadLimits::Refuse : ReadLimits::Warn;
}

int check(const std::string &devices) {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  nlohmann::json input = nlohmann::json::parse(text, nullptr, false);
  nlohmann::json requirements = input.is_object() ? json_member(input, "needs") : input;
  CheckAnswer answer;
  if (!requirements.is_object())
    answer.reasons.push_back(
        "the image has no requirements for an OpenCL device; it may be damaged");
  else
    answer = check_requirements(requirements, {devices, read_limits(input)});
  nlohmann::json out = {{"reasons", answer.reasons}, {"warnings", answer.warnings}};
  std::cout << out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  return answer.reasons.empty() ? 0 : 1;
}

Result<> serve(int client, int control, ServeOptions options) {
  CKPT_TRY(Channel channel, Channel::make());
  // Never destroyed: the driver may call back until the process ends.
  auto *server = new Server(std::move(channel), UniqueFd(control), std::move(options));
  return server->run(UniqueFd(client));
}

int serve_or_fail(int client, int control, const ServeOptions &options) {
  Result<> r = guarded([&] { return serve(client, control, options); });
  if (!r) log::error(r.error());
  return r ? 0 : 1;
}

// A driver that was there when the devices were listed may be gone. Then all others are loaded, as
// for devices that are named in other ways.
int start_again_with_all_drivers(char **argv) {
  std::vector<char *> words;
  for (char **word = argv; *word; word++) {
    bool driver = std::string_view(*word) == "--driver";
    if (!driver) words.push_back(*word);
    if (driver && word[1]) word++;
  }
  words.push_back(nullptr);
  ::execv("/proc/self/exe", words.data());
  log::error("cannot start {} again: {}", argv[0], std::strerror(errno));
  return 1;
}

int run(int argc, char **argv) {
  CLI::App app{"holds the OpenCL drivers for a program under ckpt-run"};
  app.set_version_flag("--version", CKPT_VERSION);
  bool list = false, check_devices = false;
  int client = -1, control = -1;
  ServeOptions options;
  app.add_flag("--list", list, "print the devices as JSON");
  app.add_flag("--check", check_devices,
               "read an image's requirements, print the reasons against the devices");
  app.add_option("--serve", client, "serve the application at this descriptor");
  app.add_option("--control", control, "the keeper's descriptor");
  app.add_option("--token", options.token, "the keeper's name for this proxy");
  app.add_option("--device", options.devices, "keys of the devices to show, as --list prints them");
  std::vector<std::string> drivers;
  app.add_option("--driver", drivers, "where the platform of a device comes from: load no others");
  app.add_flag("--portable", options.portable, "advertise only what all devices have");
  CLI11_PARSE(app, argc, argv);
  bool all = drivers.empty() || options.portable || options.devices.empty();
  if (!all && !load_only(drivers)) return start_again_with_all_drivers(argv);
  if (list) return list_devices();
  if (check_devices) return check(options.devices);
  if (client >= 0 && control >= 0) return serve_or_fail(client, control, options);
  std::cerr << app.help();
  return 2;
}

}  // namespace
}  // namespace ckpt::ocl

int main(int argc, char **argv) {
  ckpt::log::set_name("ckpt-ocl-proxy");
  ckpt::survive_file_size_limit();
  ckpt::ocl::prepare_slice_test();
  int code = ckpt::ocl::run(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  // Skips the drivers' exit handlers: threads of rusticl (Mesa 22.3.6) have been seen to hang
  // there.
  _exit(code);
}
