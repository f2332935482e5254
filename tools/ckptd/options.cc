// SPDX-License-Identifier: Apache-2.0
#include "tools/ckptd/options.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>

#include "common/base/log.h"
#include "common/managed/socket.h"

namespace ckpt::tools {
namespace {

constexpr const char *kConfigurationFile = "/etc/ckpt/ckptd.conf";

manager::Time time_of(double seconds) {
  return manager::Time(static_cast<i64>(std::lround(seconds * 1e6)));
}

// Half of the machine's memory, for the contents of evicted programs.
u64 half_of_memory() {
  return static_cast<u64>(::sysconf(_SC_PHYS_PAGES)) * static_cast<u64>(::sysconf(_SC_PAGESIZE)) /
         2;
}

Result<uid_t> uid_of(const std::string &word) {
  uid_t uid = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), uid);
  if (error == std::errc{} && end == word.data() + word.size()) return uid;
  if (const passwd *p = ::getpwnam(word.c_str())) return p->pw_uid;
  return fail_with_hint(fmt::format("there is no user \"{}\"", word),
                        "--users takes own, all, or a comma list of names and numbers");
}

Result<> read_users(const std::string &text, manager::DaemonOptions &d) {
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    if (word == "own") continue;
    if (word == "all") {
      d.all_users = true;
      continue;
    }
    CKPT_TRY(uid_t uid, uid_of(word));
    d.users.push_back(uid);
  }
  return {};
}

Result<> check_disk(const CkptdOptions &o) {
  struct stat st {};
  if (o.disk_folder.empty() && o.disk_memory > 0)
    return fail_with_hint("--disk-memory without --disk-folder", "say where");
  if (o.disk_folder.empty()) return {};
  const char *hint = "--disk-folder takes the absolute path of a folder that is there";
  if (o.disk_folder[0] != '/')
    return fail_with_hint(fmt::format("{} is no absolute path", o.disk_folder), hint);
  if (::stat(o.disk_folder.c_str(), &st) < 0)
    return fail_with_hint(fmt::format("cannot use {}: {}", o.disk_folder, std::strerror(errno)),
                          hint);
  if (!S_ISDIR(st.st_mode))
    return fail_with_hint(fmt::format("{} is no folder", o.disk_folder), hint);
  if (o.users != "own" && (st.st_mode & S_IWOTH) == 0)
    log::warn(
        "{} cannot be written by everybody: contents of programs whose users may not write "
        "there stay on the GPU (chmod 1777 lets all of them)",
        o.disk_folder);
  return {};
}

}  // namespace

