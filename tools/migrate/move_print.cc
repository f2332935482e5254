// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/move_print.h"

#include "common/base/json_fields.h"
#include "common/base/print.h"
#include "common/base/units.h"

namespace ckpt::tools {
namespace {

constexpr const char *kStepsOfStop[] = {"dump", "send", "load", "end", "start"};

}  // namespace

void print_round(const nlohmann::json &round) {
  double seconds = json_value(round, "send_seconds", 0.0);
  u64 bytes = json_value(round, "sent_bytes", u64{0});
  auto rate = static_cast<u64>(static_cast<double>(bytes) / std::max(seconds, 1e-3));
  print_to(stderr, "round {}  {} sent in {:.3f} s ({}/s), {} {:.3f} s\n",
           json_value(round, "round", 0), human_bytes(bytes), seconds, human_bytes(rate),
           json_value(round, "stopped", false) ? "stopped after" : "pause",
           json_value(round, "pause_seconds", 0.0));
}

nlohmann::json as_json(const MoveReport &r) {
  return {{"migration", r.number},
          {"host", r.host},
          {"program", r.program},
          {"pid", r.pid},
          {"pid_there", r.pid_there},
          {"rounds", r.rounds},
          {"predicted_downtime_seconds", r.predicted_downtime},
          {"downtime_seconds", r.downtime},
          {"stopped_at_seconds", r.stopped_at},
          {"stop_seconds", r.stop},
          {"sent_bytes", r.sent_bytes},
          {"seconds", r.seconds}};
}

void print_report(const MoveReport &r) {
  print("program  {} ({}) goes on at {} as {}\n", r.pid, printable(r.program), printable(r.host),
        r.pid_there);
  print("sent     {} in {} rounds\n", human_bytes(r.sent_bytes), r.rounds.size());
  print("stopped  {:.3f} s (predicted {:.3f} s):", r.downtime, r.predicted_downtime);
  for (const char *step : kStepsOfStop) print(" {} {:.3f}", step, json_value(r.stop, step, 0.0));
  print("\n");
  print("time     {:.3f} s\n", r.seconds);
}

}  // namespace ckpt::tools
