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
// keeper.cc has the loop, the signals and the end of the program; requests.cc has the requests of
// agent/protocol.h.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "agent/protocol.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/ipc/listener.h"
#include "common/ipc/message_reader.h"
#include "tools/device/device.h"
#include "tools/proc/process.h"
#include "tools/session/proxies.h"
#include "tools/session/session_files.h"
#include "tools/session/session_folder.h"
#include "tools/session/signals.h"

namespace ckpt::tools {

// The exit code after the program was checkpointed and stopped, as in HTCondor.
inline constexpr int kCheckpointedExitCode = 85;

class Keeper {
 public:
  struct Options {
    DeviceChoice devices;
    bool portable = false;
    ProgramEnvironment environment = {};  // what was changed for the program
  };
  struct Outcome {
    int wait_status = 0;
    std::optional<std::string> image;  // it was checkpointed into this image and stopped
    std::optional<Error> error;        // it could not be started
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
  // ckpt-helper restores the program: the program and its orphans are descendants of this process,
  // not of ours.
  void stem_started(pid_t stem) { helper_stem_ = stem; }
  // An image of the program is complete, or it was restored from one. Shown by ckpt-ps, and marked
  // when the program ends by itself (end_mark.h).
  void image_written(const std::string &image);
  // Ends the program, completely or partly restored, and the processes that restore it.
  void kill_program();
  void program_ended(int wait_status);
  void program_failed(Error why);

  // Calls `f` in the loop whenever `fd` is readable, until `f` returns false.
  void watch(int fd, std::function<bool()> f);
  // Runs `f` in the loop. May be called by any thread.
  void post(std::function<void()> f);
  // Called each hour, when the files of the session get new times.
  void on_renewal(std::function<void()> f) { renewed_ = std::move(f); }
  // Passes connections from agents of restored copies to `f`, with the agents' numbers.
  void on_restored(std::function<void(UniqueFd, u32)> f) { restored_ = std::move(f); }
  // Called before and after the keeper stops together with its program, to give the terminal back
  // and take it again.
  void on_job_stop(std::function<void()> before, std::function<void()> after);
  // Called instead of forwarding INT, TERM, HUP or QUIT as long as there is no program.
  void on_cancel(std::function<void(int signal)> f) { cancel_ = std::move(f); }
  // Called for a signal before it is forwarded or cancels a restore. True: the signal has been
  // handled.
  void on_signal(std::function<bool(int signal)> f) { signal_ = std::move(f); }
  void on_window_change(std::function<void()> f) { window_changed_ = std::move(f); }

  pid_t program() const { return program_; }
  bool program_has_ended() const { return ended_; }
  // Whether one of its processes lives, as far as the kernel knows by now.
  bool program_lives() const;
  // A restore is under way that can be cancelled.
  bool restoring() const { return program_ == 0 && !ended_ && cancel_; }
  void cancel(int signal) { cancel_(signal); }
  // The program has its devices, and no dump of it is under way.
  bool accepts_dumps() const { return ready_ && !ended_ && dumps_open_ == 0 && !has_own_dump(); }
  // Starts ckpt-dump on the program, in `folder`, with the descriptors `inherited`. Then calls
  // `ended` in the loop, with its exit status and its report.
  using DumpEnded = std::function<void(int wait_status, const nlohmann::json &report)>;
  Result<> start_dump(const std::vector<std::string> &arguments, const std::string &folder,
                      DumpEnded ended, const std::vector<int> &inherited = {});
  // The same for a ckpt-dump that coordinates the checkpoint of a job, of which the program is one:
  // dumps of the program are accepted meanwhile.
  Result<> start_job_dump(const std::vector<std::string> &arguments, const std::string &folder,
                          DumpEnded ended);

  // Serves until the program has ended and no process of it uses a device any more.
  Outcome run();

