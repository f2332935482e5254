// SPDX-License-Identifier: Apache-2.0
#include "tools/job/ends.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "common/base/json_fields.h"
#include "tools/job/create_once.h"
#include "tools/json_text.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct End {
  int code = 0;
  unsigned checkpoint = 0;  // the newest one at the time; 0: none
  std::string start;
};

std::string folder_of_ends(const JobFolder &folder) { return folder.path() + "/ended"; }

std::string file_of(const JobFolder &folder, const std::string &member) {
  return folder_of_ends(folder) + "/" + member;
}

unsigned newest(const JobFolder &folder) {
  std::vector<unsigned> complete = folder.complete();
  return complete.empty() ? 0 : complete.front();
}

std::optional<End> end_of(const JobFolder &folder, const std::string &member) {
  Result<json> j = read_decision(file_of(folder, member));
  if (!j || !j->is_object()) return std::nullopt;
  return End{json_value(*j, "code", 1), json_value(*j, "checkpoint", 0U), json_string(*j, "start")};
}

std::map<std::string, End> all_ends(const JobFolder &folder) {
  std::map<std::string, End> all;
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(folder_of_ends(folder), ec)) {
    std::string member = e.path().filename().string();
    std::optional<End> end = check_member_name(member) ? end_of(folder, member) : std::nullopt;
    if (end) all[member] = *end;
  }
  return all;
}

std::vector<std::string> members_of_unfinished(const JobFolder &folder) {
  unsigned checkpoint = newest(folder);
  if (checkpoint <= folder.finished()) return {};
  Result<json> decision = read_decision(folder.decision(checkpoint));
  return decision ? members_of(*decision) : std::vector<std::string>{};
}

bool has_finished_since(const JobFolder &folder, const std::string &member, unsigned checkpoint) {
  std::optional<End> end = end_of(folder, member);
  return end && end->code == 0 && end->checkpoint >= checkpoint;
}

// Marks it where that is not done yet: by the program that was the last, or by the first that is
// started again.
Result<bool> job_has_finished(const JobFolder &folder, unsigned checkpoint) {
  if (checkpoint <= folder.finished()) return true;
  CKPT_TRY(json decision, read_decision(folder.decision(checkpoint)));
  for (const std::string &member : members_of(decision))
    if (!has_finished_since(folder, member, checkpoint)) return false;
  CKPT_CHECK(folder.mark_finished(checkpoint));
  return true;
}

}  // namespace

Result<> note_end(const JobFolder &folder, const std::string &member, int code,
                  const std::string &start) {
  unsigned checkpoint = newest(folder);
  json end{{"code", code}, {"checkpoint", checkpoint}, {"start", start}};
  CKPT_CHECK(replace_file(file_of(folder, member), view(json_text(end) + "\n")));
  return job_has_finished(folder, checkpoint).transform([](bool) {});
}

void forget_end(const JobFolder &folder, const std::string &member) {
  ::unlink(file_of(folder, member).c_str());
}

std::string command_file(const JobFolder &folder, const std::string &member) {
  return folder.path() + "/commands/" + member;
}

size_t count_ends(const JobFolder &folder, const std::string &start) {
  size_t n = 0;
  for (const auto &[member, end] : all_ends(folder)) n += end.start == start;
  return n;
}

bool has_ended_well(const JobFolder &folder, const std::string &member) {
  std::optional<End> end = end_of(folder, member);
  return end && end->code == 0;
}

std::optional<FailedMember> failed_member(const JobFolder &folder, const std::string &start) {
  std::vector<std::string> needed = members_of_unfinished(folder);
  for (const auto &[member, end] : all_ends(folder)) {
    bool of_this_start = !start.empty() && end.start == start;
    if (end.code != 0 && (of_this_start || std::ranges::find(needed, member) != needed.end()))
      return FailedMember{member, file_of(folder, member), end.code};
  }
  return std::nullopt;
}

Result<JobStart> how_to_start(const JobFolder &folder, const std::string &member) {
  CKPT_CHECK(folder.check_readable());
  unsigned checkpoint = newest(folder);
  CKPT_TRY(bool finished, job_has_finished(folder, checkpoint));
  if (finished) return JobStart::Program;
  CKPT_TRY(json decision, read_decision(folder.decision(checkpoint)));
  std::vector<std::string> members = members_of(decision);
  if (std::ranges::find(members, member) != members.end()) return JobStart::Restore;
  if (std::optional<End> end = end_of(folder, member); end && end->code == 0)
    return JobStart::Nothing;  // before the checkpoint, which is without it
  return Failure(not_in_checkpoint(folder, checkpoint, member, members));
}

}  // namespace ckpt::tools
