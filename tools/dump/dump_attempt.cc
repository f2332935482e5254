// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dump_attempt.h"

#include <chrono>
#include <filesystem>

#include "common/base/log.h"
#include "tools/dump/causes_for_user.h"
#include "tools/dump/image_path.h"
#include "tools/dump/link_remaps.h"
#include "tools/dump/outer_pipes.h"
#include "tools/dump/returned.h"
#include "tools/migrate/decision_files.h"
#include "tools/session/leftovers.h"

namespace ckpt::tools {

DumpAttempt::DumpAttempt(DumpOptions options, Cancel &cancel, DumpMarker &marker, NewImage &image)
    : options_(std::move(options)),
      cancel_(cancel),
      marker_(marker),
      image_(image),
      agents_(cancel),
      refusals_(options_, target_),
      program_(target_) {}

Result<> DumpAttempt::begin() {
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
  CKPT_CHECK(refusals_.check(agents_, report_.remarks));
  // From here on the keeper continues the program if this process dies, and new agents wait.
  phases_.begin("begin");
  CKPT_CHECK(announce());
  CKPT_CHECK(check_no_new_agents());
  // The image is created beside its final name.
  CKPT_CHECK(open_image());
  // In a job, no program is touched before all can be checkpointed.
  if (!options_.barriers) return {};
  met_others_ = true;
  return options_.barriers->ready(Connections::read(target_), refusals_.may_close());
}

Result<> DumpAttempt::checkpoint() {
  storage::ImageWriter &image = image_.writer();
  // Host memory for the contents of device memory, while the program still runs.
  phases_.begin("prepare");
  CKPT_CHECK(agents_.prepare(options_.prepare_bytes));
  CKPT_CHECK(agents_.start_owners());
  if (options_.may_owe()) CKPT_CHECK(agents_.allow_owed());
  CKPT_CHECK(agents_.copy_ahead(options_.rounds_ahead));
  CKPT_CHECK(agents_.look(image, !options_.leave_running, options_.key ? &*options_.key : nullptr));
  // New device calls wait at the gate, and submitted work finishes.
  phases_.begin("quiesce");
  CKPT_CHECK(quiesce());
  // The agents copy the contents of device memory into the image.
  phases_.begin("save");
  CKPT_CHECK(agents_.save(image, options_.leave_running));
  // The agents remove every trace of a driver from their processes.
  phases_.begin("detach");
  CKPT_CHECK(agents_.detach());
  // CRIU writes the host side, and leaves the program stopped.
  phases_.begin("criu");
  CKPT_CHECK(cancel_.check());
  CKPT_CHECK(lock_connections());
  CKPT_CHECK(dump_criu_side());
  CKPT_CHECK(program_.hold());
  // The manifest describes files, pipes and processes as they are while nothing can change them.
  phases_.begin("record");
  CKPT_CHECK(record_stopped_program());
  // The program may be ended only for an image that can be restored.
  phases_.begin("check");
  CKPT_CHECK(check_recorded());
  bool owed = options_.may_owe() && agents_.later_while_it_runs();
  if (!owed) CKPT_CHECK(wait_for_contents());
  if (options_.barriers) CKPT_CHECK(options_.barriers->captured());
  // With --leave-running the program need not wait for the disk, nor for what others copy.
  if (options_.leave_running) wake(owed);
  if (owed) CKPT_CHECK(wait_for_contents());
  // The image reaches the disk and gets its name.
  phases_.begin("write");
  return write();
}

Result<> DumpAttempt::finish() {
  report_.durable_seconds = phases_.seconds_since(paused_at_);
  phases_.begin("end");
  if (!options_.leave_running) CKPT_CHECK(end_program());
  if (options_.leave_running && options_.outcome_when_durable) agents_.send_continue();
  if (std::optional<std::string> why = remove_older_images(options_)) {
    log::warn("{}", *why);
    report_.warnings.push_back(std::move(*why));
  }
  keeper_.close();
  if (!options_.leave_running) return {};
  if (!options_.in_pipe() && !options_.passing) tell_keeper_of_image(target_, options_.image);
  return check_returned();
}

void DumpAttempt::undo(const Error &why) {
  log::debug("undoing the checkpoint: {}", why.what);
  connections_.release();
  remove_links(host_.links, target_.files);
  program_.undo(connections_.reuse());
  agents_.undo(why.what);
  record_.reset();
  image_.discard();
  if (std::error_code ignored; unwanted_) std::filesystem::remove_all(options_.image, ignored);
  keeper_.close();
}

// A process that starts, gets an agent or ends while a dump begins can make it fail, whatever the
// error says. But data that was written to a pipe cannot be revoked, and a program that has
// requested the checkpoint itself has already received the outcome of this attempt.
bool DumpAttempt::another_may_succeed(const Error &why) const {
  if (cancel_.signal() || met_others_ || unwanted_) return false;
  if (options_.in_pipe() && image_.exists()) return false;
  if (options_.outcome_when_durable && agents_.any_detached()) return false;
  if (link_name_is_taken(why)) return true;
  return refusals_.agents_missed() || agents_missed_ || program_.was_continued() ||
         (target_.root != 0 && has_changed(target_));
}

DumpReport DumpAttempt::report() {
  const manifest::Manifest &manifest = record_->manifest();
  report_.stats = image_.writer().stats();
  report_.program = manifest.program;
  report_.carried_files = manifest.carried_files.size();
  for (const manifest::CarriedFile &f : manifest.carried_files) report_.carried_bytes += f.size;
  for (const manifest::Requirement &p : manifest.requirements) report_.apis.push_back(p.api);
  report_.device_bytes = agents_.device_bytes();
  report_.unchanged_bytes = agents_.unchanged_bytes();
  report_.zero_bytes = agents_.zero_bytes();
  report_.blind = agents_.blind();
  phases_.end();
  report_.seconds = phases_.total_seconds();
  report_.phases = phases_.json();
  return std::move(report_);
}

// ---- the steps

Result<> DumpAttempt::resolve() {
  CKPT_TRY(target_, resolve_target(options_.pid, [this] { return cancel_.check(); }));
  options_.image = image_path(options_.image, target_);
  program_.note_found();
  report_.image = options_.image;
  report_.pid = target_.root;
  report_.processes = target_.processes.size();
  return {};
}

Result<> DumpAttempt::announce() {
  CKPT_CHECK(keeper_.announce(target_, options_.image));
  marker_.lock(target_.keeper, target_.session_socket);
  return {};
}

// An agent that started after resolve() has taken no part in the checkpoint: its copy would not be
// connected to the new session.
Result<> DumpAttempt::check_no_new_agents() {
  pid_t late = new_agent(target_);
  if (late == 0) return {};
  agents_missed_ = true;
  return fail_with_hint(
      fmt::format(
          "process {} used ckpt or a device for the first time in the middle of the checkpoint",
          late),
      "run ckpt-dump again");
}

Result<> DumpAttempt::open_image() {
  u64 memory = 0;
  for (const Process &p : target_.processes) memory += p.resident_bytes;
  image_.expect(memory);
  CKPT_CHECK(image_.create(options_));
  record_.emplace(options_, target_, refusals_.criu(), refusals_.rights().for_files(),
                  image_.writer());
  // Now, so that they need not be read while the program is stopped.
  return record_->carry_files();
}

Result<> DumpAttempt::quiesce() {
  paused_at_ = Clock::now();
  CKPT_CHECK(agents_.quiesce(std::chrono::seconds(options_.timeout_seconds)));
  report_.quiesce_seconds = phases_.seconds_since(paused_at_);
  report_.waits = agents_.waits();
  return refusals_.check_closed();
}

Result<> DumpAttempt::lock_connections() {
  if (options_.barriers) CKPT_CHECK(options_.barriers->settled());
  CKPT_CHECK(connections_.lock(target_, options_.tcp_close));
  if (options_.barriers) CKPT_CHECK(options_.barriers->locked(connections_.all()));
  return {};
}

Result<> DumpAttempt::dump_criu_side() {
  std::vector<int> inherited = agents_.outcome_pipe_ends();
  inherited.push_back(keeper_.descriptor());
  if (marker_.descriptor() >= 0) inherited.push_back(marker_.descriptor());
  std::string log = (options_.in_pipe() ? "ckpt-dump" : options_.image) + ".criu.log";
  if (!options_.criu_log.empty()) log = options_.criu_log;
  CriuRights rights = refusals_.rights();
  rights.connections = connections_.criu_dumps_them();
  Result<> done = dump_host_side({.criu = refusals_.criu(),
                                  .rights = rights,
                                  .target = target_,
                                  .image = image_.writer(),
                                  .cancel = cancel_,
                                  .inherited = std::move(inherited),
                                  .kept_log = std::move(log),
                                  .tcp_close = options_.tcp_close,
                                  .program = program_,
                                  .record = host_});
  if (done) return {};
  program_.expect_stop();
  if (cancel_.signal()) return done;
  return with_causes(done.error(), target_, rights);
}

// Processes may have started and ended until CRIU stopped them.
Result<> DumpAttempt::record_stopped_program() {
  CKPT_CHECK(program_.find_processes());
  CKPT_CHECK(record_owner());
  CKPT_CHECK(program_.open_handles());
  CKPT_CHECK(check_no_new_agents());
  report_.processes = target_.processes.size();
  Connections connections = Connections::read(target_);
  CKPT_CHECK(connections_.check_none_new(connections));
  DescriptorTable table = read_descriptors(target_);
  agents_missed_ = marker_.is_open_in(table);
  if (agents_missed_) return fail("an agent started in the middle of the checkpoint");
  return record_->describe({table, connections, program_.stopped_before(), host_.links, agents_},
                           report_.remarks);
}

Result<> DumpAttempt::record_owner() {
  Ownership owner = host_.identities.ownership();
  CKPT_CHECK(refusals_.check_recorded(owner, report_.remarks));
  if (refusals_.rights().unprivileged() || owner.is_root()) record_->set_owner(owner);
  return {};
}

Result<> DumpAttempt::check_recorded() {
  CKPT_CHECK(program_.check_none_killed());
  return record_->check(host_.facts, report_.remarks);
}

// What the owner of device memory, or the program's proxy, has copied since the save.
Result<> DumpAttempt::wait_for_contents() {
  if (!agents_.any_later()) return {};
  phases_.begin("drain");
  return agents_.wait_for_later();
}

// The lock goes first: a connection that leaves repair mode asks the other end at once where it
// stands, instead of after a timeout.
void DumpAttempt::wake(bool owed) {
  connections_.release();
  program_.go_on(connections_.reuse());
  marker_.remove();
  if (!options_.outcome_when_durable) agents_.send_continue(owed);
  report_.pause_seconds = phases_.seconds_since(paused_at_);
}

Result<> DumpAttempt::write() {
  CKPT_CHECK(agents_.write_kept(image_.writer()));
  record_->set_phases(phases_.times());
  CKPT_CHECK(program_.check_held());
  CKPT_CHECK(image_.writer().finish(api::json_of(record_->manifest())));
  if (!options_.barriers && !options_.hand_over) return {};
  Result<> kept = meet_when_durable();
  unwanted_ = !kept;
  return kept;
}

Result<> DumpAttempt::meet_when_durable() {
  if (options_.barriers) return options_.barriers->durable();
  CKPT_CHECK(options_.hand_over->wait(phases_.seconds_since(paused_at_)));
  return program_.check_held();
}

// The keeper must learn that the image is complete before its program ends. Waits until the PIDs
// are free, for a restore that follows at once.
Result<> DumpAttempt::end_program() {
  std::optional<std::string> host;
  if (options_.hand_over) host = owner_elsewhere(options_.image);
  if (Result<> done = keeper_.tell_end(options_.image, host); !done)
    log::warn("the session keeper did not accept the end of the dump: {}", done.error().what);
  program_.kill();
  if (options_.hand_over) options_.hand_over->killed();
  agents_.end_parent_readers();
  agents_.end_owners();
  CKPT_CHECK(program_.wait_for_end(options_.image));
  report_.pause_seconds = phases_.seconds_since(paused_at_);
  return {};
}

Result<> DumpAttempt::check_returned() {
  Result<> back = check_devices_returned(target_, cancel_);
  if (back) return back;
  devices_lost_ = true;
  return Failure(
      std::move(back.error()).in(fmt::format("the image {} is complete", options_.image)));
}

}  // namespace ckpt::tools
