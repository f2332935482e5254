// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dump.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "storage/format/uuid.h"
#include "storage/read/image_reader.h"
#include "tools/dump/describe_program.h"
#include "tools/dump/host_side.h"
#include "tools/dump/image_path.h"
#include "tools/dump/kernel_state.h"
#include "tools/dump/link_remaps.h"
#include "tools/dump/new_image.h"
#include "tools/dump/outer_pipes.h"
#include "tools/dump/returned.h"
#include "tools/migrate/decision_files.h"
#include "tools/proc/process_root.h"
#include "tools/session/leftovers.h"
#include "tools/session/process_tree.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A script that constantly starts programs changes the tree between any two inspections.
constexpr int kAttempts = 20;
constexpr auto kNameWait = 500ms;  // for another dump
constexpr auto kEndTimeout = 60s;  // the kernel needs a while to free a large program's memory

// `host`: the machine to which the program is moved.
Result<> ask_keeper(int fd, protocol::Type type, const std::string &image,
                    const std::optional<std::string> &host = {}) {
  Writer body;
  body.str(image);
  if (host) body.str(*host);
  CKPT_CHECK(send_message(fd, static_cast<u16>(type), body.bytes()));
  CKPT_CHECK(set_receive_timeout(fd, 10s));
  CKPT_TRY(std::optional<Message> m, receive_message(fd));
  if (!m) return fail("the session keeper closed the connection without an answer");
  if (static_cast<protocol::Type>(m->type) == protocol::Type::Ok) return {};
  Reader r = m->reader();
  return fail("{}", r.str());
}

}  // namespace

// A shortage of memory or threads is a failed step like any other.
Result<DumpReport> Dump::run() {
  OnCancel guard(cancel_, [this] {
    storage::ImageWriter *image = live_image_;
    if (image && in_pipe()) image->abandon();  // the pipe's reader may have stopped reading
  });
  auto deadline = Clock::now() + std::chrono::seconds(options_.timeout_seconds);
  for (int attempt = 1;; attempt++) {
    Result<> done = guarded([this] { return begin(); });
    if (done) done = guarded([this] { return checkpoint(); });
    if (done) break;
    if (Result<> cancelled = cancel_.check(); !cancelled) done = cancelled;
    bool again =
        attempt < kAttempts && Clock::now() < deadline && another_may_succeed(done.error());
    undo(done.error());
    if (again && link_name_is_taken(done.error())) std::this_thread::sleep_for(kNameWait);
    if (!again) return Failure(done.error());
    start_again();
  }
  CKPT_CHECK(finish());
  report_.stats = image_->stats();
  report_.program = manifest_.program;
  report_.carried_files = manifest_.carried_files.size();
  for (const manifest::CarriedFile &f : manifest_.carried_files) report_.carried_bytes += f.size;
  for (const manifest::Requirement &p : manifest_.requirements) report_.apis.push_back(p.api);
  report_.device_bytes = agents_.device_bytes();
  report_.unchanged_bytes = agents_.unchanged_bytes();
  report_.zero_bytes = agents_.zero_bytes();
  report_.blind = agents_.blind();
  phases_.end();
  report_.seconds = phases_.total_seconds();
  report_.phases = phases_.json();
  return std::move(report_);
}

// The program is not touched here.
Result<> Dump::begin() {
  (void)remove_leftovers();
  // The PID leads to the program's keeper, processes and agents.
  phases_.begin("resolve");
  CKPT_CHECK(resolve());
  // Two dumps of one program would stop each other's processes.
  bool waited = false;
  CKPT_CHECK(marker_.wait_for_turn(target_.keeper, target_.session_socket, cancel_, waited));
  if (waited) CKPT_CHECK(resolve());
  // All reasons why the dump would fail, reported at once.
  phases_.begin("preflight");
  CKPT_CHECK(preflight());
  // From here on the keeper continues the program if this process dies, and new agents wait.
  phases_.begin("begin");
  CKPT_CHECK(announce());
  CKPT_CHECK(check_no_new_agents());
  // The image is created beside its final name.
  CKPT_CHECK(open_image());
  // In a job, no program is touched before all can be checkpointed.
  if (!options_.barriers) return {};
  met_others_ = true;
  return options_.barriers->ready(Connections::read(target_), may_close_);
}

