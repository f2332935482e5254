// SPDX-License-Identifier: Apache-2.0
//
// The session keeper: the part of ckpt-run and ckpt-restore that stays beside a program for as long
// as it runs. It answers the session's socket (agent/protocol.h), starts driver proxies, hands on
// signals, and sees how the program ends. One loop, in the thread that made it: what other threads
// want done they post().
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "agent/protocol.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/ipc/unix_socket.h"
#include "tools/device/device.h"
#include "tools/session/folder.h"
#include "tools/session/proxies.h"
#include "tools/session/signals.h"

namespace ckpt::tools {

// What the tools return when their program was dumped away (HTCondor's exit code for a checkpoint).
inline constexpr int kCheckpointedExitCode = 85;

class Keeper {
 public:
  struct Options {
    DeviceChoice devices;
    bool portable = false;
  };
  struct Outcome {
    int wait_status = 0;
    std::optional<std::string> image;  // it was dumped into this image and stopped
    std::optional<Error> error;        // it never ran
  };

  static Result<std::unique_ptr<Keeper>> create(Options options);

  const std::string &socket_path() const { return socket_path_; }
  const std::string &folder() const { return folder_.path(); }
  const KeeperSignals &signals() const { return signals_; }

  // The program runs; `own_session`: it does not hear the terminal's signals, so hand them on.
  void program_started(pid_t pid, bool own_session, bool our_child);
  // It has its devices too: from now on ckpt-dump finds it.
  void program_is_whole();
  void program_stopped(int signal);
  void program_ended(int wait_status);
  void program_failed(Error why);

  // Calls `f` in the loop, whenever `fd` can be read. `f` returns false to be taken off.
  void watch(int fd, std::function<bool()> f);
  void post(std::function<void()> f);
  // Agents of a restored program that come back are handed to `f`.
  void on_restored(std::function<void(UniqueFd, u32)> f) { restored_ = std::move(f); }
  // Around a stop of the whole job: the terminal is handed back and taken again.
  void on_job_stop(std::function<void()> before, std::function<void()> after);
  void on_window_change(std::function<void()> f) { window_changed_ = std::move(f); }

  pid_t program() const { return program_; }
  // Starts ckpt-dump on the program, in `folder`; `ended` hears its exit and what it reported, in
  // the loop.
  using DumpEnded = std::function<void(int wait_status, const nlohmann::json &report)>;
  Result<> start_dump(const std::vector<std::string> &arguments, const std::string &folder,
                      DumpEnded ended);

  // Serves until the program has ended and nothing of it uses a device any more.
  Outcome run();

 private:
  struct Client {
    UniqueFd fd;
    pid_t peer = 0;
    bool dumping = false;
  };
  struct Watch {
    int fd;
    std::function<bool()> call;
  };
  struct DumpRequest {
    pid_t dump;  // the ckpt-dump that we started
    UniqueFd report;
    DumpEnded ended;
  };

  Keeper(Options options, SessionFolder folder, KeeperSignals signals)
      : folder_(std::move(folder)),
        signals_(std::move(signals)),
        proxies_(std::move(options.devices), options.portable) {}

  bool finished() const;
  void turn();
  void accept_client();
  bool serve(Client &client);  // false: this client is done
  bool answer(Client &client, Message &message);
  Result<> proxy_wanted(Client &client, Message &message);
  Result<> checkpoint_wanted(Client &client, Message &message);
  Result<> contents_kept(Message &message);
  Result<> contents_wanted(Client &client, Message &message);
  Result<> devices_chosen(Message &message);
  void dump_hung_up();
  void handle_signals();
  void handle_signal(const signalfd_siginfo &info);
  void forward(int signal);
  void reap();
  void dump_over(pid_t pid, int wait_status);
  void reap_the_dead();
  void run_posted();

  SessionFolder folder_;
  KeeperSignals signals_;
  Proxies proxies_;
  std::string socket_path_;
  UniqueFd listener_;
  UniqueFd wake_;
  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;
  std::list<Client> clients_;
  std::list<Watch> watches_;
  std::list<DumpRequest> dump_requests_;
  std::function<void(UniqueFd, u32)> restored_;
  std::function<void()> before_stop_, after_stop_, window_changed_;

  pid_t program_ = 0;
  bool own_session_ = false;
  bool our_child_ = false;
  bool stopped_ = false;
  bool ended_ = false;
  int dumps_open_ = 0;
  std::vector<int> early_signals_;  // came before the program ran
  std::optional<std::string> dumped_image_;
  // Device memory of processes that CRIU looks at, by token.
  std::map<u64, std::vector<UniqueFd>> contents_;
  std::vector<pid_t> dying_;  // the processes of a dumped program
  Outcome outcome_;
};

}  // namespace ckpt::tools
