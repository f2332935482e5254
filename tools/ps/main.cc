// SPDX-License-Identifier: Apache-2.0
//
// ckpt-ps: lists the programs that run under ckpt-run or ckpt-restore, with or without a Manager.
#include <time.h>

#include "common/base/print.h"
#include "common/base/units.h"
#include "tools/command_line.h"
#include "tools/error_json.h"
#include "tools/image/text.h"
#include "tools/json_text.h"
#include "tools/session/programs.h"
#include "tools/table.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr int kFailed = 1;

struct Options {
  std::string user;
  bool json = false;
};

std::string last_image(const RunningProgram &p) {
  if (p.last_image.empty()) return "-";
  double age = std::max(0.0, static_cast<double>(::time(nullptr) - p.last_image_time));
  // A long path is cut at its end.
  return fmt::format("{} ago: {}", human_duration(static_cast<u64>(age)), printable(p.last_image));
}

// What a suspended program has not given back is worth a word.
std::string state_of(const RunningProgram &p) {
  return p.depth == "memory" ? p.state + " (memory)" : p.state;
}

std::string text_of(const std::vector<RunningProgram> &programs) {
  if (programs.empty()) return "no program runs under ckpt-run or ckpt-restore\n";
  Table table({"PID", "USER", "TIME", "STATE", "MEMORY", "DEVICES", "LAST IMAGE", "PROGRAM"});
  for (const RunningProgram &p : programs)
    table.row({std::to_string(p.root ? p.root : p.keeper), printable(p.user),
               human_duration(static_cast<u64>(p.seconds)), state_of(p),
               human_bytes(p.resident_bytes),
               printable(p.devices.empty() ? "-" : fmt::format("{}", fmt::join(p.devices, ", "))),
               last_image(p), printable(p.command)});
  return table.text();
}

json json_of(const std::vector<RunningProgram> &programs) {
  json list = json::array();
  for (const RunningProgram &p : programs)
    list.push_back({{"pid", p.root},
                    {"keeper", p.keeper},
                    {"uid", p.uid},
                    {"user", p.user},
                    {"state", p.state},
                    {"depth", p.depth.empty() ? json() : json(p.depth)},
                    {"seconds", p.seconds},
                    {"processes", p.processes},
                    {"resident_bytes", p.resident_bytes},
                    {"devices", p.devices},
                    {"last_image", p.last_image.empty() ? json() : json(p.last_image)},
                    {"last_image_time", p.last_image.empty() ? json() : json(p.last_image_time)},
                    {"program", p.command}});
  return list;
}

Result<int> run(const Options &o) {
  CKPT_TRY(std::optional<uid_t> uid, selected_user(o.user));
  std::vector<RunningProgram> programs = running_programs(uid);
  if (o.json)
    print_text(json_text(json_of(programs), 2) + "\n");
  else
    print_text(text_of(programs));
  return 0;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  Options o;
  CommandLine line("ckpt-ps",
                   "Lists the programs that run under ckpt-run or ckpt-restore: a user's own, or "
                   "all if root asks.");
  line.option("--user=NAME", o.user, "only the programs of this user");
  line.flag("--json", o.json, "print a JSON array");
  return run_tool_with_json(line, argc, argv, kFailed, o.json, [&] { return run(o); });
}
