// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/options.h"

#include <charconv>

namespace ckpt::tools {
namespace {

constexpr const char *kConfigurationFile = "/etc/ckpt/ckpt-idled.conf";

idle::Time microseconds(double seconds) { return idle::Time(static_cast<i64>(seconds * 1e6)); }

// "18:00"
std::optional<int> minute_in(std::string_view text) {
  int hour = 0, minute = 0;
  const char *end = text.data() + text.size();
  auto [colon, bad_hour] = std::from_chars(text.data(), end, hour);
  if (bad_hour != std::errc() || colon == end || *colon != ':') return {};
  auto [rest, bad_minute] = std::from_chars(colon + 1, end, minute);
  bool whole = bad_minute == std::errc() && rest == end;
  if (!whole || hour < 0 || hour > 23 || minute < 0 || minute > 59) return {};
  return hour * 60 + minute;
}

Result<std::optional<idle::Hours>> hours_in(std::string_view text) {
  if (text.empty()) return std::optional<idle::Hours>();
  size_t dash = std::min(text.find('-'), text.size());
  std::optional<int> begin = minute_in(text.substr(0, dash));
  std::optional<int> end = minute_in(text.substr(std::min(dash + 1, text.size())));
  if (!begin || !end || *begin == *end)
    return fail_with_hint(fmt::format("--hours cannot be \"{}\"", text),
                          "write two different times of the day, such as 18:00-08:00");
  return std::optional(idle::Hours{*begin, *end});
}

void add_rule_options(CommandLine &line, IdledOptions &o) {
  line.option("--cpu=PERCENT", o.cpu,
              "busy if the owner's programs use at least this share of the processors")
      .range(0.1, 100.0);
  line.size_option("--device-bytes=SIZE", o.device_memory,
                   "busy if they hold at least this much more device memory than after boot");
  line.option("--quiet=SECONDS", o.quiet, "idle after this time without a reason to be busy")
      .range(0.0, 86400.0);
  line.option("--input=SECONDS", o.input,
              "busy for this time after a key or the mouse was used; 0: they are not watched")
      .range(0, 86400);
  line.flag("--battery", o.battery, "busy on battery");
  line.option("--celsius=DEGREES", o.celsius,
              "busy if a thermal zone has at least this temperature; 0: they are not watched")
      .range(0, 200);
  line.option("--hours=FROM-TO", o.hours,
              "busy outside of these hours of the day, such as 18:00-08:00")
      .default_is("all day");
}

void add_sensor_options(CommandLine &line, IdledOptions &o) {
  line.option("--guests=ACCOUNTS", o.guests, "accounts of guests, separated by commas");
  line.option("--guests-cgroup=CGROUP", o.guests_cgroup,
              "a cgroup with guests only, such as system.slice/slurmstepd.scope");
  line.option("--device-memory", o.memory_source, "the source of the device memory in use")
      .one_of({"auto", "nvml", "ckptd", "none"});
  line.option("--nvml=FILE", o.nvml, "a library to use instead of libnvidia-ml.so.1");
  line.option("--manager=PATH", o.manager, "the socket of ckptd")
      .environment(managed::kSocketVariable);
  line.option("--interval=SECONDS", o.interval, "the time between two samples").range(0.05, 60.0);
  line.option("--samples=FILE", o.samples,
              "take samples from the last line of this file, which another program writes, and "
              "not from this machine");
  line.option("--record=FILE", o.record, "append all samples to this file, for --replay");
}

void add_command_options(CommandLine &line, IdledOptions &o) {
  Option off = line.flag("--off", o.off, "allow no guests on this machine, and exit");
  line.flag("--on", o.on, "withdraw one's own --off, and exit").excludes(off);
  line.flag("--status", o.status, "print whether the machine is idle, and why, and exit");
  line.option("--replay=LOG", o.replay, "print the decisions for a log of samples, and exit");
  line.flag("--json", o.json, "with --replay: as JSON; otherwise --status as JSON");
  line.flag("--withdraw", o.withdraw,
            "with --slurm: take the machine away from guests, whether it is idle or not, and exit");
}

}  // namespace

void add_idled_options(CommandLine &line, IdledOptions &o) {
  line.configuration_file("--config=FILE", kConfigurationFile,
                          "a file with any of these options, as lines of the form name = value");
  add_rule_options(line, o);
  add_sensor_options(line, o);
  line.option("--slurm=NODE", o.slurm,
              "tell Slurm: while the machine is busy, a job holds this node");
  line.option("--partition=NAME", o.partition,
              "with --slurm: a partition that preempts those of guests");
  line.option("--folder=FOLDER", o.folder, "the folder of the status and the off switch")
      .default_is("/run/ckpt-idled, /var/lib/ckpt-idled");
  add_command_options(line, o);
}

Result<IdledSettings> idled_settings(const IdledOptions &o) {
  IdledSettings s;
  s.idle.cpu = o.cpu / 100;
  s.idle.device_bytes = o.device_memory;
  s.idle.quiet = microseconds(o.quiet);
  if (o.input > 0) s.idle.input = microseconds(o.input);
  s.idle.battery = o.battery;
  if (o.celsius > 0) s.idle.celsius = o.celsius;
  CKPT_TRY(s.idle.hours, hours_in(o.hours));
  s.interval = microseconds(o.interval);
  if (!o.slurm.empty()) s.slurm = OwnerJobOptions{o.slurm, o.partition};
  s.record = o.record;
  if (o.withdraw && o.slurm.empty())
    return fail_with_hint("--withdraw needs --slurm", "name the machine's node in Slurm");
  return s;
}

}  // namespace ckpt::tools
