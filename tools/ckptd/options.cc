// SPDX-License-Identifier: Apache-2.0
#include "tools/ckptd/options.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "common/base/log.h"
#include "common/base/named_user.h"
#include "common/base/text.h"
#include "common/managed/socket.h"
#include "tools/node_file.h"

namespace ckpt::tools {
namespace {

constexpr const char *kConfigurationFile = "/etc/ckpt/ckptd.conf";

manager::Time time_of(double seconds) {
  return manager::Time(static_cast<i64>(std::lround(seconds * 1e6)));
}

u64 half_of_memory() {
  return static_cast<u64>(::sysconf(_SC_PHYS_PAGES)) * static_cast<u64>(::sysconf(_SC_PAGESIZE)) /
         2;
}

Result<uid_t> uid_of(const std::string &word) {
  if (std::optional<uid_t> uid = named_user(word)) return *uid;
  return fail_with_hint(fmt::format("there is no user \"{}\"", word),
                        "--users takes own, all, or user names and numbers separated by commas");
}

Result<> read_users(const std::string &text, manager::DaemonOptions &d) {
  for (const std::string &word : split_at_commas(text)) {
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
    return fail_with_hint("--disk-memory needs --disk-folder",
                          "name the folder for the contents of evicted programs");
  if (o.disk_folder.empty()) return {};
  const char *hint = "--disk-folder takes the absolute path of an existing folder";
  if (o.disk_folder[0] != '/')
    return fail_with_hint(fmt::format("{} is not an absolute path", o.disk_folder), hint);
  if (::stat(o.disk_folder.c_str(), &st) < 0)
    return fail_with_hint(fmt::format("cannot use {}: {}", o.disk_folder, std::strerror(errno)),
                          hint);
  if (!S_ISDIR(st.st_mode))
    return fail_with_hint(fmt::format("{} is not a folder", o.disk_folder), hint);
  if (o.users != "own" && (st.st_mode & S_IWOTH) == 0)
    log::warn(
        "{} is not writable by all users: programs of users without write permission keep their "
        "contents on the GPU (chmod 1777 admits all of them)",
        o.disk_folder);
  return {};
}

// ---- the options, by what they are about

constexpr double kMaxSeconds = 1e6;

void add_time(CommandLine &line, const char *name, double &value, const char *help) {
  line.option(name + std::string("=SECONDS"), value, help).range(0.0, kMaxSeconds);
}

void add_bytes(CommandLine &line, const char *name, u64 &value, const char *help) {
  line.size_option(name + std::string("=SIZE"), value, help);
}

void add_count(CommandLine &line, const char *name, unsigned &value, const char *help) {
  line.option(name + std::string("=N"), value, help).range(1, 4096);
}

void add_connection_options(CommandLine &line, CkptdOptions &o) {
  line.option("--socket=PATH", o.socket, "the socket on which ckptd listens")
      .environment(managed::kSocketVariable);
  line.option("--users=LIST", o.users,
              "the users who may run managed programs besides root: own, all, or a list "
              "separated by commas")
      .environment("CKPTD_USERS");
  add_time(line, "--reconnect-timeout", o.reconnect_timeout,
           "seconds that programs wait for another ckptd when this one has ended, before they "
           "continue unmanaged");
  add_time(line, "--startup-delay", o.startup_delay,
           "seconds after the start in which nothing is granted, so that programs of an earlier "
           "ckptd can join");
}

void add_memory_options(CommandLine &line, CkptdOptions &o) {
  add_count(line, "--programs-per-gpu", o.programs_per_gpu, "programs that share a GPU");
  add_count(line, "--contextless-per-gpu", o.contextless_per_gpu,
            "programs that are assigned to a GPU and have no context there yet");
  add_bytes(line, "--context-memory", o.context_memory,
            "the assumed size of a context, until one was measured");
  add_bytes(line, "--gpu-memory", o.gpu_memory,
            "the memory of each GPU that managed programs share; 0: all of it");
  add_bytes(line, "--credit-memory", o.credit_memory,
            "the memory that a program may allocate without asking first, while no program waits "
            "and memory is plentiful; 0: every allocation asks");
  add_bytes(line, "--program-memory", o.program_memory,
            "the memory that one program may use; 0: no limit");
  add_bytes(line, "--host-memory", o.host_memory,
            "host memory for the contents of evicted programs; 0: half of the machine's memory");
  line.option("--disk-folder=FOLDER", o.disk_folder,
              "a folder for the contents of evicted programs when host memory is full");
  add_bytes(line, "--disk-memory", o.disk_memory, "the disk space that may be used there");
}

void add_decision_options(CommandLine &line, CkptdOptions &o) {
  line.option("--victim", o.victim,
              "the program that is evicted when memory runs short: the requester, or the "
              "cheapest to move")
      .one_of({"requester", "cheapest"});
  line.option("--placement", o.placement,
              "which waiting program joins the programs on a GPU: the one that demands what "
              "they leave idle (demand), the next that fits (first-fit), or the next that was "
              "not observed to lose beside them (interference)")
      .one_of({"demand", "first-fit", "interference"});
  line.option("--node=FILE", o.node,
              "with --placement=demand: judge copies by the contention model with this node's "
              "bandwidths, the output of ckpt-node-bench")
      .default_is("ckptd's own model");
  line.option("--progress-interval=SECONDS", o.progress_interval,
              "seconds between the progress reports of a program")
      .range(0.001, kMaxSeconds);
  add_time(line, "--pairing-limit", o.pairing_limit,
           "seconds after which the starving program shares a GPU with any program");
  add_time(line, "--starvation-limit", o.starvation_limit,
           "seconds after which a waiting program goes before all others");
  add_time(line, "--min-residency", o.min_residency,
           "seconds on a GPU in which a program is not evicted for another");
  add_time(line, "--eviction-timeout", o.eviction_timeout,
           "seconds that a program has to leave its GPU");
  add_time(line, "--rebalance-after", o.rebalance_after,
           "seconds after which a program that shares a GPU may move to an idle one; 0: never");
  add_time(line, "--time-slice", o.time_slice,
           "the length in seconds of a turn of programs that do not fit together; 0: no turns");
}

void add_file_options(CommandLine &line, CkptdOptions &o) {
  line.option(
          "--metrics=ADDRESS", o.metrics,
          "where Prometheus gets metrics: a port of 127.0.0.1, IPV4:PORT or [IPV6]:PORT; 0: none")
      .refuse_unless([](const std::string &text) -> std::string {
        if (text == "0") return {};
        Result<manager::MetricsAddress> address = manager::MetricsAddress::parse(text);
        return address ? "" : address.error().text();
      });
  line.option("--profiles=FILE", o.profiles,
              "a file that keeps the profiles of workloads from one ckptd to the next")
      .environment("CKPTD_PROFILES");
  line.option("--journal=FILE", o.journal, "a file to which each message is appended as JSON");
  line.option("--nvml=FILE", o.nvml,
              "NVML's library, or one with the same functions; none: no CUDA device is managed");
  line.option("--opencl-devices=LIST", o.opencl_devices,
              "the OpenCL devices that are managed: gpus, all, none, or a list "
              "of ocl:N, ocl:NAME and UUIDs separated by commas, each with an optional =SIZE, "
              "the memory that programs may use there");
}

manager::PlacementMode placement_of(const std::string &word) {
  if (word == "first-fit") return manager::PlacementMode::FirstFit;
  if (word == "interference") return manager::PlacementMode::Interference;
  return manager::PlacementMode::Demand;
}

manager::Settings settings_of(const CkptdOptions &o) {
  manager::Settings s;
  s.programs_per_gpu = o.programs_per_gpu;
  s.contextless_per_gpu = o.contextless_per_gpu;
  s.context_bytes = o.context_memory;
  s.credit_bytes = o.credit_memory;
  s.program_bytes = o.program_memory;
  s.host_bytes = o.host_memory != 0 ? o.host_memory : half_of_memory();
  s.disk_folder = o.disk_folder;
  s.disk_bytes = o.disk_memory;
  s.victim = o.victim == "cheapest" ? manager::Victim::Cheapest : manager::Victim::Requester;
  s.placement = placement_of(o.placement);
  s.progress_interval = time_of(o.progress_interval);
  s.pairing_limit = time_of(o.pairing_limit);
  s.starvation_limit = time_of(o.starvation_limit);
  s.min_residency = time_of(o.min_residency);
  s.eviction_timeout = time_of(o.eviction_timeout);
  s.time_slice = time_of(o.time_slice);
  s.rebalance_after = time_of(o.rebalance_after);
  s.startup_delay = time_of(o.startup_delay);
  return s;
}

}  // namespace

void add_ckptd_options(CommandLine &line, CkptdOptions &o) {
  line.configuration_file("--config=FILE", kConfigurationFile,
                          "a file with any of these options, as lines of the form name = value");
  add_connection_options(line, o);
  add_memory_options(line, o);
  add_decision_options(line, o);
  add_file_options(line, o);
}

Result<manager::DaemonOptions> daemon_options(const CkptdOptions &o) {
  CKPT_CHECK(check_disk(o));
  manager::DaemonOptions d;
  CKPT_CHECK(read_users(o.users, d));
  d.socket = !o.socket.empty()  ? o.socket
             : ::geteuid() == 0 ? managed::kNodeSocket
                                : managed::own_socket();
  d.reconnect_timeout = std::chrono::milliseconds(std::lround(o.reconnect_timeout * 1e3));
  if (o.metrics != "0") {
    CKPT_TRY(d.metrics, manager::MetricsAddress::parse(o.metrics));
  }
  d.profiles_file = o.profiles;
  d.journal = o.journal;
  d.settings = settings_of(o);
  if (!o.node.empty()) {
    Result<schedule::Bandwidths> links = read_bandwidths(o.node);
    if (!links) return Failure(std::move(links).error().in("--node"));
    d.settings.links = *links;
  }
  return d;
}

}  // namespace ckpt::tools
