// SPDX-License-Identifier: Apache-2.0
//
// The session keeper: the process of ckpt-run or ckpt-restore that stays beside a program while it
// runs.
//
// Why there is a keeper. Some tasks must continue while CRIU dumps the program, so a thread inside
// of the program cannot do them:
//
//   the socket     Agents, tools and the program's own ckpt_checkpoint() calls meet at
//                  session.sock, in the session's folder, before, during and after a checkpoint.
//   the proxies    A proxy holds the real driver, so it must not be in the program's process tree,
//                  which CRIU dumps. It is a child of the keeper instead.
//   the safety     ckpt-dump connects before it touches the program. If the tool is killed, the
//                  connection closes, and the keeper continues the program, or ends it if its image
//                  was complete already.
//   the exit code  The parent of ckpt-run waits for it. The keeper returns the exit code of the
//                  program or dies by the same signal, stops when the program is stopped, and
//                  forwards signals. After a dump it returns 85 instead.
//   the orphans    As a child subreaper (prctl(2)) the keeper inherits processes that leave the
//                  program's tree. ckpt-dump can then report them, and no zombie occupies a PID.
//
// The keeper is one poll(2) loop in the thread that has created it, so its state needs no locks. It
// waits for signals (a signalfd), for requests (the session's socket and its connections), and for
// watched descriptors. Other threads run functions in the loop by post().
//
// This class has the loop, the signals and the end of the program. The requests of agent/protocol.h
// are in requests.h, the dumps that the keeper starts in dump_tools.h, and program_processes.h
// knows which processes are the program's.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/protocol.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/device/device.h"
#include "tools/proc/process.h"
#include "tools/session/dump_tools.h"
#include "tools/session/posted_calls.h"
#include "tools/session/program_processes.h"
#include "tools/session/proxies.h"
#include "tools/session/requests.h"
#include "tools/session/session_files.h"
#include "tools/session/session_folder.h"
#include "tools/session/signals.h"

namespace ckpt::tools {

// The exit code after the program was checkpointed and stopped, as in HTCondor.
inline constexpr int kCheckpointedExitCode = 85;
// Of ckpt-run and ckpt-restore, if ckpt-migrate has moved the program to another machine. A batch
// system must not start the program again, as it does after 85.
inline constexpr int kMovedExitCode = 87;

class Keeper {
 public:
  struct Options {
    DeviceChoice devices;
    bool portable = false;
    ProgramEnvironment environment = {};  // what was changed for the program
  };
  struct Outcome {
    int wait_status = 0;
    std::optional<std::string> image;     // it was checkpointed into this image and stopped
    std::optional<std::string> moved_to;  // and goes on, on this machine
    std::optional<Error> error;           // it could not be started
  };

  static Result<std::unique_ptr<Keeper>> create(Options options);

  const std::string &socket_path() const { return socket_path_; }
  const std::string &folder() const { return folder_.path(); }
  const KeeperSignals &signals() const { return signals_; }

  // Writes a file into the session's folder, and again if it is removed there. Before run(), or in
  // the loop.
  void write_file(std::string_view name, const std::string &content);

  // The program runs. `own_session`: it does not get the terminal's signals, so they are forwarded.
  void program_started(pid_t pid, bool own_session);
  // The program has its devices too: from now on ckpt-dump accepts it.
  void program_ready();
  void program_stopped(int signal);
  // ckpt-helper restores the program (program_processes.h).
  void stem_started(pid_t stem) { processes_.are_below(stem); }
  // An image of the program is complete, or it was restored from one. Shown by ckpt-ps, and marked
  // when the program ends by itself (end_mark.h).
  void image_written(const std::string &image);
  // Ends the program, completely or partly restored, and the processes that restore it.
  void kill_program() { processes_.kill(); }
  void program_ended(int wait_status);
  void program_failed(Error why);

