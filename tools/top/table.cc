// SPDX-License-Identifier: Apache-2.0
#include "tools/top/table.h"

#include <pwd.h>

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "common/base/bytes.h"
#include "common/base/json_fields.h"
#include "common/base/printable.h"
#include "common/base/units.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// A terminal of 80 columns has room for a short bar beside the numbers.
constexpr int kBarColumns = 30, kShortBarColumns = 12, kWide = 110;
constexpr size_t kMaxTextBytes = 200;

// ckptd may be another user's, and its answer anything.
u64 number(const json &j, const char *key) { return json_value(j, key, u64{0}); }
bool flag(const json &j, const char *key) { return json_value(j, key, false); }
std::string text(const json &j, const char *key) {
  return printable(json_string(j, key), kMaxTextBytes);
}

// CUDA is the usual case and not marked.
bool of_opencl(const json &j) {
  const json &apis = json_list(j, "apis");
  return std::ranges::find(apis, "opencl") != apis.end();
}

// '#' is used, '+' promised and '.' free memory.
std::string bar(u64 total, u64 free, u64 reserved, size_t size) {
  if (total == 0) return "";
  auto columns = [&](u64 bytes) {
    return static_cast<size_t>(static_cast<double>(bytes) * static_cast<double>(size) /
                               static_cast<double>(total));
  };
  size_t used = columns(total - std::min(total, free));
  size_t promised = std::min(columns(std::min(reserved, free)), size - used);
  return "[" + std::string(used, '#') + std::string(promised, '+') +
         std::string(size - used - promised, '.') + "]";
}

std::string gpu_line(size_t index, const json &g, int width) {
  size_t columns = width > 0 && width < kWide ? kShortBarColumns : kBarColumns;
  u64 total = number(g, "total_bytes"), free = number(g, "free_bytes");
  std::string line = fmt::format("GPU {} {} {} of {} free, {} programs", index,
                                 bar(total, free, number(g, "reserved_bytes"), columns),
                                 mebibytes(free), mebibytes(total), number(g, "programs"));
  if (g.contains("utilization"))
    line += fmt::format(", {:.0f} % busy", 100 * json_value(g, "utilization", 0.0));
  if (flag(g, "exclusive")) line += ", exclusive";
  if (flag(g, "others")) line += ", others use it too";
  if (of_opencl(g)) line += ", OpenCL";
  if (g.contains("watts")) line += fmt::format(", {:.0f} W", json_value(g, "watts", 0.0));
  return line + "  " + text(g, "name");
}

// Below the bar of what is used now; no line where nothing is reported.
std::vector<std::string> graph_lines(const UsageGraph &graph, const json &g, int width) {
  using Of = UsageGraph::Of;
  constexpr int kUsualWidth = 80;
  std::vector<std::string> lines;
  for (auto [title, what] : {std::pair("  busy ", Of::Kernels), {"  mem  ", Of::Memory}}) {
    int indent = static_cast<int>(std::string_view(title).size());
    int columns = (width > indent ? width : kUsualWidth) - indent;
    std::string bars = graph.line(json_string(g, "uuid"), what, static_cast<size_t>(columns));
    if (!bars.empty()) lines.push_back(title + bars);
  }
  return lines;
}

std::string state_of(const json &p) {
  std::string state = text(p, "state");
  if (!flag(p, "answers")) state += "!";
  if (state == "running" && flag(p, "waits")) state = "waits";
  if (state == "evicted" && flag(p, "kept_on_disk")) state = "on disk";
  return state;
}

std::string gpu_number(const json &status, const std::string &uuid) {
  const json &gpus = json_list(status, "gpus");
  for (size_t i = 0; i < gpus.size(); i++)
    if (!uuid.empty() && text(gpus[i], "uuid") == uuid) return std::to_string(i);
  return "-";
}

// In brackets: the program has left that GPU, and its context has not.
std::string place_of(const json &status, const json &p) {
  std::string stays_on = text(p, "stays_on");
  if (stays_on.empty() || !text(p, "gpu").empty()) return gpu_number(status, text(p, "gpu"));
  return "(" + gpu_number(status, stays_on) + ")";
}

// The users of a node are asked for by name once each.
std::string user_of(const json &p) {
  static std::map<u64, std::string> names;
  if (!p.contains("uid")) return "-";
  auto [at, is_new] = names.try_emplace(number(p, "uid"));
  if (is_new) {
    const passwd *user = ::getpwuid(static_cast<uid_t>(at->first));
    at->second = user ? user->pw_name : std::to_string(at->first);
  }
  return at->second;
}

constexpr size_t kStateAt = 12;

std::string titles(bool energy) {
  return std::string("    PID PRI STATE      GPU   USED  WANTS   KEPT EVICT   TIME") +
         (energy ? "  ENERGY" : "") + " USER     PROGRAM";
}

// Where GPUs have a counter; 80 columns have no room for it.
bool has_energy(const json &status, int width) {
  if (width > 0 && width < kWide) return false;
  return std::ranges::any_of(json_list(status, "programs"),
                             [](const json &p) { return p.contains("joules"); });
}

std::string energy_text(double joules) {
  constexpr double kKilo = 1e3, kMega = 1e6;
  if (joules < kKilo) return fmt::format("{:.0f} J", joules);
  if (joules < kMega) return fmt::format("{:.1f} kJ", joules / kKilo);
  return fmt::format("{:.1f} MJ", joules / kMega);
}

