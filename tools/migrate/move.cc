// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/move.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "ckpt_config.h"
#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/base/test_points.h"
#include "common/base/units.h"
#include "storage/format/uuid.h"
#include "storage/io/key_file.h"
#include "tools/json_text.h"
#include "tools/migrate/decision_files.h"
#include "tools/migrate/move_print.h"
#include "tools/migrate/ties.h"
#include "tools/proc/process.h"
#include "tools/progress_bar.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

u64 bytes_of(const json &facts) {
  return json_value(json_object(facts, "needs"), "memory_bytes", u64{0}) +
         json_value(json_object(facts, "carried"), "bytes", u64{0});
}

}  // namespace

Move::Move(MoveOptions options, pid_t pid, Cancel &cancel)
    : options_(std::move(options)),
      pid_(pid),
      cancel_(cancel),
      dumps_(
          options_, pid, [this] { return alive(); },
          [this](const std::string &file, u64 offset, u32 bytes) {
            return send_ahead(file, offset, bytes);
          }),
      rounds_(options_.most_rounds, options_.max_downtime) {}

Result<MoveReport> Move::run() {
  Result<> done = guarded([this] { return move(); });
  if (done) return std::move(report_);
  if (in_doubt()) return Failure(std::move(done).error());
  // The program goes on here, and the copy there ends.
  stopped_.reset();
  if (peer_) (void)peer_->link().send(Kind::Finished);
  peer_.reset();
  if (record_) record_->remove();
  return Failure(std::move(done).error());
}

Result<> Move::move() {
  // Both machines are looked at before the program is touched.
  CKPT_CHECK(prepare());
  CKPT_CHECK(ask_there());
  // Copies of what has changed, while the program runs.
  CKPT_CHECK(copy_ahead());
  // The program stops. The rest follows, and the other machine loads the program.
  CKPT_CHECK(stop());
  CKPT_CHECK(load());
  // From here on it never goes on here by itself.
  CKPT_CHECK(give());
  CKPT_CHECK(go());
  finish();
  return {};
}

// Asked in every wait.
Result<> Move::may_go_on() const {
  CKPT_CHECK(cancel_.check());
  return stopping_ && !given_ ? within_downtime() : Result<>();
}

// While a tool works: the other machine hears that this one lives.
Result<> Move::alive() {
  CKPT_CHECK(may_go_on());
  return peer_ ? peer_->link().beat() : Result<>();
}

Result<> Move::prepare() {
  test_point("check-here");
  if (!options_.key_file.empty()) {
    auto access = options_.shared_key ? storage::KeyAccess::Shared : storage::KeyAccess::Private;
    CKPT_TRY(key_, storage::read_key(options_.key_file, access));
  }
  CKPT_TRY(facts_, dumps_.check());
  CKPT_TRY(storage::Uuid number, storage::random_uuid());
  report_.number = storage::uuid_text(number);
  report_.host = options_.host;
  report_.pid = json_value(facts_, "pid", pid_);
  report_.program = json_string(facts_, "program");
  CKPT_TRY(Process root, read_process(report_.pid));
  if (root.uid != ::geteuid())
    return fail_with_hint(fmt::format("{} belongs to another user", name_of(root)),
                          "migrate it as that user, on both machines");
  start_ticks_ = root.start_ticks;
  CKPT_TRY(Target target, resolve_target(report_.pid, [this] { return cancel_.check(); }));
  CKPT_CHECK(refuse_ties(command_of_keeper(target.keeper, target.root)));
  CKPT_TRY(record_, MoveRecord::create(MoveSide::From, report_.number,
                                       {{"pid", report_.pid},
                                        {"program", report_.program},
                                        {"host", options_.host},
                                        {"rsh", options_.rsh},
                                        {"tool_there", options_.tool_there}}));
  return check_room();
}