// The program is paused. Every failure is undone.
Result<> Dump::checkpoint() {
  // Host memory for the contents of device memory, while the program still runs.
  phases_.begin("prepare");
  CKPT_CHECK(agents_.prepare(options_.prepare_bytes));
  CKPT_CHECK(agents_.start_owners());
  if (may_owe()) CKPT_CHECK(agents_.allow_owed());
  CKPT_CHECK(agents_.copy_ahead(options_.rounds_ahead));
  CKPT_CHECK(
      agents_.look(*image_, !options_.leave_running, options_.key ? &*options_.key : nullptr));
  // New device calls wait at the gate, and submitted work finishes.
  phases_.begin("quiesce");
  paused_at_ = Clock::now();
  CKPT_CHECK(agents_.quiesce(std::chrono::seconds(options_.timeout_seconds)));
  report_.quiesce_seconds = phases_.seconds_since(paused_at_);
  report_.waits = agents_.waits();
  CKPT_CHECK(check_closed());
  // The agents copy the contents of device memory into the image.
  phases_.begin("save");
  CKPT_CHECK(agents_.save(*image_, options_.leave_running));
  // The agents remove every trace of a driver from their processes.
  phases_.begin("detach");
  CKPT_CHECK(agents_.detach());
  // CRIU writes the host side, and leaves the program stopped.
  phases_.begin("criu");
  CKPT_CHECK(cancel_.check());
  if (options_.barriers) CKPT_CHECK(options_.barriers->settled());
  CKPT_CHECK(lock_connections());
  if (options_.barriers) CKPT_CHECK(options_.barriers->locked(connections_));
  CKPT_CHECK(dump_criu_side());
  CKPT_CHECK(hold());
  // The manifest describes files, pipes and processes as they are while nothing can change them.
  phases_.begin("record");
  CKPT_CHECK(record_stopped_program());
  // The program may be ended only for an image that can be restored.
  phases_.begin("check");
  CKPT_CHECK(check_recorded());
  bool owed = may_owe() && agents_.later_while_it_runs();
  if (!owed) CKPT_CHECK(wait_for_contents());
  if (options_.barriers) CKPT_CHECK(options_.barriers->captured());
  // With --leave-running the program need not wait for the disk, nor for what others copy.
  if (options_.leave_running) CKPT_CHECK(wake(owed));
  if (owed) CKPT_CHECK(wait_for_contents());
  // The image reaches the disk and gets its name.
  phases_.begin("write");
  return write();
}

// A thread that waits for the checkpoint to be durable does not run meanwhile.
bool Dump::may_owe() const {
  return options_.leave_running && !options_.stop_the_world && !options_.outcome_when_durable;
}

// What the owner of device memory, or the program's proxy, has copied since the save.
Result<> Dump::wait_for_contents() {
  if (!agents_.any_later()) return {};
  phases_.begin("drain");
  return agents_.wait_for_later();
}

Result<> Dump::write() {
  CKPT_CHECK(agents_.write_kept(*image_));
  manifest_.phases = phases_.times();
  CKPT_CHECK(check_held());
  CKPT_CHECK(image_->finish(api::json_of(manifest_)));
  if (!options_.barriers && !options_.hand_over) return {};
  Result<> kept = meet_when_durable();
  unwanted_ = !kept;
  return kept;
}

Result<> Dump::meet_when_durable() {
  if (options_.barriers) return options_.barriers->durable();
  CKPT_CHECK(options_.hand_over->wait(phases_.seconds_since(paused_at_)));
  return check_held();
}

// The image is complete. A failure from here on does not undo it.
Result<> Dump::finish() {
  report_.durable_seconds = phases_.seconds_since(paused_at_);
  phases_.begin("end");
  if (!options_.leave_running) CKPT_CHECK(end_program());
  if (options_.leave_running && options_.outcome_when_durable) agents_.send_continue();
  remove_older_images(options_);
  keeper_.reset();
  if (options_.leave_running && !in_pipe() && !options_.passing) tell_keeper_of_image();
  if (options_.leave_running) return check_returned();
  return {};
}

Result<> Dump::resolve() {
  CKPT_TRY(target_, resolve_target(options_.pid, [this] { return cancel_.check(); }));
  options_.image = image_path(options_.image, target_);
  stopped_before_ = stopped_in(target_.processes);
  report_.image = options_.image;
  report_.pid = target_.root;
  report_.processes = target_.processes.size();
  return {};
}

Result<> Dump::open_image() {
  manifest_ = describe_program(target_, criu_);
  read_ahead();
  for (const Process &p : target_.processes) expected_ += p.resident_bytes;
  CKPT_TRY(image_, create_image(options_));
  if (const storage::ImageReader *parent = image_->parent())
    manifest_.parent = {fs::path(parent->path()).filename().string(),
                        storage::uuid_text(parent->index().uuid)};
  live_image_ = image_.get();
  // Now, so that they need not be read while the program is stopped.
  carried_.emplace(carried_choice(), *image_);
  return carried_->save(read_descriptors(target_));
}

CarriedChoice Dump::carried_choice() const {
  return {target_, rights_.for_files(), {options_.with_files, options_.carried_mib << 20}};
}

// Done now, so that it need not be done while the program is stopped.
void Dump::read_ahead() {
  DescriptorTable table = read_descriptors(target_);
  hashes_ = FileHashes(target_.files, rights_.for_files());
  hashes_.add_open_files(table);
  memory_ranges_ = memory_ranges(target_);
  (void)describe_mapped_files(target_, table, hashes_, false);
}

