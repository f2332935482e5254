// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/receiver.h"

#include <sys/statvfs.h>

#include <cstdlib>
#include <utility>

#include "ckpt_config.h"
#include "common/base/available_memory.h"
#include "common/base/file_text.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/base/units.h"
#include "storage/io/key_file.h"
#include "tools/job/create_once.h"
#include "tools/migrate/image_in.h"
#include "tools/migrate/peer.h"

namespace ckpt::tools {
namespace {

constexpr const char *kRestoreTool = "ckpt-restore";
constexpr const char *kNeedsFile = "needs";

// ckpt-restore --detach prints it.
pid_t pid_in(const std::string &output) {
  return static_cast<pid_t>(std::strtol(output.c_str(), nullptr, 10));
}

}  // namespace

Result<> Receiver::run() {
  Result<> done = guarded([this] { return serve(); });
  if (!done) (void)link_.send(Kind::Failed, encode(done.error()));
  restore_.reset();  // the copy ends, unless it was told to go on
  if (record_ && !told_to_go_) clean();
  return done;
}

// A program can have been given away only after it was ready here: then the other side may still
// ask for the decision.
void Receiver::clean() {
  Result<TakingState> state = taking_state(record_->folder());
  if (state && state->taking == Taking::Open) state = refuse(record_->folder());
  if (!state || state->taking != Taking::Refused) return;
  ready_ ? record_->remove_images() : record_->remove();
}

Result<> Receiver::serve() {
  remove_dead_receipts();
  CKPT_CHECK(greet());
  while (!over_) {
    CKPT_TRY(Frame frame, link_.receive());
    CKPT_CHECK(answer(frame));
  }
  return {};
}

Result<> Receiver::beat() {
  CKPT_CHECK(cancel_.check());
  return link_.beat();
}

// Another version gets the answer, too, and says what to do.
Result<> Receiver::greet() {
  CKPT_TRY(Bytes body, link_.receive(Kind::Hello));
  std::optional<Hello> hello = parse_hello(body);
  if (!hello) return malformed("Hello");
  hello_ = std::move(*hello);
  link_.set_patience(std::chrono::seconds(hello_.patience_seconds));
  return link_.send(Kind::Welcome,
                    encode(Welcome{.ckpt_version = CKPT_VERSION, .host = this_host()}));
}

Result<> Receiver::answer(const Frame &frame) {
  if (hello_.version != kMigrateVersion) return fail("the versions of ckpt differ");
  if (frame.kind == Kind::Question) return tell_state();
  if (frame.kind == Kind::TakeBack) return take_back();
  if (frame.kind == Kind::Finished) return finish();
  if (frame.kind == Kind::Prepare && !record_) return prepare(frame.body);
  if (!record_) return malformed("too early");
  switch (frame.kind) {
    case Kind::Begin: return begin_ahead(frame.body);
    case Kind::Ahead: return take_ahead(frame.body);
    case Kind::Image: return receive(frame.body);
    case Kind::Check: return check();
    case Kind::Load: return load();
    case Kind::Go: return go();
    default: return malformed("unexpected");
  }
}

Result<> Receiver::tell_state() {
  CKPT_TRY(MoveRecord record, MoveRecord::named(MoveSide::To, hello_.number));
  CKPT_TRY(TakingState state, taking_state(record.folder()));
  return link_.send(Kind::State, encode(state));
}

Result<> Receiver::take_back() {
  CKPT_TRY(MoveRecord record, MoveRecord::named(MoveSide::To, hello_.number));
  CKPT_TRY(TakingState state, taking_state(record.folder()));
  if (state.taking == Taking::Open) {
    CKPT_TRY(state, refuse(record.folder()));
  }
  return link_.send(Kind::State, encode(state));
}

Result<> Receiver::prepare(ByteView body) {
  std::optional<Prepare> wishes = parse_prepare(body);
  if (!wishes) return malformed("Prepare");
  wishes_ = std::move(*wishes);
  CKPT_TRY(record_, MoveRecord::create(MoveSide::To, hello_.number, {{"host", hello_.host}}));
  if (!wishes_.key_file.empty()) {
    auto access = wishes_.shared_key ? storage::KeyAccess::Shared : storage::KeyAccess::Private;
    CKPT_TRY(key_, storage::read_key(wishes_.key_file, access));
  }
  CKPT_CHECK(check_room(wishes_.bytes));
  CKPT_CHECK(check_needs(wishes_.needs));
  return link_.send(Kind::Prepared);
}

Result<> Receiver::check_room(u64 bytes) const {
  struct statvfs fs {};
  if (::statvfs(record_->folder().c_str(), &fs) != 0)
    return fail_errno("cannot look at {}", record_->folder());
  if (u64 room = u64{fs.f_bavail} * fs.f_frsize; bytes > room)
    return fail_with_hint(fmt::format("the images need up to {} in {}, where {} are free",
                                      human_bytes(bytes), migrations_folder(), human_bytes(room)),
                          "make room there");
  if (u64 memory = available_memory(); bytes > memory)
    return fail_with_hint(fmt::format("the program needs {} of memory, and {} are free",
                                      human_bytes(bytes), human_bytes(memory)),
                          "free memory there, or choose another machine");
  return {};
}

// By ckpt-restore, which would restore the program.
Result<> Receiver::check_needs(const std::string &needs) {
  std::string file = record_->folder() + "/" + kNeedsFile;
  CKPT_CHECK(create_once(file, view(needs)));
  std::vector<std::string> all = restore_options();
  all.insert(all.end(), {"--needs", file});
  CKPT_TRY(ToolRun run, ToolRun::start(kRestoreTool, std::move(all)));
  CKPT_CHECK(run.wait([this] { return beat(); }));
  return run.succeeded() ? Result<>() : Failure(run.error());
}

std::vector<std::string> Receiver::restore_options() const {
  std::vector<std::string> all;
  if (!wishes_.device.empty()) all.insert(all.end(), {"--device", wishes_.device});
  if (!wishes_.key_file.empty()) all.insert(all.end(), {"--key-file", wishes_.key_file});
  if (wishes_.shared_key) all.emplace_back("--shared-key");
  if (wishes_.ignore_processor) all.emplace_back("--ignore-processor");
  return all;
}

// What came ahead of a dump that has begun again is forgotten.
Result<> Receiver::begin_ahead(ByteView body) {
  std::optional<u32> round = parse_begin_ahead(body);
  if (!round || loading_) return malformed("Begin");
  ahead_.reset();
  ahead_of_ = *round;
  CKPT_TRY(ahead_, AheadIn::begin(record_->image(*round)));
  return {};
}

Result<> Receiver::take_ahead(ByteView body) {
  std::optional<Piece> piece = parse_piece(body);
  if (!piece || !ahead_) return malformed("Ahead");
  return ahead_->take(*piece);
}

Result<> Receiver::receive(ByteView body) {
  std::optional<ImageOffer> offer = parse_image(body);
  if (!offer || loading_) return malformed("Image");
  std::string path = record_->image(offer->round);
  const storage::Key *key = key_ ? &*key_ : nullptr;
  if (ahead_of_ != offer->round) ahead_.reset();
  std::optional<AheadIn> ahead = std::exchange(ahead_, std::nullopt);
  CKPT_TRY(Stored stored, receive_image(link_, *offer, path, shelf_, key, std::move(ahead)));
  CKPT_TRY(auto image, storage::ImageReader::open(path, {.key = key, .only_own = true}));
  shelf_.add(std::move(image));
  CKPT_CHECK(link_.send(Kind::Stored, encode(stored)));
  return restore_ ? restore_->say('N', Writer().put(offer->round).bytes()) : Result<>();
}

// `stand_by`: it checks the newest image, and prepares what it can for the last one.
Result<> Receiver::start_restore(bool stand_by) {
  std::vector<std::string> all = restore_options();
  all.insert(all.end(), {"--detach", "--record", record_->folder()});
  if (stand_by) all.emplace_back("--stand-by");
  if (!wishes_.output.empty()) all.insert(all.end(), {"--output", wishes_.output});
  all.push_back(shelf_.newest()->path());
  CKPT_TRY(ToolRun run, ToolRun::start(kRestoreTool, std::move(all), "--take-over"));
  restore_.emplace(std::move(run));
  return {};
}

Result<> Receiver::check() {
  if (!shelf_.newest() || restore_) return malformed("Check");
  CKPT_CHECK(start_restore(true));
  CKPT_CHECK(restore_->hear('C', [this] { return beat(); }));
  return link_.send(Kind::Checked);
}

Result<> Receiver::load() {
  if (!shelf_.newest() || loading_) return malformed("Load");
  loading_ = true;
  CKPT_CHECK(restore_ ? restore_->say('L') : start_restore(false));
  CKPT_CHECK(restore_->hear('R', [this] { return beat(); }));
  ready_ = true;
  return link_.send(Kind::Ready);
}

// Whatever happens to this process or the connection after `say`, the restore goes on.
Result<> Receiver::go() {
  if (!ready_) return malformed("Go");
  CKPT_CHECK(restore_->say('G'));
  restore_->detach();
  told_to_go_ = true;
  Result<> ended = restore_->wait([this] { return link_.beat(); });
  if (!ended) return ended;
  if (!restore_->succeeded()) return Failure(restore_->error());
  return link_.send(Kind::Running, encode(Running{pid_in(restore_->output())}));
}

// The other side has noted how it ended, and will not ask again.
Result<> Receiver::finish() {
  CKPT_TRY(MoveRecord record, MoveRecord::named(MoveSide::To, hello_.number));
  CKPT_TRY(TakingState state, taking_state(record.folder()));
  if (state.taking == Taking::Open) {
    CKPT_TRY(state, refuse(record.folder()));
  }
  if (state.taking == Taking::Starting) return malformed("Finished");
  over_ = true;
  bool runs = state.taking == Taking::Running || state.taking == Taking::Ended;
  if (!runs || !wishes_.keep) record.remove();
  return {};
}

}  // namespace ckpt::tools