// Images of later rounds have only what has changed.
Result<> Move::check_room() {
  struct statvfs fs {};
  if (::statvfs(record_->folder().c_str(), &fs) != 0)
    return fail_errno("cannot look at {}", record_->folder());
  u64 room = u64{fs.f_bavail} * fs.f_frsize, needed = bytes_of(facts_);
  if (needed <= room) return {};
  return fail_with_hint(fmt::format("the images need up to {} in {}, where {} are free",
                                    human_bytes(needed), migrations_folder(), human_bytes(room)),
                        "make room there, or name another folder with XDG_STATE_HOME");
}

Result<> Move::ask_there() {
  test_point("check-there");
  CKPT_TRY(peer_, Peer::connect(options_, report_.number, [this] { return may_go_on(); }));
  bool own_key = options_.key_file_there.empty();
  Prepare m{.needs = json_text(facts_["manifest"]),
            .bytes = bytes_of(facts_),
            .device = options_.device,
            .key_file = own_key ? options_.key_file : options_.key_file_there,
            .output = options_.output,
            .shared_key = options_.shared_key,
            .keep = options_.keep,
            .ignore_processor = options_.ignore_processor};
  if (m.needs.size() > kMaxNeedsBytes)
    return fail("the program has too many files to describe ({})", human_bytes(m.needs.size()));
  CKPT_CHECK(peer_->link().send(Kind::Prepare, encode(m)));
  return peer_->link().receive(Kind::Prepared).transform([](auto &&) {});
}

// After the first round the other machine has an image, and can check all that a restore needs.
Result<> Move::copy_ahead() {
  while (rounds_.another()) {
    CKPT_CHECK(copy_round());
    if (rounds_.count() == 1) CKPT_CHECK(check_there());
  }
  report_.predicted_downtime = rounds_.predicted_downtime();
  std::optional<std::string> why = rounds_.too_long();
  if (!why) return {};
  return fail_with_hint(*why,
                        "it keeps running here; give it a longer --max-downtime, or leave that "
                        "out to stop it as long as it takes");
}

std::string Move::parent() const { return round_ == 0 ? "" : record_->image(round_ - 1); }

void Move::begin_round() {
  auto now = Clock::now();
  period_ = std::chrono::duration<double>(now - round_begun_).count();
  round_begun_ = now;
  sent_before_ = peer_->link().sent_bytes();
  sending_before_ = peer_->link().sending_seconds();
}

Result<> Move::copy_round() {
  test_point(fmt::format("round-{}", std::min(round_, 1U)));
  begin_round();
  CKPT_TRY(json dump, dumps_.running(record_->image(round_), parent()));
  CKPT_TRY(SentImage sent, send());
  raw_bytes_ = json_value(dump, "bytes", u64{0});
  note_round(json_value(dump, "pause_seconds", 0.0), sent, false);
  rounds_.add({.dump_seconds = json_value(dump, "durable_seconds", 0.0),
               .rest_seconds = sent.seconds,
               .send_seconds = peer_->link().sending_seconds() - sending_before_,
               .sent_bytes = peer_->link().sent_bytes() - sent_before_,
               .raw_bytes = raw_bytes_,
               .check_seconds = check_seconds_,
               .period_seconds = period_});
  round_++;
  return {};
}

Result<> Move::send_ahead(const std::string &file, u64 offset, u32 bytes) {
  return ahead_.send(peer_->link(), round_, file, offset, bytes);
}

Result<SentImage> Move::send() {
  CKPT_TRY(auto image,
           storage::ImageReader::open(record_->image(round_), {.key = key_ ? &*key_ : nullptr}));
  Progress progress(fmt::format("round {}", round_), options_.quiet || options_.json);
  CKPT_TRY(SentImage sent, send_image(peer_->link(), round_, *image,
                                      [&](u64 done, u64 total) { progress.update(done, total); }));
  ahead_.arrived(image->index());
  return sent;
}

Result<> Move::check_there() {
  auto begun = Clock::now();
  CKPT_CHECK(peer_->link().send(Kind::Check));
  CKPT_CHECK(peer_->link().receive(Kind::Checked));
  check_seconds_ = seconds_since(begun);
  return {};
}