void add_ckptd_options(CLI::App &app, CkptdOptions &o) {
  auto bytes = CLI::AsSizeValue(false);
  auto seconds = CLI::Range(0.0, 1e6);
  auto count = CLI::Range(1u, 4096u);
  app.set_config("--config", kConfigurationFile, "a file with any of these options: name = value");
  app.allow_config_extras(CLI::config_extras_mode::error);  // a misspelt limit would be none
  app.add_option("--socket", o.socket, "where programs find it")->envname(managed::kSocketVariable);
  app.add_option("--users", o.users, "who may join: own, all, or a comma list of users (root may)")
      ->envname("CKPTD_USERS");
  app.add_option("--reconnect-timeout", o.reconnect_timeout,
                 "seconds that programs wait for another ckptd when this one is gone, before they "
                 "go on unmanaged")
      ->check(seconds);
  app.add_option("--startup-delay", o.startup_delay,
                 "seconds after the start in which programs of an earlier ckptd may join, and "
                 "nothing is given yet")
      ->check(seconds);
  app.add_option("--programs-per-gpu", o.programs_per_gpu, "that share a GPU")->check(count);
  app.add_option("--contextless-per-gpu", o.contextless_per_gpu,
                 "that are assigned to a GPU and have no context there yet")
      ->check(count);
  app.add_option("--context-memory", o.context_memory,
                 "bytes of a context, until one was measured (64M, say)")
      ->transform(bytes);
  app.add_option("--gpu-memory", o.gpu_memory,
                 "bytes of each GPU that programs share; the rest is left to others; 0: all")
      ->transform(bytes);
  app.add_option(
         "--credit-memory", o.credit_memory,
         "bytes that a program may take without a question while nobody waits and memory is "
         "plentiful (256M); 0: every allocation asks")
      ->transform(bytes);
  app.add_option("--program-memory", o.program_memory, "bytes that one program may have; 0: all")
      ->transform(bytes);
  app.add_option("--host-memory", o.host_memory,
                 "bytes of host memory for the contents of evicted programs; 0: half of it")
      ->transform(bytes);
  app.add_option("--disk-folder", o.disk_folder, "where they go when that is used up");
  app.add_option("--disk-memory", o.disk_memory, "bytes of it")->transform(bytes);
  app.add_option("--victim", o.victim,
                 "who leaves when memory runs short: the requester, or who is cheapest to move")
      ->check(CLI::IsMember({"requester", "cheapest"}));
  app.add_option(
         "--placement", o.placement,
         "who shares a GPU: (mix) of the next ones, who needs what the programs there leave "
         "idle, (any) the next that fits, or (learn) not two that were seen to get less done "
         "together than one after the other")
      ->check(CLI::IsMember({"first-fit", "interference", "demand"}));
  app.add_option("--progress-interval", o.progress_interval,
                 "seconds between programs' words of their progress")
      ->check(CLI::Range(0.001, 1e6));
  app.add_option("--pairing-limit", o.pairing_limit,
                 "seconds after which the eldest waiting program shares with anybody")
      ->check(seconds);
  app.add_option("--starvation-limit", o.starvation_limit,
                 "seconds after which a waiting program goes before all others")
      ->check(seconds);
  app.add_option("--min-residency", o.min_residency,
                 "seconds in which nobody is evicted for another")
      ->check(seconds);
  app.add_option("--eviction-timeout", o.eviction_timeout, "seconds that a program has to leave")
      ->check(seconds);
  app.add_option(
         "--rebalance-after", o.rebalance_after,
         "seconds after which a program that shares a GPU may move to one that nobody uses; "
         "0: never")
      ->check(seconds);
  app.add_option("--time-slice", o.time_slice,
                 "seconds of a turn, for programs that do not fit together; 0: no turns")
      ->check(seconds);
  app.add_option("--metrics", o.metrics, "a port of 127.0.0.1 for Prometheus; 0: none")
      ->check(CLI::Range(0u, 65535u));
  app.add_option("--profiles", o.profiles,
                 "a file in which ckptd keeps what it has learned of kinds of programs")
      ->envname("CKPTD_PROFILES");
  app.add_option("--journal", o.journal, "a file for each message, as a line of JSON");
  app.add_option(
      "--nvml", o.nvml,
      "NVML's library, or another that answers like it; none: no CUDA device is managed");
  app.add_option("--opencl-devices", o.opencl_devices,
                 "OpenCL devices that are managed: gpus (the default), all, none, or a comma list "
                 "of ocl:N, ocl:NAME and UUIDs, each perhaps with =SIZE, what programs may have "
                 "of its memory");
}

Result<manager::DaemonOptions> daemon_options(const CkptdOptions &o) {
  CKPT_CHECK(check_disk(o));
  manager::DaemonOptions d;
  CKPT_CHECK(read_users(o.users, d));
  d.socket = !o.socket.empty()  ? o.socket
             : ::geteuid() == 0 ? managed::kNodeSocket
                                : managed::own_socket();
  d.reconnect_timeout = std::chrono::milliseconds(std::lround(o.reconnect_timeout * 1e3));
  d.metrics_port = static_cast<u16>(o.metrics);
  d.profiles_file = o.profiles;
  d.journal = o.journal;
  manager::Settings &s = d.settings;
  s.programs_per_gpu = o.programs_per_gpu;
  s.contextless_per_gpu = o.contextless_per_gpu;
  s.context_bytes = o.context_memory;
  s.credit_bytes = o.credit_memory;
  s.program_bytes = o.program_memory;
  s.host_bytes = o.host_memory != 0 ? o.host_memory : half_of_memory();
  s.disk_folder = o.disk_folder;
  s.disk_bytes = o.disk_memory;
  s.victim = o.victim == "cheapest" ? manager::Victim::Cheapest : manager::Victim::Requester;
  s.placement = o.placement == "first-fit"      ? manager::PlacementMode::FirstFit
                : o.placement == "interference" ? manager::PlacementMode::Interference
                                                : manager::PlacementMode::Demand;
  s.progress_interval = time_of(o.progress_interval);
  s.pairing_limit = time_of(o.pairing_limit);
  s.starvation_limit = time_of(o.starvation_limit);
  s.min_residency = time_of(o.min_residency);
  s.eviction_timeout = time_of(o.eviction_timeout);
  s.time_slice = time_of(o.time_slice);
  s.rebalance_after = time_of(o.rebalance_after);
  s.startup_delay = time_of(o.startup_delay);
  return d;
}

}  // namespace ckpt::tools