std::string program_line(const json &status, const json &p, bool energy) {
  return fmt::format(
      "{:>7} {:>3} {:<10} {:>3} {:>6} {:>6} {:>6} {:>5} {:>6}{} {:<8} {}", number(p, "pid"),
      json_value(p, "priority", i64{0}), state_of(p), place_of(status, p),
      number(p, "used_bytes") >> 20, number(p, "requested_bytes") >> 20,
      number(p, "kept_bytes") >> 20, number(p, "evictions"), human_duration(number(p, "seconds")),
      energy ? fmt::format("{:>8}", energy_text(json_value(p, "joules", 0.0))) : "", user_of(p),
      text(p, "name") + (of_opencl(p) ? " (OpenCL)" : "") +
          (flag(p, "exclusive") ? " (exclusive)" : "") +
          (p.contains("cannot_be_suspended") ? " (stays)" : ""));
}

// The largest and the oldest first, numbers and names in their order.
std::vector<json> sorted(const json &programs, const std::string &by) {
  std::vector<json> list(programs.begin(), programs.end());
  auto order = [&](auto key) { std::ranges::stable_sort(list, {}, key); };
  if (by == "pid") order([](const json &p) { return number(p, "pid"); });
  if (by == "user") order(user_of);
  if (by == "time") order([](const json &p) { return ~number(p, "seconds"); });
  if (by == "memory")
    order([](const json &p) { return ~(number(p, "used_bytes") + number(p, "kept_bytes")); });
  return list;
}

// ---- for terminals

// ECMA-48, Select Graphic Rendition.
constexpr const char *kBold = "1", *kRed = "31", *kGreen = "32", *kYellow = "33", *kBlue = "34";

const char *colour_of(const std::string &state) {
  if (state.ends_with('!')) return kRed;
  if (state == "running") return kGreen;
  if (state == "waits" || state == "pending" || state == "unassigned") return kYellow;
  return kBlue;
}

// At most `width` columns of UTF-8 text.
std::string cut(const std::string &line, int width) {
  if (width <= 0) return line;
  size_t at = 0;
  for (int columns = 0; at < line.size(); at++)
    if ((line[at] & 0xC0) != 0x80 && columns++ == width) break;
  return line.substr(0, at);
}

// Paints the `size` bytes from `begin` on, if the line has them.
std::string painted(std::string line, size_t begin, size_t size, const char *colour) {
  if (size == 0 || begin >= line.size()) return line;
  size = std::min(size, line.size() - begin);
  line.insert(begin + size, "\x1b[0m");
  return line.insert(begin, fmt::format("\x1b[{}m", colour));
}

}  // namespace

std::string status_table(const json &status, const TableOptions &o) {
  std::vector<std::string> lines;
  auto add = [&](const std::string &line, size_t at, size_t size, const char *colour) {
    std::string shown = cut(line, o.width);
    lines.push_back(o.colours ? painted(shown, at, size, colour) : shown);
  };
  const json &gpus = json_list(status, "gpus");
  for (size_t i = 0; i < gpus.size(); i++) {
    add(gpu_line(i, gpus[i], o.width), 0, 6, kBold);
    if (!o.graph) continue;
    for (const std::string &line : graph_lines(*o.graph, gpus[i], o.width)) add(line, 0, 0, kBold);
  }
  add(fmt::format("evicted: {} in host memory, {} on disk        # used, + promised, . free",
                  mebibytes(number(status, "host_kept_bytes")),
                  mebibytes(number(status, "disk_kept_bytes"))),
      0, 0, kBold);
  add("", 0, 0, kBold);
  const bool energy = has_energy(status, o.width);
  add(titles(energy), 0, cut(titles(energy), o.width).size(), kBold);
  auto fixed = static_cast<int>(lines.size());
  for (const json &p : sorted(json_list(status, "programs"), o.sort))
    add(program_line(status, p, energy), kStateAt, state_of(p).size(), colour_of(state_of(p)));
  return scrolled(lines, fixed, o.first, o.height);
}

std::string scrolled(const std::vector<std::string> &lines, int fixed, int first, int height) {
  auto all = static_cast<int>(lines.size());
  std::string out;
  auto add = [&](int from, int to) {
    for (int i = from; i < to; i++) out += lines[static_cast<size_t>(i)] + "\n";
  };
  if (height <= 0 || all <= height) return add(0, all), out;
  constexpr int kLeastShown = 2;
  if (height - fixed - 1 < kLeastShown) fixed = 0;  // a node with many GPUs: all lines scroll
  int shown = std::max(1, height - fixed - 1), rest = all - fixed;
  first = std::clamp(first, 0, std::max(0, rest - shown));
  int last = std::min(rest, first + shown);
  add(0, fixed);
  add(fixed + first, fixed + last);
  return out + fmt::format("{} to {} of {}; arrow keys scroll\n", first + 1, last, rest);
}

std::string table_legend() {
  return R"(GPU       # used memory, + memory that is promised to a program which has not
          allocated it yet, . free memory; busy: the share of the last moment in
          which kernels ran, where the driver reports it
PRI       priority; higher goes first
STATE     unassigned, pending (waits for a GPU), running, waits (for memory),
          evicting, evicted (contents in host memory), on disk, resuming,
          suspended (by ckpt-dump); ! it should leave its GPU and does not answer
GPU       (n): an evicted program's context stays there until the room is needed
USED      MiB of device memory that the program uses
WANTS     MiB that it has asked for and waits for
KEPT      MiB of its contents that are kept in host memory or on disk
EVICT     how often it was evicted
TIME      since it has joined ckptd
ENERGY    its share of the GPUs' energy since then, by the time of its kernels;
          only where GPUs have a counter, and from 110 columns on
)";
}

}  // namespace ckpt::tools
