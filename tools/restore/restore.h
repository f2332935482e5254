// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore's main path, in a thread of its own while the keeper's loop serves the new session.
// restore() in restore.cc is the table of contents.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "tools/criu/stream_server.h"
#include "tools/phases.h"
#include "tools/restore/cancellable.h"
#include "tools/restore/memory_files.h"
#include "tools/restore/plan.h"
#include "tools/restore/restored_agents.h"
#include "tools/restore/restored_streams.h"
#include "tools/restore/session_alias.h"
#include "tools/restore/session_place.h"
#include "tools/restore/stem.h"
#include "tools/restore/supplied_files.h"
#include "tools/session/keeper.h"

namespace ckpt::tools {

class Restore {
 public:
  // Called in this object's thread once the program has its devices and runs.
  using Running = std::function<void(pid_t pid)>;

  // `help`: what become_owner() has returned. Starts the thread. A failure is reported to the
  // keeper, which then ends its loop.
  Restore(Keeper &keeper, const RestoreOptions &o, const RestorePlan &plan, Phases &phases,
          OwnersHelp help, Running running);
  ~Restore();

  // By a signal, before the program was ready: then its end is not its own.
  std::optional<Error> cancelled() const;

 private:
  void run();
  bool cancel(int signal);
  Result<> restore();
  void show_program();
  Result<> restore_host_side();
  void tell_copy();
  StreamEdits edits() const;
  Result<> lock_connections();
  Result<> not_cancelled() const;
  Result<> try_criu(bool new_namespace);
  Result<> run_stem(const std::string &folder, bool new_namespace);
  Result<> start_own_stem(const std::string &folder, bool new_namespace, StreamServer &server);
  Result<> start_helper_stem(const std::string &folder, StreamServer &server);
  std::vector<std::pair<int, u64>> inherited_pipes() const;
  std::set<pid_t> stopped_before() const;
  StemOptions stem_options(const std::string &folder, bool new_namespace) const;
  Result<> find_root(pid_t ns_root);
  Result<> hand_to_keeper();
  bool stem_event();
  Result<> bring_back_devices();
  Result<> serve_owed();
  Result<> load_rest();
  nlohmann::json report() const;
  nlohmann::json device_times() const;
  Result<> write_report() const;
  void note(const nlohmann::json &event) const;

  Keeper &keeper_;
  const RestoreOptions &options_;
  const RestorePlan &plan_;
  Phases &phases_;
  Running running_;

  std::unique_ptr<RestoredStreams> streams_;
  std::unique_ptr<SessionAlias> alias_;
  std::unique_ptr<SessionPlace> place_;  // of a copy, instead
  RestoredMemoryFiles memory_files_;
  SuppliedFiles supplied_files_;
  RestoredAgents agents_;
  Stem stem_;
  OwnersHelp help_;
  ConnectionLock connection_lock_;  // no packet may arrive before both ends of a connection exist
  bool new_namespace_ = false;
  bool number_was_taken_ = false;  // a PID, or N of a /dev/pts/N
  Cancellable cancellable_;
  pid_t root_ = 0;  // in our PID namespace
  std::thread thread_;
};

}  // namespace ckpt::tools