  // Calls `f` in the loop whenever `fd` is readable, until `f` returns false.
  void watch(int fd, std::function<bool()> f);
  // Runs `f` in the loop. May be called by any thread.
  void post(std::function<void()> f) { posted_.add(std::move(f)); }
  // What is called in the loop; none of them need be set.
  struct Hooks {
    // Each hour, when the files of the session get new times.
    std::function<void()> renewed;
    // With connections from agents of restored copies, and the agents' numbers.
    std::function<void(UniqueFd, u32)> restored;
    // Before and after the keeper stops together with its program, to give the terminal back and
    // take it again.
    std::function<void()> before_stop, after_stop;
    // Instead of forwarding INT, TERM, HUP or QUIT as long as there is no program. False: it is too
    // late, because the program runs.
    std::function<bool(int signal)> cancel;
    // For a signal before it is forwarded or cancels a restore. True: the signal has been handled.
    std::function<bool(int signal)> signal;
    std::function<void()> window_changed;
  };
  Hooks &hooks() { return hooks_; }

  pid_t program() const { return program_; }
  bool program_has_ended() const { return ended_; }
  bool program_lives() const { return processes_.any(); }
  // Ends a restore that is under way. False: there is none, or its program runs already.
  bool cancel(int signal) {
    return program_ == 0 && !ended_ && hooks_.cancel && hooks_.cancel(signal);
  }
  // The program has its devices, and no dump of it is under way.
  bool accepts_dumps() const {
    return ready_ && !ended_ && dump_.open == 0 && !dumps_.any_of_program();
  }
  // Starts ckpt-dump on the program, in `folder`, with the descriptors `inherited`. Then calls
  // `ended` in the loop, with its exit status and its report.
  using DumpEnded = DumpTools::Ended;
  Result<> start_dump(const std::vector<std::string> &arguments, const std::string &folder,
                      DumpEnded ended, const std::vector<int> &inherited = {});
  // From now on, all images that start_dump() makes carry files (ckpt-dump --with-files).
  void carry_files() { carries_files_ = true; }
  // The same for a ckpt-dump that coordinates the checkpoint of a job, of which the program is one:
  // dumps of the program are accepted meanwhile.
  Result<> start_job_dump(const std::vector<std::string> &arguments, const std::string &folder,
                          DumpEnded ended);

  // Serves until the program has ended and no process of it uses a device any more.
  Outcome run();

 private:
  friend class KeeperRequests;  // its part of the loop

  struct Watch {
    int fd;
    std::function<bool()> call;
  };
  struct DumpState {
    int open = 0;                      // connections of ckpt-dumps that are under way
    std::set<pid_t> stopped_before;    // by the program or its user
    std::optional<std::string> image;  // that is complete, and ends the program
    std::vector<pid_t> processes;      // of the program that is being killed
  };

  Keeper(Options options, SessionFolder folder, KeeperSignals signals)
      : folder_(std::move(folder)),
        files_(folder_.path()),
        signals_(std::move(signals)),
        proxies_(std::move(options.devices), options.portable, std::move(options.environment)) {}

  Result<> renew_files_hourly();
  bool finished();
  bool dump_has_orphans() const;
  void turn();
  void dump_begins(bool on_new_connection);
  void dump_disconnected();
  void image_complete(std::string image, std::optional<std::string> moved_to);
  void continue_program();
  void handle_signals();
  void handle_signal(const signalfd_siginfo &info);
  void forward(int signal);
  void reap();
  void reap_dumped_processes();

  SessionFolder folder_;
  SessionFiles files_;
  UniqueFd renewal_;
  KeeperSignals signals_;
  Proxies proxies_;
  ProgramProcesses processes_{proxies_};
  std::string socket_path_;
  KeeperRequests requests_{*this};
  PostedCalls posted_;
  std::list<Watch> watches_;
  DumpTools dumps_;
  bool carries_files_ = false;
  Hooks hooks_;

  pid_t program_ = 0;
  bool own_session_ = false;
  bool ready_ = false, ended_ = false;
  DumpState dump_;
  pid_t stop_watcher_ = 0;          // the last one
  std::vector<int> early_signals_;  // arrived before the program ran
  std::string last_image_;
  Outcome outcome_;
};

}  // namespace ckpt::tools
