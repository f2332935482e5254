// SPDX-License-Identifier: Apache-2.0
//
// All agents of one program, taken through the life cycle together.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "storage/write/image_writer.h"
#include "tools/agent/transfer.h"
#include "tools/dump/cancel.h"
#include "tools/dump/preflight.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class Agents {
 public:
  Agents(Cancel &cancel) : cancel_(cancel) {}

  Result<> connect(const Target &target);
  void preflight(Reasons &reasons);
  // What the processes have to say of their use of devices.
  std::vector<std::string> remarks();
  // In parallel; the first failure. What was begun is undone by hang_up().
  Result<> quiesce(std::chrono::milliseconds timeout);
  Result<> save(storage::ImageWriter &image);
  Result<> detach();
  // In the place of save() and detach(); how many bytes of device memory are in `folder`, or in
  // memory where that is empty. If one cannot, those that have wake up again.
  Result<u64> suspend(const std::string &folder, const std::string &session);
  // Before they detached: hangs up, and each agent undoes what it did. After: the word "failed".
  void undo(const std::string &why);
  void say_continue();

  bool none() const { return all_.empty(); }
  std::set<u64> outcome_pipes() const;         // inodes
  std::vector<int> outcome_pipe_ends() const;  // our ends; CRIU inherits them
  std::vector<std::string> participants() const;
  u64 saved_bytes() const { return progress_; }
  u64 unchanged_bytes() const;            // once saved: what needed no reading
  nlohmann::json describe() const;        // "agents"
  nlohmann::json describe_needs() const;  // "participants"

 private:
  struct Agent {
    pid_t host_pid = 0;
    AgentClient client;
    AgentClient::Welcome welcome;
    Staging staging;
    SavedAgent saved;
    UniqueFd word;
    u64 word_inode = 0;
    bool detached = false;
  };
  Result<> detach_one(Agent &agent);
  // Runs `f` for each agent in a thread of its own.
  Result<> for_each(const std::function<Result<>(Agent &, u32)> &f);

  Cancel &cancel_;
  std::vector<std::unique_ptr<Agent>> all_;
  std::atomic<u64> progress_ = 0;
};

}  // namespace ckpt::tools