 private:
  struct Client {
    Client(UniqueFd fd, Listener::Id newcomer, pid_t peer);
    UniqueFd fd;
    Listener::Id newcomer;
    pid_t peer;
    MessageReader requests;
    bool dumping = false;
  };
  struct Watch {
    int fd;
    std::function<bool()> call;
  };
  struct DumpRequest {
    pid_t dump;  // the PID of ckpt-dump
    bool own;    // of this program alone
    UniqueFd report;
    DumpEnded ended;
  };
  bool has_own_dump() const { return std::ranges::any_of(dump_requests_, &DumpRequest::own); }
  Result<> start_ckpt_dump(std::vector<std::string> arguments, const std::string &folder, bool own,
                           DumpEnded ended, const std::vector<int> &inherited);

  Keeper(Options options, SessionFolder folder, KeeperSignals signals)
      : folder_(std::move(folder)),
        files_(folder_.path()),
        signals_(std::move(signals)),
        proxies_(std::move(options.devices), options.portable, std::move(options.environment)) {}

  Result<> renew_files_hourly();
  bool finished();
  std::vector<Process> processes_of_program() const;
  bool dump_has_orphans() const;
  std::vector<pid_t> children_of_program(const ProcessTable &table) const;
  void turn();
  void turn_listener();
  void accept(Listener::Connection connection);
  bool serve(Client &client);  // false: closes the connection
  bool answer(Client &client, Message &message);
  // What to do after a request: reply Ok, do nothing (the reply is sent already), or close the
  // connection here, because another process or thread has taken it over.
  enum class Answer { Ok, Sent, Close };
  Result<Answer> handle(Client &client, Message &message);
  Result<Answer> start_proxy(Client &client, Message &message);
  Result<Answer> adopt_proxy(Client &client, Message &message);
  Result<Answer> drop_proxy(Message &message);
  Result<Answer> begin_dump(Client &client);
  Result<Answer> image_complete(Message &message);
  Result<Answer> note_image(Message &message);
  Result<Answer> keep_contents(Message &message);
  Result<Answer> return_contents(Client &client, Message &message);
  Result<Answer> choose_devices(Message &message);
  Result<Answer> tell_devices(Client &client, Message &message);
  Result<Answer> start_checkpoint(Client &client, Message &message);
  Result<Answer> accept_restored(Client &client, Message &message);
  void mark_dump(bool under_way);
  void dump_disconnected();
  void continue_program();
  void handle_signals();
  void handle_signal(const signalfd_siginfo &info);
  void forward(int signal);
  void reap();
  void dump_ended(pid_t pid, int wait_status);
  void reap_dumped_processes();
  void run_posted();

  SessionFolder folder_;
  SessionFiles files_;
  UniqueFd renewal_;
  KeeperSignals signals_;
  Proxies proxies_;
  std::string socket_path_;
  std::unique_ptr<Listener> listener_;
  UniqueFd wake_;
  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;
  std::list<Client> clients_;
  std::list<Watch> watches_;
  std::list<DumpRequest> dump_requests_;
  std::function<void(UniqueFd, u32)> restored_;
  std::function<void(int)> cancel_;
  std::function<bool(int)> signal_;
  std::function<void()> before_stop_, after_stop_, window_changed_, renewed_;

  pid_t helper_stem_ = 0;
  pid_t program_ = 0;
  bool own_session_ = false;
  bool ready_ = false, ended_ = false;
  int dumps_open_ = 0;
  std::set<pid_t> stopped_before_dump_;  // by the program or its user
  pid_t stop_watcher_ = 0;               // the last one
  std::set<pid_t> foreign_;         // children that this process had before (kForeignChildrenFile)
  std::vector<int> early_signals_;  // arrived before the program ran
  std::optional<std::string> dumped_image_;
  std::string last_image_;
  // Files with device contents of processes in a checkpoint, by token.
  std::map<u64, std::vector<UniqueFd>> contents_;
  std::vector<pid_t> dumped_processes_;  // of a program that was checkpointed and is being killed
  Outcome outcome_;
};

// Why a dump failed, by its report.
Error dump_error(const nlohmann::json &report);

}  // namespace ckpt::tools
