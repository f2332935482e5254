// SPDX-License-Identifier: Apache-2.0
//
// Takes all agents of one program through the life cycle together.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "storage/write/image_writer.h"
#include "tools/agent_link/parent_reader.h"
#include "tools/agent_link/save_contents.h"
#include "tools/dump/cancel.h"
#include "tools/manifest/manifest.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class Agents {
 public:
  Agents(Cancel &cancel) : cancel_(cancel) {}

  Result<> connect(const Target &target);
  Result<> connect_to(pid_t process, const std::string &socket);
  void preflight(Reasons &reasons);
  // Remarks of all agents on their processes' use of devices.
  std::vector<std::string> remarks();
  std::vector<std::string> devices();  // the names of those that the processes use
  // The processes with callbacks that run before the dump.
  std::set<pid_t> with_callbacks();
  // Host memory for contents, while the program still runs; at most `bytes` bytes in each agent.
  Result<> prepare(u64 bytes);
  // Processes that hold device memory during the dump, in programs that were started for that.
  Result<> start_owners();
  // Contents may be copied when the program runs again.
  Result<> allow_owed();
  // Contents that can be copied while the program still runs, in at most so many rounds.
  Result<> copy_ahead(u32 rounds);
  // Devices will look at their memory before they copy it into the image. `ends`: the dump ends the
  // program, so what the parent image has need not be copied; `key` is its key.
  Result<> look(storage::ImageWriter &image, bool ends, const storage::Key *key);
  // The image is complete and the program has ended.
  void end_parent_readers();
  void end_owners();
  // These three run in all agents in parallel and return the first failure, which undo() then
  // undoes.
  Result<> quiesce(std::chrono::milliseconds timeout);
  // With `later`, contents that an agent keeps in memory itself are left for write_kept().
  Result<> save(storage::ImageWriter &image, bool later);
  Result<> detach();
  // Whether contents are still to come when the agents have detached.
  bool any_later() const;
  // Whether some have not come yet, and all that are to come are copied also while the program
  // runs.
  bool later_while_it_runs() const;
  // Returns when they have come.
  Result<> wait_for_later();
  Result<> write_kept(storage::ImageWriter &image);
  // Instead of save() and detach(). Returns the bytes of contents that were moved to `folder`, or
  // to host memory if it is empty. If one agent fails, the others are woken again.
  Result<u64> suspend(const std::string &folder, const std::string &session, protocol::Depth depth);
  // After connect(): all processes are suspended.
  bool suspended() const;
  // What the program has given back: Full only if that holds for all its processes.
  protocol::Depth depth();
  // Why this depth cannot be had: agents of an earlier version.
  void check_depth(protocol::Depth depth, Reasons &reasons);
  // Takes the processes at Depth::Memory to Depth::Full. Returns the bytes of their contents. If
  // one agent fails, its process is as before.
  Result<u64> deepen();
  // Closes the connections, so that agents that are attached undo what they did, and sends the
  // outcome "failed" to the detached ones.
  void undo(const std::string &why);
  // Sends the outcome "continue": the dump has succeeded.
  // `owed`: contents that are copied while the program runs are not there yet.
  void send_continue(bool owed = false);

  bool empty() const { return all_.empty(); }
  bool any_detached() const;
  void clear() { all_.clear(); }
  std::set<u64> outcome_pipes() const;         // inodes
  std::vector<int> outcome_pipe_ends() const;  // our ends; CRIU inherits them
  // After quiesce(): the seconds that it took at most in one process, for each API whose devices
  // had to become idle, and for "callbacks".
  std::map<std::string, double> waits() const;
  // After save(): the bytes of contents of devices.
  u64 device_bytes() const;
  // After save(): the bytes that were not read because they equal the parent's.
  u64 unchanged_bytes() const;
  // After save(): the bytes that were not read because a device saw that they are zero, and why
  // devices did not look.
  u64 zero_bytes() const;
  std::vector<std::string> blind() const;
  std::vector<manifest::Agent> describe() const;
  std::vector<manifest::Requirement> describe_requirements() const;

 private:
  struct Agent {
    pid_t host_pid = 0;
    AgentClient client;
    AgentClient::Welcome welcome;
    StagingSlots staging;
    SavedAgent saved;
    std::map<std::string, double> waits;
    std::unique_ptr<ParentReader> parent = {};
    UniqueFd outcome_pipe;  // the write end
    u64 outcome_inode = 0;
  };
  Result<> offer_parent(Agent &agent, const storage::ImageReader &parent, const storage::Key *key);
  // In all processes before the first of them is detached: a driver may wait with its Lock for a
  // process that is checkpointed already (driver-checkpoint/driver_checkpoint.h).
  Result<> keep(const std::string &folder);
  Result<> lock();
  Result<> detach_one(Agent &agent);
  // Runs `f` for each agent in a thread of its own. A signal closes the connections.
  Result<> for_each(const std::function<Result<>(Agent &, u32)> &f);

  Cancel &cancel_;
  std::vector<std::unique_ptr<Agent>> all_;
  std::atomic<u64> progress_ = 0;
};

}  // namespace ckpt::tools
