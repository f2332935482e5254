// SPDX-License-Identifier: Apache-2.0
//
// A connection to one agent: the requests of agent/protocol.h as calls. A call returns with the
// agent's answer, and fails if the agent closes the connection or a timeout expires.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/protocol.h"
#include "common/base/result.h"
#include "common/ipc/unix_socket.h"
#include "storage/format/format.h"
#include "tools/agent_link/staging_slots.h"
#include "tools/proc/process_handle.h"

namespace ckpt::tools {

// Of a program that runs or is suspended (Type::Traffic).
struct DeviceTraffic {
  struct One {
    std::string participant;
    bool known = false;
    u64 waits = 0, bytes = 0, answer_ns = 0, bytes_per_second = 0;
  };
  u64 held_bytes = 0;
  double seconds = 0;
  std::vector<One> all;
};

class AgentClient {
 public:
  struct Welcome {
    u32 version = 0;
    pid_t pid = 0;  // in its own namespace
    protocol::State state = protocol::State::Running;
    std::vector<std::string> participants;
  };

  // The socket's path is as the process of the agent sees it.
  static Result<AgentClient> connect(pid_t process, const std::string &socket);
  // For a tool that only asks questions: fails at once if the agent is busy with another tool, and
  // waits at most `patience` for each answer.
  static Result<AgentClient> glance(pid_t process, const std::string &socket,
                                    std::chrono::milliseconds patience);
  explicit AgentClient(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  // After a failure: whether it is because the process ends, which may take some seconds.
  bool has_ended() const;
  Result<Welcome> hello(const std::string &tool);
  Result<std::vector<std::string>> preflight();
  // Remarks on the process's use of devices. Fails with an agent of an earlier protocol version.
  Result<std::vector<std::string>> remarks();
  Result<std::vector<std::string>> devices();  // the names of those that the process uses
  // True if the program has a callback that runs before the dump. False if it has none, or if the
  // agent is of an earlier version.
  bool has_before_callbacks();
  Result<> quiesce(std::chrono::milliseconds timeout);
  // After quiesce(): seconds by name of a participant, and for "callbacks". Empty: the agent is of
  // an earlier version.
  std::map<std::string, double> waits();
  // Before begin_save(): names the image and its parent (zeros: none), so that the agent can report
  // regions as unchanged. False: the agent is of an earlier version and will save everything.
  bool announce(const storage::Uuid &image, const storage::Uuid &parent);
  // Before begin_save(): the tool can read the agent's own file of contents. False: the agent is of
  // an earlier version and will fill slots.
  bool offer_to_read();
  // Before quiesce(): starts the process that holds device memory during the dump, and lets the
  // save leave contents to it. Empty: it was started, or the program was not started for that, or
  // the agent is of an earlier version; else why it cannot be.
  std::string start_owner();
  // Before quiesce(): the save may leave contents to a process that copies them while the program
  // runs on. An agent of an earlier version leaves none.
  void allow_owed();
  // Before quiesce(): the save will tell what the devices saw before they copied. True: they can
  // look. `seed`: of the image's addresses.
  bool survey(u64 seed);
  // After survey(): the addresses of `count` chunks of the parent image, which the save may leave
  // out, and a socket from which the agent gets them. False: the agent refuses.
  bool parent_chunks(u64 count, int addresses, int socket);
  // Before begin_load(): whether zeros may be sent as ZerosAt. False also if the agent is of an
  // earlier version.
  bool loads_zeros();
  // Before begin_load(): contents may be sent as ContentsIn from this file of `bytes` bytes.
  // Returns the name of the participant that loads its regions so; empty: none does, or the agent
  // is of an earlier version.
  std::string loads_from(int file, u64 bytes);
  // Before begin_load(): offers regions (name and size) whose contents may come over `socket` while
  // the program runs. Returns which of them do; empty: none, or the agent is of an earlier version.
  std::vector<bool> loads_later(const std::vector<std::pair<std::string, u64>> &regions,
                                int socket);
  // Before quiesce(): at most `bytes` bytes of host memory are taken for contents already. False:
  // the agent is of an earlier version.
  bool prepare(u64 bytes);
  // Before quiesce(): contents are copied while the program runs. False: as for prepare().
  bool copy_ahead(u32 rounds);
  // Sends the request alone; save_agent() and load_agent() exchange the contents.
  Result<> begin_save(const StagingSlots &staging);
  Result<> begin_load(const StagingSlots &staging);
  // Of a program with several processes: lock() follows keep() or a save, in all of them before the
  // first suspend() or detach(). An agent of an earlier version does both in suspend() or detach().
  Result<> keep(const std::string &folder);
  Result<> lock();
  // Returns the requirements as of now; empty: they are as after the save.
  Result<std::string> detach(int outcome_pipe);
  // Before attach() or wake(): the mapping of the devices of `api`, as pairs of the old and the new
  // one.
  Result<> use_devices(const std::string &api,
                       const std::vector<std::pair<std::string, std::string>> &map);
  Result<> attach(const std::string &session);
  // After attach(): the seconds in which kernels were compiled. 0 also if the agent is of an
  // earlier version.
  double compile_seconds();
  // Instead of a save and a detach. The contents go to a file in `folder`, or to host memory if it
  // is empty. Returns their size in bytes.
  Result<u64> suspend(const std::string &folder, protocol::Depth depth = protocol::Depth::Full);
  // How much the program has given back. No value: the agent is of an earlier version, and knows
  // only Depth::Full.
  std::optional<protocol::Depth> depth();
  // At Depth::Memory: to Depth::Full. Returns the size of the contents in bytes. Of a program with
  // several processes, lock_suspended() of all of them comes first.
  Result<> lock_suspended();
  Result<u64> deepen();
  // The requirements on its devices, in the format of SavedAgent::requirements. Of a program that
  // runs, as of now: agents of earlier versions refuse that.
  Result<std::string> requirements();
  // Fails with an agent of an earlier version.
  Result<DeviceTraffic> traffic();
  // Gives a suspended program devices again.
  Result<> wake(const std::string &session);
  Result<> resume();
  // Why the program has lost its devices. Empty if it has them, or if the agent is of an earlier
  // version.
  std::string loss();

  Result<> send(protocol::Type type, const Writer &body = {}, std::span<const int> fds = {});
  // Receives the next message. Failed becomes an Error. A timeout of zero means none.
  Result<Message> receive(std::chrono::milliseconds timeout = {});

 private:
  std::map<std::string, double> seconds_by_name(protocol::Type request);
  Result<std::vector<std::string>> sentences(protocol::Type request,
                                             std::chrono::milliseconds timeout);
  Result<> ask_if_known(protocol::Type request, const Writer &body, protocol::Type answer);
  Result<u64> ask_for_bytes(protocol::Type request, const Writer &body);
  Result<Message> ask(protocol::Type type, const Writer &body, std::span<const int> fds,
                      std::chrono::milliseconds timeout, protocol::Type expected);
  // Receives the answer to the request `type`.
  Result<Message> answer(protocol::Type type, std::chrono::milliseconds timeout,
                         protocol::Type expected);
  // Why there is no answer.
  Failure lost_agent(Error why) const;

  UniqueFd fd_;
  std::optional<std::chrono::milliseconds> patience_;
  pid_t process_ = 0;  // of the agent; 0: unknown
  ProcessHandle handle_;
};

// Writes the outcome of a checkpoint into an agent's outcome pipe.
Result<> send_outcome(int pipe, protocol::Outcome outcome, u32 agent, const std::string &text);

}  // namespace ckpt::tools
