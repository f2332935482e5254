// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dump_report.h"

#include "common/base/print.h"
#include "common/base/printable.h"
#include "common/base/units.h"
#include "storage/format/pipe_format.h"

namespace ckpt::tools {
namespace {

// A program with a full queue of short kernels never exceeds this (docs/OPENCL.md, Queues and
// events).
constexpr double kWorthSaying = 0.2;

// ", of which 2.340 s until devices were idle (cuda 2.330 s)"
std::string waited(const DumpReport &r) {
  constexpr double kLeast = 0.01;
  if (r.quiesce_seconds < kWorthSaying) return {};
  std::string each;
  for (const auto &[name, seconds] : r.waits)
    if (seconds >= kLeast)
      each += fmt::format("{}{} {:.3f} s", each.empty() ? "" : ", ", name, seconds);
  return fmt::format(", of which {:.3f} s until callbacks had returned and devices were idle{}",
                     r.quiesce_seconds, each.empty() ? "" : " (" + each + ")");
}

}  // namespace

nlohmann::json as_json(const DumpReport &r) {
  double ratio = r.stats.stored_bytes ? static_cast<double>(r.stats.raw_bytes) /
                                            static_cast<double>(r.stats.stored_bytes)
                                      : 0;
  return {{"image", r.image},
          {"pid", r.pid},
          {"processes", r.processes},
          {"bytes", r.stats.raw_bytes},
          {"stored_bytes", r.stats.stored_bytes},
          {"ratio", ratio},
          {"parent_bytes", r.stats.parent_bytes},
          {"unchanged_bytes", r.unchanged_bytes},
          {"device_zero_bytes", r.zero_bytes},
          {"carried_files", r.carried_files},
          {"carried_bytes", r.carried_bytes},
          {"device_read_bytes", r.device_bytes - r.unchanged_bytes - r.zero_bytes},
          {"not_looked_at", r.blind},
          {"pause_seconds", r.pause_seconds},
          {"quiesce_seconds", r.quiesce_seconds},
          {"waits", r.waits},
          {"durable_seconds", r.durable_seconds},
          {"seconds", r.seconds},
          {"remarks", r.remarks},
          {"warnings", r.warnings},
          {"phases", r.phases}};
}

FILE *report_file(const std::string &image) {
  return image == storage::kPipeImage ? stderr : stdout;
}

void print_report(const DumpReport &r, bool left_running) {
  constexpr double kMiB = 1 << 20;
  nlohmann::json j = as_json(r);
  FILE *out = report_file(r.image);
  print_to(out, "image    {}\n", printable(r.image));
  print_to(out, "program  {} process{}, {}\n", r.processes, r.processes == 1 ? "" : "es",
           left_running ? "still running" : "stopped; restart it with ckpt-restore");
  print_to(out, "size     {:.1f} MiB, stored in {:.1f} MiB (ratio {:.1f})\n",
           static_cast<double>(r.stats.raw_bytes) / kMiB,
           static_cast<double>(r.stats.stored_bytes) / kMiB, j["ratio"].get<double>());
  if (r.stats.parent_chunks)
    print_to(out, "parents  {:.1f} MiB that they store are used again\n",
             static_cast<double>(r.stats.parent_bytes) / kMiB);
  if (r.carried_files)
    print_to(out, "carried  {} file{} of the program, {}\n", r.carried_files,
             r.carried_files == 1 ? "" : "s", human_bytes(r.carried_bytes));
  if (r.unchanged_bytes)
    print_to(out, "devices  {:.1f} MiB equal the parent's and were not read\n",
             static_cast<double>(r.unchanged_bytes) / kMiB);
  if (r.zero_bytes)
    print_to(out, "zeros    {:.1f} MiB of device memory were not read\n",
             static_cast<double>(r.zero_bytes) / kMiB);
  for (const std::string &why : r.blind)
    print_to(out, "blind    all device memory was read: {}\n", printable(why, kMaxRemarkBytes));
  for (const std::string &remark : r.remarks)
    print_to(out, "remark   {}\n", printable(remark, kMaxRemarkBytes));
  print_to(out, "pause    {:.3f} s{}\ndurable  {:.3f} s\n", r.pause_seconds, waited(r),
           r.durable_seconds);
}

}  // namespace ckpt::tools
