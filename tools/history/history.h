// SPDX-License-Identifier: Apache-2.0
//
// The history of dumps and restores: one JSON object on a line for each, appended by ckpt-dump and
// ckpt-restore, read by ckpt-history. docs/man/ckpt-history.1.scd lists the fields.
//
// It informs users and cost models (schedule/cost). If it cannot be written, the line is left out,
// and the dump or restore does not fail.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// How often the batch job's program was started before (tools/session/series.h); set by the keeper.
constexpr const char *kRestartCount = "CKPT_RESTART_COUNT";

// $CKPT_HISTORY; else /var/lib/ckpt/history.jsonl for root, and for others
// $XDG_STATE_HOME/ckpt/history.jsonl (~/.local/state/ckpt/history.jsonl). "": there is none.
std::string history_file();

// A file of lines that is open. A file of kMaxBytes becomes FILE.1, which replaces the one before.
class HistoryFile {
 public:
  // history_file(), of the user of this moment: root's tools become processes of other users, which
  // could not open it.
  HistoryFile();
  // Adds the time, the host, its load, the user and the batch job to `event`, and appends it. One
  // write, so that events of several tools do not mix.
  void append(nlohmann::json event) const;

 private:
  uid_t user_;
  UniqueFd file_;  // closed: there is none
};

// The event of a line; none if the line is not a JSON object, or is longer than any of ours.
std::optional<nlohmann::json> event_in(const std::string &line);

// The events of FILE.1 and FILE, oldest first. A line that is not a JSON object is left out: it may
// have been truncated by a full disk.
std::vector<nlohmann::json> read_history(const std::string &path);

// For a user who reads it: the file with this name, which must be there, or this user's own. Warns
// of lines that are left out.
Result<std::vector<nlohmann::json>> history_of(const std::string &named);

std::string host_name();

// Users may have written the lines by hand: what times are taken for, and one of an event's.
double bounded_seconds(double seconds);
double seconds_in(const nlohmann::json &event, const char *name);
// When an event ended, in the local time zone: 2026-11-29 01:23:45.
std::string local_time_of(const nlohmann::json &event);

// [{"name", "start", "seconds"}…] of a tool as {name: seconds}, and as {name: start}.
nlohmann::json phase_seconds(const nlohmann::json &phases);
nlohmann::json phase_starts(const nlohmann::json &phases);

}  // namespace ckpt::tools
