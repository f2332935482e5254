// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/decision_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/json_fields.h"
#include "storage/format/pipe_format.h"
#include "tools/job/create_once.h"
#include "tools/job/decision.h"
#include "tools/json_text.h"
#include "tools/proc/process.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr const char *kTaken = "taken";
constexpr const char *kTakenBack = "taken back";
constexpr const char *kRefused = "refused";

std::string in(const std::string &folder, const char *name) { return folder + "/" + name; }

json with_result(const char *result) { return {{"result", result}}; }

bool exists(const std::string &folder) {
  struct stat st {};
  return ::stat(folder.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

// Held by the process that starts the program.
bool is_locked(const std::string &path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return file && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool lives(pid_t pid, u64 start_ticks) {
  if (pid <= 0) return false;
  Result<Process> p = read_process(pid);
  return p && p->start_ticks == start_ticks && p->state != 'Z' && p->state != 'X';
}

// Of a process that is starting the program, first: then the files are as it has left them.
Result<TakingState> state_of_taken(const std::string &folder) {
  bool starting = is_locked(in(folder, kDecisionFile));
  CKPT_TRY(json running, read_decision(in(folder, kRunningFile)));
  CKPT_TRY(json devices, read_decision(in(folder, kDevicesFile)));
  pid_t pid = json_value(running, "pid", pid_t{0});
  bool runs = lives(pid, json_value(running, "start_ticks", u64{0}));
  if (devices.is_null() && starting) return TakingState{Taking::Starting, pid};
  if (runs) return TakingState{Taking::Running, pid};
  return TakingState{devices.is_null() ? Taking::Failed : Taking::Ended, pid};
}

}  // namespace

Result<> give_away(const std::string &folder, const json &facts) {
  CKPT_TRY(bool first, create_once(in(folder, kGivenAwayFile), view(json_text(facts, 1) + "\n")));
  if (first) return {};
  return fail("{} exists already", in(folder, kGivenAwayFile));
}

Result<json> given_away(const std::string &folder) {
  return read_decision(in(folder, kGivenAwayFile));
}

Result<> settle(const std::string &folder, Settled how) {
  const char *wanted = how == Settled::Taken ? kTaken : kTakenBack;
  CKPT_TRY(json holds, decide(in(folder, kSettledFile), with_result(wanted)));
  if (json_string(holds, "result") == wanted) return {};
  return fail("it was decided before that the program is {}", json_string(holds, "result"));
}

Result<Settled> settled(const std::string &folder) {
  CKPT_TRY(json holds, read_decision(in(folder, kSettledFile)));
  if (holds.is_null()) return Settled::No;
  return json_string(holds, "result") == kTaken ? Settled::Taken : Settled::TakenBack;
}

std::optional<std::string> owner_elsewhere(const std::string &image) {
  if (image == storage::kPipeImage) return std::nullopt;
  std::string path = std::filesystem::absolute(image).lexically_normal();
  if (path.ends_with('/')) path.pop_back();
  std::string folder = std::filesystem::path(path).parent_path();
  Result<json> given = given_away(folder);
  if (!given || !given->is_object()) return std::nullopt;
  Result<Settled> end = settled(folder);
  if (end && *end == Settled::TakenBack) return std::nullopt;
  return json_string(*given, "host", "another machine");
}

Result<UniqueFd> take(const std::string &folder) {
  UniqueFd kept;
  CKPT_TRY(bool first, create_once(in(folder, kDecisionFile),
                                   view(json_text(with_result(kTaken), 1) + "\n"), &kept));
  if (first) return kept;
  return fail("the program was taken back meanwhile: it does not go on here");
}

Result<> note_running(const std::string &folder, pid_t pid) {
  Result<Process> p = read_process(pid);
  json facts{{"pid", pid}, {"start_ticks", p ? p->start_ticks : 0}};
  return decide(in(folder, kRunningFile), facts).transform([](auto &&) {});
}

Result<> note_devices(const std::string &folder) {
  return decide(in(folder, kDevicesFile), with_result("back")).transform([](auto &&) {});
}

Result<TakingState> taking_state(const std::string &folder) {
  if (!exists(folder)) return TakingState{};
  CKPT_TRY(json decision, read_decision(in(folder, kDecisionFile)));
  if (decision.is_null()) return TakingState{Taking::Open};
  if (json_string(decision, "result") != kTaken) return TakingState{Taking::Refused};
  return state_of_taken(folder);
}

Result<TakingState> refuse(const std::string &folder) {
  CKPT_TRY(json holds, decide(in(folder, kDecisionFile), with_result(kRefused)));
  return taking_state(folder);
}

}  // namespace ckpt::tools
