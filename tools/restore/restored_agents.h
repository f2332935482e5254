// SPDX-License-Identifier: Apache-2.0
//
// All agents of one restored program: the counterpart of tools/dump/agents.h.
//
// A restored agent first reads its outcome pipe, as it would after a dump. The outcome "restored"
// tells it that its process is a copy, and names the new session's socket. The agent connects
// there, and the keeper passes the connection on to connected().
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/agent_link/agent_client.h"
#include "tools/agent_link/contents_ahead.h"
#include "tools/restore/plan.h"

namespace ckpt::tools {

// Begins to decompress the contents of all devices of an image on `threads` threads, as far as host
// memory is free. `earlier`: of an image of the same chain.
std::vector<std::unique_ptr<ContentsAhead>> begin_contents(
    const storage::ImageReader &image, const ImageManifest &m, unsigned threads,
    std::vector<std::unique_ptr<ContentsAhead>> earlier = {});

class RestoredAgents {
 public:
  // `session` is the socket of the new session.
  RestoredAgents(const RestorePlan &plan, std::string session)
      : plan_(plan), session_(std::move(session)) {}

  // Which regions of an agent's plan come while the program runs, if any do (DeviceContents).
  using Later = std::function<Result<std::vector<bool>>(AgentClient &, const ContentsPlan &, u32)>;
  void load_later(Later later) { later_ = std::move(later); }

  // Creates new outcome pipes for one attempt of CRIU.
  Result<> make_outcome_pipes();
  // Begins to decompress the contents of all devices into free host memory, while CRIU and device
  // drivers work. `begun`: what begin_contents() has returned for this image; {}: nothing yet.
  void read_ahead(std::vector<std::unique_ptr<ContentsAhead>> begun = {});
  // For criu --inherit-fd: our descriptor of each pipe, and its inode in the image.
  std::vector<std::pair<int, u64>> outcome_pipes() const;
  // CRIU has inherited the read ends, so ours are closed.
  void handed_over();

  // Called in the keeper's loop.
  void connected(u32 agent, UniqueFd fd);
  void program_ended();

  // Attaches all agents, loads their contents and opens their gates. `stem` is the program's
  // parent. A restored program runs at once, before its devices are back. A process that ends in
  // between, without having called a device, is not a failure.
  //
  // If an agent fails, no gate opens: the agents wait until the connections close, and the caller
  // ends the program before that.
  Result<> bring_back(pid_t stem);
  // After bring_back() has failed: the program continues, and every call of its lost devices fails.
  void continue_without_devices();
  // Frees what read_ahead() has taken. That takes a while, so the program runs before.
  void release_contents() { ahead_.clear(); }
  // After bring_back(): the longest time in which the kernels of one process were compiled.
  double compile_seconds() const { return compile_seconds_; }
  // After bring_back(): the longest time of each step, and what was decompressed ahead.
  struct Times {
    double connect = 0, attach = 0, load = 0;
    u64 ahead_bytes = 0;
    double ahead_seconds = 0;
  };
  const Times &times() const { return times_; }

 private:
  struct OutcomePipe {
    UniqueFd read_end, write_end;
  };
  struct Agent {
    std::optional<AgentClient> client;
    std::optional<StagingSlots> staging;
    double compile_seconds = 0;
    Times times;
  };
  Result<> bring_back_one(u32 number, Agent &agent);
  Result<> failed(u32 number, Error why);
  void note_times();
  Result<UniqueFd> wait_for_connection(u32 number);
  bool process_lives(pid_t ns_pid) const;
  bool process_ended(pid_t ns_pid);

  const RestorePlan &plan_;
  const std::string session_;
  pid_t stem_ = 0;
  Later later_;
  std::vector<OutcomePipe> pipes_;
  std::vector<std::unique_ptr<ContentsAhead>> ahead_;  // by the agent's number
  std::vector<Agent> agents_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<u32, UniqueFd> connections_;
  bool ended_ = false;
  double compile_seconds_ = 0;
  Times times_;
};

}  // namespace ckpt::tools
