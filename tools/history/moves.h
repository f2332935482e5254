// SPDX-License-Identifier: Apache-2.0
//
// Suspends, resumes and moves between devices, as lines of the history; what earlier ones took.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"
#include "schedule/cost/move_forecast.h"

namespace ckpt::tools {

struct MoveLine {
  pid_t pid = 0;
  std::string program;
  std::set<std::string> apis;
  std::string from, to;  // places (tools/device/remote.h); "": no device
  u64 device_bytes = 0;
  // The seconds in which the program left its devices, and got new ones; no value: it did not.
  std::optional<double> leave, enter;
  double seconds = 0;  // of the whole command
};

// As "suspend", "resume" or "move", by what it did.
nlohmann::json as_event(const MoveLine &line);
// A failure has the PID only: the program may be another user's.
nlohmann::json failed_move(const char *event, pid_t pid, const std::string &why);

// Of the newest moves of this host between these places.
struct EarlierMoves {
  std::vector<schedule::MovedBytes> leave, enter;
};
EarlierMoves earlier_moves(const std::vector<nlohmann::json> &events, const std::string &from,
                           const std::string &to, const std::string &host);

}  // namespace ckpt::tools
