// SPDX-License-Identifier: Apache-2.0
#include "tools/top/table.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/bytes.h"
#include "common/base/printable.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr int kBarColumns = 30;
constexpr size_t kMaxTextBytes = 200;

u64 number(const json &j, const char *key) {
  auto it = j.find(key);
  return it != j.end() && it->is_number_unsigned() ? it->get<u64>() : 0;
}
i64 signed_number(const json &j, const char *key) {
  auto it = j.find(key);
  return it != j.end() && it->is_number_integer() ? it->get<i64>() : 0;
}
bool flag(const json &j, const char *key) {
  auto it = j.find(key);
  return it != j.end() && it->is_boolean() && it->get<bool>();
}
// ckptd may be another user's, and its answer anything.
json list(const json &j, const char *key) {
  auto it = j.find(key);
  return it != j.end() && it->is_array() ? *it : json::array();
}
std::string text(const json &j, const char *key) {
  auto it = j.find(key);
  return it != j.end() && it->is_string() ? printable(it->get<std::string>(), kMaxTextBytes) : "";
}

// CUDA is the usual case and not marked.
bool of_opencl(const json &j) {
  auto it = j.find("apis");
  return it != j.end() && std::ranges::find(*it, "opencl") != it->end();
}

std::string mib(u64 bytes) { return fmt::format("{} MiB", bytes >> 20); }

// '#' is used, '+' promised and '.' free memory.
std::string bar(u64 total, u64 free, u64 reserved) {
  if (total == 0) return "";
  auto columns = [total](u64 bytes) {
    return static_cast<size_t>(static_cast<double>(bytes) * kBarColumns /
                               static_cast<double>(total));
  };
  size_t used = columns(total - std::min(total, free));
  size_t promised = std::min(columns(std::min(reserved, free)), kBarColumns - used);
  return "[" + std::string(used, '#') + std::string(promised, '+') +
         std::string(kBarColumns - used - promised, '.') + "]";
}

std::string gpu_line(size_t index, const json &g) {
  u64 total = number(g, "total_bytes"), free = number(g, "free_bytes");
  std::string line = fmt::format("GPU {} {} {} of {} free, {} programs", index,
                                 bar(total, free, number(g, "reserved_bytes")), mib(free),
                                 mib(total), number(g, "programs"));
  if (flag(g, "exclusive")) line += ", exclusive";
  if (flag(g, "others")) line += ", others use it too";
  if (of_opencl(g)) line += ", OpenCL";
  return line + "  " + text(g, "name");
}

std::string state_of(const json &p) {
  std::string state = text(p, "state");
  if (!flag(p, "answers")) state += "!";
  if (state == "running" && flag(p, "waits")) state = "waits";
  if (state == "evicted" && flag(p, "kept_on_disk")) state = "on disk";
  return state;
}

std::string gpu_number(const json &status, const std::string &uuid) {
  const json gpus = list(status, "gpus");
  for (size_t i = 0; i < gpus.size(); i++)
    if (!uuid.empty() && text(gpus[i], "uuid") == uuid) return std::to_string(i);
  return "-";
}

std::string program_line(const json &status, const json &p) {
  return fmt::format("{:>8} {:>3} {:<10} {:>4} {:>9} {:>9} {:>9} {:>6}  {}", number(p, "pid"),
                     signed_number(p, "priority"), state_of(p), gpu_number(status, text(p, "gpu")),
                     number(p, "used_bytes") >> 20, number(p, "requested_bytes") >> 20,
                     number(p, "kept_bytes") >> 20, number(p, "evictions"),
                     text(p, "name") + (of_opencl(p) ? " (OpenCL)" : "") +
                         (flag(p, "exclusive") ? " (exclusive)" : "") +
                         (p.contains("cannot_be_suspended") ? " (stays)" : ""));
}

}  // namespace

std::string status_table(const json &status, int width) {
  std::string out;
  auto add = [&](const std::string &line) {
    out += line.substr(0, static_cast<size_t>(std::max(width, 1))) + "\n";
  };
  const json gpus = list(status, "gpus");
  const json programs = list(status, "programs");
  for (size_t i = 0; i < gpus.size(); i++) add(gpu_line(i, gpus[i]));
  add(fmt::format("evicted: {} in host memory, {} on disk", mib(number(status, "host_kept_bytes")),
                  mib(number(status, "disk_kept_bytes"))));
  add("");
  add("     PID PRI STATE       GPU  USED MiB WANTS MiB KEPT MiB EVICT.  PROGRAM");
  for (const json &p : programs) add(program_line(status, p));
  return out;
}

}  // namespace ckpt::tools
