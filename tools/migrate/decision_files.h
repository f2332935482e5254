// SPDX-License-Identifier: Apache-2.0
//
// The files by which the two machines of a migration agree on which of them runs the program.
//
// A migration has a number of 128 random bits, its fencing number: whatever is said about the
// migration names it, so an answer to an earlier attempt can never be taken for one to this
// attempt. Each machine has a folder for it. Each file is written whole, reaches the disk, and is
// written once (tools/job/create_once.h).
//
//   where the program was      given-away   from here on it never goes on here by itself
//                              settled      how that ended: "taken" there, or "taken back" here
//   where it is to go on       decision     "taken": it goes on here. "refused": it never will
//                              running      the PID of its first process, before that goes on
//                              devices      it has its devices
//
// given-away is written only when the other machine has said that the program is loaded, and before
// the program is ended; `go` is sent only after it was ended. So `decision` can say "taken" only if
// no process of the program is left on the first machine. To take the program back, the first
// machine has the second one write "refused" first. Of the two, one gets the file.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

inline constexpr const char *kGivenAwayFile = "given-away";
inline constexpr const char *kSettledFile = "settled";
inline constexpr const char *kDecisionFile = "decision";
inline constexpr const char *kRunningFile = "running";
inline constexpr const char *kDevicesFile = "devices";

// ---- where the program was

// Durable when it returns. `facts` has "host", and what a user wants to know.
Result<> give_away(const std::string &folder, const nlohmann::json &facts);
// What give_away() was told; null: the program was not given away.
Result<nlohmann::json> given_away(const std::string &folder);
enum class Settled { No, Taken, TakenBack };
Result<> settle(const std::string &folder, Settled how);
Result<Settled> settled(const std::string &folder);
// The host to which the program of this image was given away, unless it was taken back: a second
// program must not be started from the image.
std::optional<std::string> owner_elsewhere(const std::string &image);

// ---- where it is to go on

enum class Taking : unsigned char {
  Unknown,  // no such migration
  Open,     // not decided
  Refused,  // it never goes on here
  Starting,
  Running,
  Ended,   // it ran, and has ended
  Failed,  // it was taken, but has ended before it had its devices
};
struct TakingState {
  Taking taking = Taking::Unknown;
  pid_t pid = 0;  // of the program, once it runs
};

// Decides for "taken". The file is locked until it is closed: it shows that the process that has
// taken the program still starts it. Fails if the program was taken back.
Result<UniqueFd> take(const std::string &folder);
// Before the program goes on: if all tools are killed, its first process still says whether it
// runs.
Result<> note_running(const std::string &folder, pid_t pid);
Result<> note_devices(const std::string &folder);
Result<TakingState> taking_state(const std::string &folder);
// Decides for "refused", unless it was decided before. Returns the state that holds.
Result<TakingState> refuse(const std::string &folder);

}  // namespace ckpt::tools
