// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/restore.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/base/test_points.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/lazy/lazy_restore.h"
#include "tools/proc/process.h"
#include "tools/restore/affinity.h"
#include "tools/restore/copy_edits.h"
#include "tools/restore/grown_files.h"
#include "tools/restore/job_restore.h"
#include "tools/restore/kernel_state.h"
#include "tools/restore/stand_by.h"
#include "tools/restore/take_over.h"
#include "tools/session/process_tree.h"

namespace ckpt::tools {

Restore::Restore(Keeper &keeper, const RestoreOptions &o, const RestorePlan &plan, Phases &phases,
                 OwnersHelp help, Running running)
    : keeper_(keeper),
      options_(o),
      plan_(plan),
      phases_(phases),
      running_(std::move(running)),
      agents_(plan, keeper.socket_path()),
      help_(std::move(help)) {
  Keeper::Hooks &hooks = keeper_.hooks();
  hooks.restored = [this](UniqueFd fd, u32 agent) { agents_.connected(agent, std::move(fd)); };
  hooks.cancel = [this](int signal) { return cancel(signal); };
  hooks.window_changed = [this] {
    if (streams_) streams_->window_changed();
  };
  hooks.before_stop = [this] {
    if (streams_) streams_->before_stop();
  };
  hooks.after_stop = [this] {
    if (streams_) streams_->after_stop();
  };
  if (options_.served && options_.served->devices())
    agents_.load_later([this](AgentClient &client, const ContentsPlan &contents, u32 agent) {
      return options_.served->offer(keeper_, *plan_.image, client, contents, agent);
    });
  tell_copy();
  thread_ = std::thread([this] { run(); });
}

// The loop may have ended before the memory of an orphan of the program had arrived.
Restore::~Restore() {
  thread_.join();
  if (!options_.served) return;
  options_.served->stop();
  if (options_.served->failure()) keeper_.kill_program();
}

void Restore::run() {
  Result<> done = guarded([this] { return restore(); });
  std::optional<Error> cancelled = this->cancelled();
  if (done && !cancelled) return note({{"result", "ok"}});
  Error why = cancelled ? *cancelled : done.error();
  // Others see only that the program has ended.
  if (options_.served && options_.served->failure()) why = *options_.served->failure();
  note({{"result", "failed"}, {"why", why.what.substr(0, 2000)}});
  // Not only root_: if the stem was killed, CRIU and the processes that it has restored are the
  // keeper's children. program_failed() comes first, so that the keeper does not take the end of an
  // incomplete copy for the program's own end.
  keeper_.post([this, why] {
    keeper_.program_failed(why);
    keeper_.kill_program();
  });
}

std::optional<Error> Restore::cancelled() const {
  if (int signal = cancellable_.signal())
    return Error{fmt::format("cancelled by signal {}", signal), ""};
  return std::nullopt;
}

// Runs in the keeper's loop. The copy has not run yet, so CRIU may be killed at any moment.
bool Restore::cancel(int signal) {
  if (!cancellable_.cancel(signal)) return false;
  keeper_.kill_program();
  return true;
}

// Any failure ends the copy. The image stays as it is.
Result<> Restore::restore() {
  // In a job, nothing is started before all its programs can be restored.
  auto check = [this] { return not_cancelled(); };
  if (options_.job) {
    phases_.begin("job");
    CKPT_CHECK(options_.job->meet_before(check));
  }
  // CRIU brings back processes, memory and files, and leaves them stopped.
  phases_.begin("criu");
  if (options_.stand_by)
    agents_.read_ahead(options_.stand_by->contents());
  else
    agents_.read_ahead();
  CKPT_CHECK(memory_files_.write(plan_.manifest, *plan_.image));
  CKPT_CHECK(supplied_files_.write(plan_.manifest, *plan_.image, keeper_.folder()));
  CKPT_CHECK(restore_host_side());
  if (options_.served) CKPT_CHECK(serve_owed());
  CKPT_CHECK(truncate_grown_files(root_, plan_.manifest, options_.grown_files));
  // Packets may arrive again: of each connection, both ends exist.
  if (options_.job) CKPT_CHECK(options_.job->meet_restored(check));
  if (options_.take_over) {
    phases_.begin("take-over");
    CKPT_CHECK(options_.take_over->take(root_, check));
  }
  connection_lock_.release();
  // The keeper watches the program, and the stem continues it.
  CKPT_CHECK(hand_to_keeper());
  // Each agent learns that its process is a copy, gets devices with their contents, and opens its
  // gate.
  phases_.begin("devices");
  CKPT_CHECK(bring_back_devices());
  phases_.end();
  memory_files_.program_runs();
  // --json-report names what was restored.
  CKPT_CHECK(write_report());
  if (!options_.served) keeper_.post([this] { show_program(); });
  agents_.release_contents();
  return options_.served ? load_rest() : Result<>{};
}

Result<> Restore::serve_owed() {
  if (!plan_.rights.by_helper() || options_.served->owed().bytes() == 0)
    return options_.served->serve(keeper_, *plan_.image, root_, userfaultfd_of);
  int helper = stem_.events.get();
  CKPT_CHECK(options_.served->serve(keeper_, *plan_.image, root_, [helper](pid_t process) {
    return ask_for_userfaultfd(helper, process);
  }));
  return ask_no_more(helper);
}

// ckpt-dump accepts the program when it has all its memory: CRIU would take what is missing for
// pages that were never written.
Result<> Restore::load_rest() {
  test_point("memory-owed");
  keeper_.post([this] { running_(root_); });
  CKPT_CHECK(options_.served->load_rest(keeper_, !options_.detach && !streams_->on_our_terminal()));
  CKPT_CHECK(write_report());
  keeper_.post([this] { keeper_.program_ready(); });
  return {};
}

// Runs in the keeper's loop. From program_ready() on, ckpt-dump and ckpt-ps accept the program;
// only then does the process that waits with --detach print the PID and return.
void Restore::show_program() {
  keeper_.program_ready();
  if (options_.job) options_.job->serve(keeper_);
  running_(root_);
}

// What the program can learn of itself as a copy, also after a dump of it.
void Restore::tell_copy() {
  const CopyFacts *facts = plan_.manifest.copy ? &*plan_.manifest.copy : nullptr;
  if (options_.copy) facts = &options_.copy->facts;
  if (facts) keeper_.write_file(kCopyFile, facts->text());
}

// The manifest has the PIDs that these processes see themselves.
std::set<pid_t> Restore::stopped_before() const {
  std::set<pid_t> ns_pids = plan_.manifest.stopped(), pids;
  for (const Process &p : ProcessTable::read().tree(root_))
    if (ns_pids.contains(p.ns_pid())) pids.insert(p.pid);
  return pids;
}

Result<> Restore::hand_to_keeper() {
  CKPT_CHECK(restore_first_code(root_, plan_.manifest));
  restore_affinities(root_, plan_.manifest);
  restore_kernel_state(root_, plan_.manifest);
  // The signal is ignored where it is not wanted.
  if (streams_->return_window_size())
    for (const Process &p : ProcessTable::read().tree(root_)) ::kill(p.pid, SIGWINCH);
  // What it prints from here on would be printed again by another restore of the image.
  if (!cancellable_.close()) return fail("cancelled");
  // ckpt-helper's stem continues no process. It checks the program after this acknowledgement, and
  // must not find it stopped.
  if (plan_.rights.by_helper()) continue_tree(root_, stopped_before());
  CKPT_CHECK(let_continue(stem_.events.get()));
  if (options_.served) options_.served->went_on(phases_.total_seconds());
  streams_->handed_over();
  plan_.fifos->release();
  agents_.handed_over();
  bool own_session = new_namespace_ || streams_->own_terminal() || session_is_outside();
  keeper_.post([this, own_session] {
    keeper_.program_started(root_, own_session);
    keeper_.watch(stem_.events.get(), [this] { return stem_event(); });
  });
  return {};
}

// Runs in the keeper's loop.
bool Restore::stem_event() {
  Result<StemEvent> e = next_event(stem_.events.get());
  if (e && e->kind == StemEvent::Stopped) {
    keeper_.program_stopped(e->value);
    return true;
  }
  // No event: the stem was killed. The keeper, a subreaper, inherits the program and its exit code,
  // unless the stem was the first process of a PID namespace, which ends with it.
  if (!e && !new_namespace_ && read_process(root_)) return false;
  agents_.program_ended();
  if (!keeper_.program_has_ended()) keeper_.program_ended(e ? e->value : SIGKILL);
  return false;
}

// A program without its devices would write wrong results, so only the user may decide to continue
// it.
Result<> Restore::bring_back_devices() {
  Result<> done = agents_.bring_back(stem_.pid);
  if (done) return {};
  if (!options_.continue_without_devices)
    return fail_with_hint(
        done.error().what,
        "the copy was ended, and the image is unchanged; with --continue-without-devices it "
        "continues, and every call that needs a device returns an error");
  log::error("{}; the program continues without them", done.error().what);
  agents_.continue_without_devices();
  return {};
}

}  // namespace ckpt::tools