Result<> Move::stop() {
  test_point("stop");
  begin_round();
  paused_at_ = round_begun_;  // at the earliest; the dump says when
  stopping_ = true;
  CKPT_TRY(ToolRun stopped, dumps_.stop(record_->image(round_), parent()));
  stopped_.emplace(std::move(stopped));
  paused_at_ = Clock::now() - std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(dumps_.paused_seconds()));
  report_.stopped_at = std::chrono::duration<double>(paused_at_ - begun_).count();
  note_step("dump");
  test_point("stopped");
  CKPT_TRY(SentImage sent, send());
  note_step("send");
  note_round(seconds_since(paused_at_), sent, true);
  return {};
}

// What of the downtime has passed since the step before.
void Move::note_step(const char *name) {
  double now = seconds_since(paused_at_);
  report_.stop[name] = now - std::exchange(steps_, now);
}

Result<> Move::load() {
  CKPT_CHECK(peer_->link().send(Kind::Load));
  CKPT_CHECK(peer_->link().receive(Kind::Ready));
  note_step("load");
  test_point("ready");
  return within_downtime();
}

// After `ready` at the latest; then it cannot go on here any more.
Result<> Move::within_downtime() const {
  double stopped = seconds_since(paused_at_);
  if (!options_.max_downtime || stopped <= *options_.max_downtime) return {};
  return fail_with_hint(
      fmt::format("the program has been stopped for {:.1f} s, longer than --max-downtime {:.1f}",
                  stopped, *options_.max_downtime),
      "it keeps running here; give it a longer --max-downtime, or leave that out");
}

// If the program could not be ended, it goes on here, and `go` was not sent.
Result<> Move::give() {
  CKPT_CHECK(give_away(record_->folder(), {{"number", report_.number},
                                           {"host", options_.host},
                                           {"image", record_->image(round_)},
                                           {"pid", report_.pid},
                                           {"start_ticks", start_ticks_},
                                           {"program", report_.program}}));
  given_ = true;
  test_point("given");
  Result<> ended = dumps_.end(*stopped_);
  if (ended) return {};
  if (stopped_->failed_by_itself() && settle(record_->folder(), Settled::TakenBack)) back_ = true;
  return ended;
}

Result<> Move::go() {
  note_step("end");
  test_point("ended");
  CKPT_CHECK(peer_->link().send(Kind::Go));
  CKPT_TRY(Bytes body, peer_->link().receive(Kind::Running));
  std::optional<Running> running = parse_running(body);
  if (!running) return malformed("Running");
  report_.pid_there = running->pid;
  note_step("start");
  report_.downtime = steps_;
  return {};
}

// The program runs there. What fails now is only left behind.
void Move::finish() {
  test_point("running");
  Result<> settled = settle(record_->folder(), Settled::Taken);
  if (settled) settled = peer_->link().send(Kind::Finished);
  if (settled) settled = stopped_->wait([] { return Result<>(); });
  if (!settled) log::warn("{}", settled.error().text());
  report_.seconds = seconds_since(begun_);
  report_.sent_bytes = peer_->link().sent_bytes();
  if (!options_.keep) record_->remove();
}

void Move::note_round(double pause, const SentImage &sent, bool last) {
  json line{{"round", round_},
            {"stopped", last},
            {"begin_seconds", std::chrono::duration<double>(round_begun_ - begun_).count()},
            {"seconds", seconds_since(round_begun_)},
            {"pause_seconds", pause},
            {"sent_bytes", peer_->link().sent_bytes() - sent_before_},
            {"send_seconds", peer_->link().sending_seconds() - sending_before_},
            {"chunks", sent.stored.chunks},
            {"had_chunks", sent.stored.had_chunks}};
  if (!options_.quiet && !options_.json) print_round(line);
  report_.rounds.push_back(std::move(line));
}

}  // namespace ckpt::tools
