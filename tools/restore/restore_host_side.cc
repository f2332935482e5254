// SPDX-License-Identifier: Apache-2.0
//
// The host side of a restore: CRIU in a stem, which this process or ckpt-helper starts.
#include <fcntl.h>

#include <algorithm>
#include <array>

#include "common/base/new_file.h"
#include "helper/criu_arguments.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/criu/stream_server.h"
#include "tools/lazy/lazy_restore.h"
#include "tools/proc/process.h"
#include "tools/restore/copy_edits.h"
#include "tools/restore/image_edits.h"
#include "tools/restore/kept_links.h"
#include "tools/restore/recorded_sockets.h"
#include "tools/restore/restore.h"
#include "tools/restore/waiting_locks.h"
#include "tools/session/namespace_root.h"

namespace ckpt::tools {
namespace {

constexpr const char *kLog = "restore.log";
constexpr pid_t kPidGap = 50;  // leaves the PIDs just above the image's to CRIU's helpers

// CRIU's messages for a process, for a thread (-17 is EEXIST) and for a pseudo-terminal. The kernel
// frees a thread's ID shortly after its process has vanished from /proc, so pids_taken() may have
// missed one. Any program may take a number after it was checked.
bool says_number_was_taken(const std::string &error) {
  constexpr std::array kMessages{"Can't fork for", "Unable to create a thread: -17",
                                 "Unable to open dev/ptmx with specified index"};
  return std::ranges::any_of(kMessages,
                             [&](const char *m) { return error.find(m) != std::string::npos; });
}

}  // namespace

// In this PID namespace if all PIDs and pseudo-terminals are free, otherwise in a new one. With
// ckpt-helper always in a new one, so that a user's image cannot choose PIDs in the machine's
// namespace. A copy always has one of its own.
Result<> Restore::restore_host_side() {
  if (options_.copy) {
    place_ = std::make_unique<SessionPlace>(plan_.manifest.session_folder);
    return try_criu(true);
  }
  alias_ = std::make_unique<SessionAlias>(plan_.manifest.session_folder, keeper_.folder());
  keeper_.hooks().renewed = [alias = alias_.get()] { alias->renew(); };
  if (plan_.rights.by_helper() || plan_.manifest.isolated || !may_choose_pids())
    return try_criu(true);
  if (!pids_taken(plan_.manifest) && !terminals_taken(plan_.manifest)) {
    Result<> done = try_criu(false);
    // A number may have been taken since. The copy has not run yet, so a second attempt is safe.
    if (done || !number_was_taken_) return done;
  }
  return try_criu(true);
}

Result<> Restore::try_criu(bool new_namespace) {
  new_namespace_ = new_namespace;
  CKPT_TRY(streams_, RestoredStreams::plan(plan_.manifest, *plan_.image,
                                           {.detach = options_.detach || options_.copy,
                                            .new_namespace = new_namespace,
                                            .output_file = options_.copy ? options_.copy->output
                                                                         : options_.output_file}));
  CKPT_CHECK(agents_.make_outcome_pipes());
  CKPT_TRY(SessionFolder folder, SessionFolder::create("restore-"));
  Result<> done = run_stem(folder.path(), new_namespace);
  if (done) return {};
  Error e = done.error();
  UniqueFd log(::open(folder.file(kLog).c_str(), O_RDONLY | O_CLOEXEC));
  if (Result<std::string> kept =
          copy_to_unique_file(log.get(), runtime_folder() + "/ckpt-restore-", ".log"))
    e.what += fmt::format("; its log is {}", *kept);
  return Failure(std::move(e));
}

std::vector<std::pair<int, u64>> Restore::inherited_pipes() const {
  std::vector<std::pair<int, u64>> all = streams_->pipes();
  std::vector<std::pair<int, u64>> outcome = agents_.outcome_pipes();
  all.insert(all.end(), outcome.begin(), outcome.end());
  return all;
}

StemOptions Restore::stem_options(const std::string &folder, bool new_namespace) const {
  const ImageManifest &m = plan_.manifest;
  StemOptions s{.criu = {},
                .folder = folder,
                .terminal = streams_->terminal(),
                .own_terminal = streams_->own_terminal(),
                .new_namespace = new_namespace,
                .own_terminals = !m.streams.own_terminals.empty(),
                .leave_stopped = m.stopped()};
  for (auto [fd, inode] : inherited_pipes()) s.inherited.push_back(fd);
  s.criu = helper::restore_arguments({.criu = plan_.criu.path,
                                      .folder = folder,
                                      .log = kLog,
                                      .errors_only = errors_only(m.file_size_limit),
                                      .unprivileged = plan_.rights.without_root(),
                                      .tcp_close = m.for_copies && m.for_copies->tcp_close,
                                      .inherited = inherited_pipes()});
  s.criu.push_back("--restore-sibling");  // a child of the stem
  s.isolated = m.isolated;
  s.keep_capabilities = plan_.rights.way == CriuRights::Way::Own;
  s.last_pid = m.pids().back() + kPidGap;
  bool linked = alias_ && alias_->linked();
  if (new_namespace && !linked && m.session_folder != keeper_.folder()) {
    s.bind_from = keeper_.folder();
    s.bind_to = m.session_folder;
  }
  return s;
}

StreamEdits Restore::edits() const {
  std::function<void(ProtoMessage &)> more = [this](ProtoMessage &file) {
    supplied_files_.edit(file);
  };
  if (options_.copy)
    more = [this, edits = CopyEdits(plan_.manifest, CriuFiles::of(*plan_.image), *options_.copy)](
               ProtoMessage &file) {
      edits.edit(file);
      supplied_files_.edit(file);
    };
  StreamEdits all =
      image_edits(plan_.manifest, options_.grown_files, plan_.rights, std::move(more));
  return options_.served ? without_owed(all, options_.served->owed()) : all;
}

Result<> Restore::run_stem(const std::string &folder, bool new_namespace) {
  CKPT_CHECK(not_cancelled());
  CKPT_CHECK(lock_connections());
  KeptLinks links;
  CKPT_CHECK(links.make(plan_.manifest.links));
  StreamServer server(*plan_.image, edits());
  CKPT_CHECK(plan_.rights.by_helper() ? start_helper_stem(folder, server)
                                      : start_own_stem(folder, new_namespace, server));
  wait_and_name_locks(stem_.events.get(), stem_.pid, plan_.manifest);
  Result<StemEvent> ended = next_event(stem_.events.get());
  Result<> served = server.finish();
  if (!ended) return fail("the stem, in which CRIU restores the program, ended early");
  if (ended->value != 0) {
    // If the image could not be read, CRIU fails too. The error of the image is the cause.
    if (!served) return served;
    Error e = criu_error(folder + "/" + kLog, "restore", ended->value);
    number_was_taken_ = says_number_was_taken(e.what);
    return Failure(std::move(e));
  }
  CKPT_TRY(StemEvent started, next_event(stem_.events.get()));
  return find_root(started.value);
}

Result<> Restore::not_cancelled() const {
  if (cancellable_.signal() != 0) return fail("cancelled");
  return {};
}

Result<> Restore::lock_connections() {
  connection_lock_ = std::move(help_.connection_lock);
  std::vector<PacketFlow> flows = flows_of(plan_.manifest);
  if (flows.empty() || plan_.rights.way == CriuRights::Way::ForUser) return {};
  CKPT_TRY(connection_lock_, ConnectionLock::take(flows));
  return {};
}

Result<> Restore::start_own_stem(const std::string &folder, bool new_namespace,
                                 StreamServer &server) {
  CKPT_CHECK(server.start(folder));
  CKPT_TRY(stem_, start_stem(stem_options(folder, new_namespace)));
  if (options_.served) options_.served->stem_started(stem_.pid);
  return {};
}

Result<> Restore::start_helper_stem(const std::string &folder, StreamServer &server) {
  StemOptions o = stem_options(folder, true);
  helper::Request request;
  request.type = helper::Type::Restore;
  request.root = plan_.manifest.root_pid;
  request.last_pid = o.last_pid;
  request.seen_from = o.bind_from;
  request.seen_as = o.bind_to;
  if (errors_only(plan_.manifest.file_size_limit)) request.flags |= helper::kErrorsOnly;
  if (o.own_terminals) request.flags |= helper::kOwnTerminals;
  if (o.own_terminal) request.flags |= helper::kTerminal;
  if (options_.served && options_.served->owed().bytes() > 0) request.flags |= helper::kLazy;
  if (o.own_terminal) request.terminal = copy_of(o.terminal);
  request.log.reset(
      ::open((folder + "/" + kLog).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  request.inherited = copies_of(inherited_pipes());
  if (!help_.helper) {
    CKPT_TRY(help_.helper, connect_helper(plan_.rights, plan_.criu));
  }
  stem_.events = std::move(help_.helper);
  CKPT_TRY(HelperRun run, request_run(stem_.events.get(), request));
  stem_.pid = run.pid;
  if (options_.served) options_.served->stem_started(stem_.pid);
  keeper_.post([this, stem = run.pid] { keeper_.stem_started(stem); });
  return run.streams ? server.start(std::move(run.streams)) : Result<>{};
}

Result<> Restore::find_root(pid_t ns_root) {
  ProcessTable table = ProcessTable::read();
  for (pid_t child : table.children(stem_.pid))
    if (table.find(child)->ns_pid() == ns_root) root_ = child;
  return root_ ? Result<>{} : fail("the restored program is not among the children of its stem");
}

}  // namespace ckpt::tools
