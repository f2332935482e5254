// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/settle_move.h"

#include <unistd.h>

#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "common/base/print.h"
#include "tools/json_text.h"
#include "tools/migrate/decision_files.h"
#include "tools/migrate/peer.h"
#include "tools/proc/process.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// The way to the other machine, as it was when the program was given away, unless options say
// otherwise.
MoveOptions way_to(const MoveRecord &record, MoveOptions o) {
  json about = record.about();
  const MoveOptions standard;
  o.host = json_string(about, "host");
  if (o.rsh == standard.rsh) o.rsh = json_string(about, "rsh", standard.rsh);
  if (o.tool_there == standard.tool_there)
    o.tool_there = json_string(about, "tool_there", standard.tool_there);
  return o;
}

bool runs_there(const TakingState &s) {
  return s.taking == Taking::Running || s.taking == Taking::Ended;
}

struct Answer {
  std::unique_ptr<Peer> peer;
  TakingState state;
};

// An answer that does not know the migration is none.
Result<Answer> ask(const MoveRecord &record, Kind question, const MoveOptions &o, Cancel &cancel) {
  Answer a;
  CKPT_TRY(a.peer,
           Peer::connect(way_to(record, o), record.number(), [&cancel] { return cancel.check(); }));
  CKPT_CHECK(a.peer->link().send(question));
  CKPT_TRY(Bytes body, a.peer->link().receive(Kind::State));
  std::optional<TakingState> state = parse_state(body);
  if (!state) return malformed("State");
  if (state->taking == Taking::Unknown) return fail("it knows nothing of this migration");
  a.state = *state;
  return a;
}

// Only after this machine has noted how it ended, because the other one then forgets it.
Result<> settle_both(const MoveRecord &record, Settled how, Result<Answer> &answer) {
  CKPT_CHECK(settle(record.folder(), how));
  if (answer) (void)answer->peer->link().send(Kind::Finished);
  return {};
}

Failure unreachable(const Error &why, const char *danger) {
  return fail_with_hint(
      fmt::format("the other machine cannot say whether the program runs there: {}", why.what),
      fmt::format("try again when it can be reached; --force does it nevertheless, {}", danger));
}

// ckpt-dump was killed between the record and the end of the program, or has undone its work.
bool still_runs_here(const json &given) {
  Result<Process> p = read_process(json_value(given, "pid", pid_t{0}));
  return p && p->start_ticks == json_value(given, "start_ticks", u64{0}) && !p->ending;
}

const char *text_of(Settled how) {
  if (how == Settled::No) return "not known";
  return how == Settled::Taken ? "runs there" : "taken back";
}

Result<MoveRecord> the_one(std::vector<MoveRecord> found, const std::string &name) {
  if (found.size() == 1) return std::move(found.front());
  return fail_with_hint(
      fmt::format("{} given away from here matches \"{}\"",
                  found.empty() ? "no program" : "more than one program", printable(name)),
      "ckpt-migrate --list shows them");
}

Result<> check_runs_there(const TakingState &state) {
  if (runs_there(state)) return {};
  if (state.taking == Taking::Starting)
    return fail_with_hint("the program is being started there", "try again in a moment");
  return fail_with_hint("the program does not run there", "take it back with --take-back");
}

Result<> check_not_there(const TakingState &state) {
  if (state.taking == Taking::Starting)
    return fail_with_hint("the program is being started there", "try again in a moment");
  if (state.taking == Taking::Refused || state.taking == Taking::Failed) return {};
  return fail_with_hint(state.taking == Taking::Running
                            ? fmt::format("the program runs there, as process {}", state.pid)
                            : std::string("the program went on there, and has ended"),
                        "--finish removes its images here");
}

}  // namespace

Result<MoveRecord> find_record(const std::string &name) {
  std::vector<MoveRecord> found;
  for (MoveRecord &r : MoveRecord::all(MoveSide::From)) {
    Result<json> given = given_away(r.folder());
    bool meant = r.number().starts_with(name) ||
                 std::to_string(json_value(r.about(), "pid", pid_t{0})) == name;
    if (given && given->is_object() && meant) found.push_back(std::move(r));
  }
  return the_one(std::move(found), name);
}

// What was taken back before has images that are needed no more.
Result<> finish_move(const std::string &name, bool force, const MoveOptions &o, Cancel &cancel) {
  CKPT_TRY(MoveRecord record, find_record(name));
  if (!record.lock()) return fail("the migration is still under way");
  CKPT_TRY(Settled how, settled(record.folder()));
  if (how == Settled::No) {
    Result<Answer> answer = ask(record, Kind::Question, o, cancel);
    if (!answer && !force)
      return unreachable(answer.error(), "and the program is lost if it does not run there");
    if (answer) CKPT_CHECK(check_runs_there(answer->state));
    CKPT_CHECK(settle_both(record, Settled::Taken, answer));
  }
  record.remove();
  return {};
}

// The other machine is asked first: it must have written that the program never goes on there.
Result<TakenBack> take_back(const std::string &name, bool force, const MoveOptions &o,
                            Cancel &cancel) {
  CKPT_TRY(MoveRecord record, find_record(name));
  if (!record.lock()) return fail("the migration is still under way");
  CKPT_TRY(json given, given_away(record.folder()));
  CKPT_TRY(Settled how, settled(record.folder()));
  if (how == Settled::Taken) return fail("it was decided before that the program runs there");
  if (how == Settled::No) {
    Result<Answer> answer = ask(record, Kind::TakeBack, o, cancel);
    if (!answer && !force)
      return unreachable(answer.error(), "and the program then runs twice if it runs there");
    if (answer) CKPT_CHECK(check_not_there(answer->state));
    if (!answer)
      log::warn("the other machine was not asked: if the program runs there, it now runs twice");
    CKPT_CHECK(settle_both(record, Settled::TakenBack, answer));
  }
  return TakenBack{json_string(given, "image"), still_runs_here(given)};
}

int list_moves(bool as_json) {
  json all = json::array();
  for (const MoveRecord &r : MoveRecord::all(MoveSide::From)) {
    Result<json> given = given_away(r.folder());
    if (!given || !given->is_object()) continue;
    const char *state = text_of(settled(r.folder()).value_or(Settled::No));
    (*given)["state"] = state;
    all.push_back(*given);
    if (as_json) continue;
    print("{}  {} ({}) to {}: {}\n", r.number(), json_value(*given, "pid", 0),
          printable(json_string(*given, "program")), printable(json_string(*given, "host")), state);
  }
  if (as_json) print("{}\n", json_text(all));
  return 0;
}

}  // namespace ckpt::tools