Result<> Dump::announce() {
  CKPT_TRY(keeper_, connect_unix_of(target_.keeper, target_.session_socket));
  CKPT_CHECK(ask_keeper(keeper_.get(), protocol::Type::DumpBegin, options_.image));
  marker_.lock(target_.keeper, target_.session_socket);
  return {};
}

// The packets of connections stay where they are from here on, so that CRIU finds both ends as of
// the same moment.
Result<> Dump::lock_connections() {
  connections_ = Connections::read(target_);
  reuse_ = reuse_of_sockets(target_.processes);
  if (options_.tcp_close) return {};
  rights_.connections = !connections_.empty();
  if (connections_.empty()) return {};
  CKPT_TRY(connection_lock_, ConnectionLock::take(connections_.flows()));
  return {};
}

Result<> Dump::dump_criu_side() {
  std::vector<int> inherited = agents_.outcome_pipe_ends();
  inherited.push_back(keeper_.get());
  if (marker_.descriptor() >= 0) inherited.push_back(marker_.descriptor());
  std::string log = (in_pipe() ? "ckpt-dump" : options_.image) + ".criu.log";
  if (!options_.criu_log.empty()) log = options_.criu_log;
  Result<> done =
      dump_host_side({criu_, rights_, target_, *image_, facts_, cancel_, std::move(inherited),
                      std::move(log), recorded_, options_.tcp_close},
                     stopped_);
  if (done || stopped_) links_ = keep_link_remaps(target_, read_descriptors(target_));
  if (!done) expect_stop();
  return done ? done : cause_of(done.error());
}

Result<> Dump::wake(bool owed) {
  continue_program();
  marker_.remove();
  if (!options_.outcome_when_durable) agents_.send_continue(owed);
  report_.pause_seconds = phases_.seconds_since(paused_at_);
  return {};
}

// The keeper must learn that the image is complete before its program ends, so that it reports a
// checkpoint. Waits until the PIDs are free, for a restore that follows at once.
Result<> Dump::end_program() {
  std::optional<std::string> host;
  if (options_.hand_over) host = owner_elsewhere(options_.image);
  if (Result<> done = ask_keeper(keeper_.get(), protocol::Type::DumpDone, options_.image, host);
      !done)
    log::warn("the session keeper did not accept the end of the dump: {}", done.error().what);
  for (const ProcessHandle &p : handles_) p.signal(SIGKILL);
  if (options_.hand_over) options_.hand_over->killed();
  auto deadline = Clock::now() + kEndTimeout;
  agents_.end_parent_readers();
  agents_.end_owners();
  for (const Process &p : target_.processes)
    while (read_process(p.pid)) {
      held_.reap();
      if (Clock::now() > deadline)
        return fail(
            "the image {} is complete, but process {} did not end within {} s of its SIGKILL",
            options_.image, p.pid, kEndTimeout.count());
      std::this_thread::sleep_for(2ms);
    }
  report_.pause_seconds = phases_.seconds_since(paused_at_);
  return {};
}

// By a connection of its own: an older keeper refuses the request and closes it.
void Dump::tell_keeper_of_image() const {
  Result<UniqueFd> keeper = connect_unix_of(target_.keeper, target_.session_socket);
  if (keeper) (void)ask_keeper(keeper->get(), protocol::Type::ImageWritten, options_.image);
}

Result<> Dump::check_returned() {
  Result<> back = check_devices_returned(target_, cancel_);
  if (back) return back;
  devices_lost_ = true;
  return Failure(
      std::move(back.error()).in(fmt::format("the image {} is complete", options_.image)));
}

void Dump::undo(const Error &why) {
  log::debug("undoing the checkpoint: {}", why.what);
  connection_lock_.release();
  remove_links(links_, target_.files);
  if (stopped_) continue_program();
  held_.release();
  agents_.undo(why.what);
  live_image_ = nullptr;
  carried_.reset();
  image_.reset();
  if (std::error_code ignored; unwanted_) fs::remove_all(options_.image, ignored);
  keeper_.reset();
}

// A process that starts, gets an agent or ends while a dump begins can make it fail, whatever the
// error says. But data that was written to a pipe cannot be revoked, and a program that has
// requested the checkpoint itself has already received the outcome of this attempt.
bool Dump::another_may_succeed(const Error &why) const {
  if (cancel_.signal() || met_others_ || unwanted_ || (in_pipe() && image_)) return false;
  if (options_.outcome_when_durable && agents_.any_detached()) return false;
  if (link_name_is_taken(why)) return true;
  return agents_missed_ || was_continued_ || (target_.root != 0 && has_changed(target_));
}

void Dump::start_again() {
  log::debug("the dump is started again");
  agents_.clear();
  facts_ = {};
  phases_ = {};
  target_ = {};
  handles_.clear();
  stopped_before_.clear();
  expected_ = 0;
  stopped_ = agents_missed_ = was_continued_ = must_close_ = false;
  may_close_.clear();
  report_ = {};
}

}  // namespace ckpt::tools
