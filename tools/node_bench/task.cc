// SPDX-License-Identifier: Apache-2.0
#include "tools/node_bench/task.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common/base/log.h"
#include "common/ipc/copy_counts.h"
#include "common/ipc/shared_memory.h"
#include "common/proc/file.h"
#include "tools/device/apis.h"
#include "tools/node_bench/cachegrind.h"
#include "tools/node_bench/measured_run.h"
#include "tools/node_bench/miss_counter.h"

namespace ckpt::tools {
namespace {

// A copy of pageable memory goes through a page-locked one: a processor reads each line of the one
// and writes it to the other. HC counts the device's own access too, three in all, since PAPI
// counted at the memory; a processor's cache misses do not contain it.
constexpr double kMissesOfCopies = 2;

// Six digits are more than a run repeats.
double rounded(double value) { return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr); }

double gigabytes(u64 bytes) { return rounded(static_cast<double>(bytes) / 1e9); }

Result<std::string> name_of(const TaskOptions &o) {
  std::string name =
      o.name.empty() ? std::filesystem::path(o.program[0]).filename().string() : o.name;
  if (!name.empty() && std::none_of(name.begin(), name.end(), [](unsigned char c) {
        return c == ',' || c == '"' || c < ' ';
      }))
    return name;
  return fail_with_hint(fmt::format("\"{}\" cannot be a task's name", name),
                        "--name=NAME, without commas, quotes and line breaks");
}

Result<std::string> choose_counter(const TaskOptions &o) {
  if (o.memory_gb) return std::string("given");
  Result<MissCounter> perf = MissCounter::start();
  if (perf && o.counter != "cachegrind") return std::string("perf");
  if (o.counter == "perf")
    return fail_with_hint(perf.error().what, "--counter=cachegrind, or --memory-gb=GB");
  Result<> valgrind = find_cachegrind();
  if (valgrind) return std::string("cachegrind");
  return fail_with_hint(
      fmt::format("cache misses cannot be counted: {}{}", perf ? "" : perf.error().what + ", and ",
                  valgrind.error().what),
      "install valgrind, or give the figure with --memory-gb=GB");
}

// The counts that a run under ckpt-run fills.
class Counts {
 public:
  static Result<Counts> make() {
    Counts c;
    CKPT_TRY(c.memory_, make_memfd("ckpt-copies", sizeof(CopyCounts)));
    CopyCounts zero;
    if (::pwrite(c.memory_.get(), &zero, sizeof zero, 0) != sizeof zero)
      return fail_errno("cannot write the counts of copies");
    c.path_ = proc::fd_path(::getpid(), c.memory_.get());
    c.counts_ = map_copy_counts(c.path_.c_str());
    if (!c.counts_) return fail("the copies of the program cannot be counted");
    return c;
  }
  const std::string &path() const { return path_; }
  const CopyCounts &operator*() const { return *counts_; }

 private:
  UniqueFd memory_;
  std::string path_;
  const CopyCounts *counts_ = nullptr;  // mapped until this process ends
};

std::vector<std::string> under_ckpt_run(const TaskOptions &o) {
  std::vector<std::string> command = {sibling_tool("ckpt-run")};
  if (!o.device.empty()) command.push_back("--device=" + o.device);
  command.emplace_back("--");
  command.insert(command.end(), o.program.begin(), o.program.end());
  return command;
}

Result<> run_once(const TaskOptions &o, MeasuredTask &m) {
  CKPT_TRY(Counts counts, Counts::make());
  std::optional<MissCounter> misses;
  if (m.counter == "perf") {
    CKPT_TRY(misses, MissCounter::start());
  }
  CKPT_TRY(double seconds, measured_run({.argv = under_ckpt_run(o),
                                         .environment = {{CopyCounts::kVariable, counts.path()}},
                                         .out = STDERR_FILENO}));
  m.task.seconds = rounded(seconds);
  m.task.host_to_device_gb = gigabytes((*counts).to_device);
  m.task.device_to_host_gb = gigabytes((*counts).to_host);
  m.task.uses_gpu = m.task.host_to_device_gb > 0 || m.task.device_to_host_gb > 0;
  if (!misses) return {};
  CKPT_TRY(u64 missed, misses->misses());
  m.missed_gb = gigabytes(missed * kCacheLine);
  return {};
}

Result<> simulate(const TaskOptions &o, MeasuredTask &m) {
  log::info("running {} again in cachegrind, which takes 20 to 100 times as long", m.task.name);
  CKPT_TRY(u64 missed, simulated_misses(o.program, o.cache_bytes));
  m.missed_gb = gigabytes(missed * kCacheLine);
  return {};
}

}  // namespace

double memory_without_copies(double missed_gb, double copied_gb) {
  return rounded(std::max(0.0, missed_gb - kMissesOfCopies * copied_gb));
}

Result<MeasuredTask> measure_task(const TaskOptions &o) {
  MeasuredTask m;
  CKPT_TRY(m.task.name, name_of(o));
  CKPT_TRY(m.counter, choose_counter(o));
  log::info("running {} under ckpt-run", m.task.name);
  CKPT_CHECK(run_once(o, m));
  if (m.counter == "cachegrind") CKPT_CHECK(simulate(o, m));
  m.task.memory_gb =
      o.memory_gb
          ? *o.memory_gb
          : memory_without_copies(m.missed_gb, m.task.host_to_device_gb + m.task.device_to_host_gb);
  return m;
}

}  // namespace ckpt::tools
