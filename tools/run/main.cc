// SPDX-License-Identifier: Apache-2.0
//
// ckpt-run: runs a program so that it can be checkpointed. For everybody else it is the program:
// same terminal, same process group, same streams, same way to end.
#include <unistd.h>

#include <iostream>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/base/log.h"
#include "common/base/program.h"
#include "fatbin/static_runtime.h"
#include "tools/device/environment.h"
#include "tools/proc/command.h"
#include "tools/proc/process.h"
#include "tools/run/managed.h"
#include "tools/session/farewell.h"
#include "tools/session/keeper.h"
#include "tools/session/periodic.h"

namespace ckpt::tools {
namespace {

constexpr int kOwnFailure = 125;  // as env, nohup and timeout do
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

struct Options {
  std::string device;
  bool portable = false;
  bool managed_on_host = false;
  bool list_devices = false;
  bool json = false;
  PeriodicOptions periodic;
  ManagedOptions managed;
  std::vector<std::string> program;
};

int print_devices(bool as_json) {
  Result<std::vector<Device>> devices = list_devices();
  if (!devices) return log::error(devices.error()), kOwnFailure;
  std::cout << (as_json ? device_json(*devices).dump(2) + "\n" : device_table(*devices));
  return 0;
}

void in_child() {
  if (session_is_outside()) ::setsid();
  KeeperSignals::restore_dispositions();
}

Result<pid_t> start_program(const Options &options, const ProgramEnvironment &environment,
                            const Keeper &keeper, int *error) {
  Spawn spec{
      .argv = options.program, .environment = environment.set, .without = environment.without};
  if (options.managed_on_host) spec.environment.emplace_back("CKPT_CUDA_MANAGED_ON_HOST", "1");
  spec.environment.emplace_back(protocol::kSessionVariable, keeper.socket_path());
  spec.signal_mask = &keeper.signals().original_mask();
  spec.in_child = in_child;
  return spawn(spec, error);
}

int run(const Options &options) {
  // Which devices may it use?
  Result<DeviceChoice> devices = choose_devices(options.device);
  if (!devices) return log::error(devices.error()), kOwnFailure;
  Result<ProgramEnvironment> environment = program_environment(*devices);
  if (!environment) return log::error(environment.error()), kOwnFailure;
  if (Result<> r = add_manager(options.managed, !options.device.empty(), *environment); !r)
    return log::error(r.error()), kOwnFailure;
  if (environment->software_cuda)
    if (Result<> r = fatbin::refuse_static_runtime(find_program(options.program[0])); !r)
      return log::error(r.error()), kCannotExecute;
  // The keeper's socket must stand before the program can ask for it.
  Result<std::unique_ptr<Keeper>> keeper = Keeper::create({*devices, options.portable});
  if (!keeper) return log::error(keeper.error()), kOwnFailure;
  Result<std::unique_ptr<Periodic>> periodic = Periodic::start(**keeper, options.periodic);
  if (!periodic) return log::error(periodic.error()), kOwnFailure;
  // The program, with our drivers in front of the real ones.
  int why = 0;
  Result<pid_t> program = start_program(options, *environment, **keeper, &why);
  if (!program) return log::error(program.error()), why == ENOENT ? kNotFound : kCannotExecute;
  let_go_of_streams();
  (*keeper)->program_started(*program, session_is_outside(), true);
  (*keeper)->program_is_whole();
  // Serve it until it ends, then end as it did.
  Keeper::Outcome outcome = (*keeper)->run();
  keeper->reset();
  if (!outcome.image) end_like(outcome.wait_status);
  say_checkpointed("ckpt-run", *outcome.image);
  return kCheckpointedExitCode;
}

// The program starts at the first word that is neither an option of ours nor the value of one;
// what follows is the program's own, whatever it looks like.
std::vector<std::string> program_of(const CLI::App &app, int argc, char **argv) {
  int at = 1;
  for (; at < argc; at++) {
    std::string_view word = argv[at];
    if (word == "--") {
      at++;
      break;
    }
    if (!word.starts_with('-')) break;
    const CLI::Option *option = app.get_option_no_throw(std::string(word));
    if (option && option->get_items_expected_min() > 0) at++;
  }
  return {argv + std::min(at, argc), argv + argc};
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt;
  using namespace ckpt::tools;
  log::set_name("ckpt-run");
  Options o;
  CLI::App app{
      "ckpt-run [OPTIONS] [--] PROGRAM [ARGUMENTS…]: runs a program so that ckpt-dump can "
      "checkpoint it.\n"
      "Returns the program's exit code, or dies by the signal that killed it; 85 when the "
      "program was checkpointed and stopped, 125 when ckpt-run itself fails, 126 or 127 "
      "when the program cannot be executed or is not found."};
  app.add_option("--device", o.device,
                 "devices for the program: index, cuda:N, ocl:N, ocl:NAME or UUID; a comma list");
  app.add_flag("--portable", o.portable, "advertise only what every device offers");
  app.add_flag("--managed-on-host", o.managed_on_host,
               "CUDA's managed memory is memory of the host, which can be checkpointed");
  app.add_flag("--list-devices", o.list_devices, "print the devices and exit");
  app.add_flag("--json", o.json, "with --list-devices: as JSON");
  add_periodic_options(app, o.periodic);
  add_managed_options(app, o.managed);
  app.set_version_flag("--version", CKPT_VERSION);
  o.program = program_of(app, argc, argv);
  try {
    app.parse(argc - static_cast<int>(o.program.size()), argv);
  } catch (const CLI::ParseError &e) {
    int code = app.exit(e);
    return code == 0 ? 0 : kOwnFailure;
  }
  if (o.list_devices) return print_devices(o.json);
  if (o.program.empty()) {
    std::cerr << app.help();
    return kOwnFailure;
  }
  return run(o);
}
