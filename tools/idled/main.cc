// SPDX-License-Identifier: Apache-2.0
//
// ckpt-idled: says whether this machine is idle, so that guests may use it.
#include <signal.h>
#include <time.h>

#include "common/base/print.h"
#include "idle/sample_log.h"
#include "tools/idled/options.h"
#include "tools/json_text.h"
#include "tools/stop_request.h"
#include "tools/text_file.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

double seconds(idle::Time t) { return static_cast<double>(t.count()) / 1e6; }

Result<std::unique_ptr<Sensors>> open_sensors(const IdledOptions &o) {
  if (!o.samples.empty()) return std::make_unique<FileSensors>(o.samples);
  Guests guests;
  CKPT_CHECK(guests.add_users(o.guests));
  if (!o.guests_cgroup.empty()) CKPT_CHECK(guests.add_cgroup(o.guests_cgroup));
  CKPT_TRY(std::unique_ptr<DeviceMemory> memory,
           find_device_memory(o.memory_source, o.nvml, o.manager));
  std::optional<InputDevices> input;
  if (o.input > 0) {
    CKPT_TRY(input, InputDevices::open());
  }
  return std::make_unique<MachineSensors>(std::move(guests), std::move(memory),
                                          BootMemory(o.run_folder() + "/device-memory-at-boot"),
                                          std::move(input));
}

Result<int> watch(const IdledOptions &o, IdledSettings settings) {
  CKPT_TRY(StatusFile status, StatusFile::create(o.run_folder()));
  OffSwitch off(o.off_folder());
  CKPT_CHECK(off.create());
  CKPT_TRY(std::unique_ptr<Sensors> sensors, open_sensors(o));
  IdleDaemon daemon(std::move(settings), std::move(sensors), std::move(off), std::move(status));
  catch_stop_signals();
  CKPT_CHECK(daemon.run(stop_requested));
  return 0;
}

Result<int> print_status(const IdledOptions &o) {
  CKPT_TRY(json status, read_status(o.run_folder()));
  print_text((o.json ? json_text(status, 2) : status_line(status, ::time(nullptr))) + "\n");
  return 0;
}

Result<int> print_replay(const IdledOptions &o, const idle::Settings &settings) {
  CKPT_TRY(std::string text, contents_of(o.replay));
  Result<std::vector<idle::Sample>> log = idle::parse_log(text);
  if (!log) return Failure(std::move(log).error().in(o.replay));
  idle::Replay r = idle::replay(*log, settings);
  json transitions = json::array();
  for (const idle::Transition &t : r.transitions) {
    if (!o.json) print("{:.3f} {}: {}\n", seconds(t.at), t.idle ? "idle" : "busy", t.text);
    transitions.push_back({{"at", seconds(t.at)}, {"idle", t.idle}, {"reason", name_of(t.reason)}});
  }
  json j = {{"begin", seconds(r.begin)},
            {"end", seconds(r.end)},
            {"idle_seconds", seconds(r.idle)},
            {"transitions", transitions}};
  if (o.json)
    print("{}\n", json_text(j));
  else
    print("idle for {:.3f} s of {:.3f}\n", seconds(r.idle), seconds(r.end - r.begin));
  return 0;
}

Result<int> switch_off(const OffSwitch &off) {
  CKPT_CHECK(off.off());
  print("guests may not use this machine until you run ckpt-idled --on\n");
  return 0;
}

Result<int> switch_on(const OffSwitch &off) {
  CKPT_TRY(std::vector<std::string> left, off.on());
  if (left.empty())
    print("guests may use this machine when it is idle\n");
  else
    print("guests may not use this machine: still switched off by {}\n",
          fmt::format("{}", fmt::join(left, ", ")));
  return 0;
}

Result<int> run(const IdledOptions &o) {
  Result<IdledSettings> settings = idled_settings(o);
  if (!settings) return fail_with_code(kWrongUsage, settings.error());
  if (o.off) return switch_off(OffSwitch(o.off_folder()));
  if (o.on) return switch_on(OffSwitch(o.off_folder()));
  if (!o.replay.empty()) return print_replay(o, settings->idle);
  if (o.status || o.json) return print_status(o);
  if (!o.withdraw) return watch(o, std::move(*settings));
  CKPT_CHECK(OwnerJob(*settings->slurm).set(true, "ckpt-idled is not running"));
  return 0;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  IdledOptions o;
  CommandLine line(
      "ckpt-idled",
      "Watches whether this machine is idle, so that guests may use it: busy at once when the "
      "owner's programs use the processors or device memory, idle after a quiet time. It logs each "
      "change with its reason, and tells Slurm with --slurm.\n"
      "Exit code 0: ended by a signal, or success; 1: failure; 125: the arguments, or the "
      "configuration file, are wrong.");
  add_idled_options(line, o);
  return run_tool(line, argc, argv, 1, [&] { return run(o); });
}
