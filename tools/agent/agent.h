// SPDX-License-Identifier: Apache-2.0
//
// One agent, as a tool sees it: the requests of agent/protocol.h as calls. Every call ends: with
// the agent's answer, its hang-up, or after a time that the call names.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/protocol.h"
#include "common/base/result.h"
#include "common/ipc/unix_socket.h"
#include "storage/format/format.h"
#include "tools/agent/staging.h"

namespace ckpt::tools {

class AgentClient {
 public:
  struct Welcome {
    u32 version = 0;
    pid_t pid = 0;  // in its own namespace
    protocol::State state = protocol::State::Running;
    std::vector<std::string> participants;
  };

  static Result<AgentClient> connect(const std::string &socket);
  explicit AgentClient(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  Result<Welcome> hello(const std::string &tool);
  Result<std::vector<std::string>> preflight();
  // What is worth knowing of its use of devices. Fails with an agent of before there were remarks.
  Result<std::vector<std::string>> remarks();
  Result<> quiesce(std::chrono::milliseconds timeout);
  // Before Save: which image it is for, and on which one (zeros: none) that is an increment. False:
  // the agent is older than that, and will save everything.
  bool announce(const storage::Uuid &image, const storage::Uuid &parent);
  // Asks for Save; the data follows (tools/agent/transfer.h).
  Result<> begin_save(const Staging &staging);
  Result<> begin_load(const Staging &staging);
  Result<> detach(int outcome_pipe);
  // Which device of `api` stands for which, before attach() or wake().
  Result<> use_devices(const std::string &api,
                       const std::vector<std::pair<std::string, std::string>> &map);
  Result<> attach(const std::string &session);
  // In the place of Save and Detach; how many bytes of device memory are kept. `folder`: "" is host
  // memory.
  Result<u64> suspend(const std::string &folder);
  // Of a suspended program: what its devices must offer (as Saved tells it), and back to them.
  Result<std::string> needs();
  Result<> wake(const std::string &session);
  Result<> resume();

  Result<> send(protocol::Type type, const Writer &body = {}, std::span<const int> fds = {});
  // The next message, `Failed` turned into an Error. Zero: no bound.
  Result<Message> receive(std::chrono::milliseconds patience = {});

 private:
  Result<std::vector<std::string>> sentences(protocol::Type request);
  Result<Message> ask(protocol::Type type, const Writer &body, std::span<const int> fds,
                      std::chrono::milliseconds patience, protocol::Type expected);
  UniqueFd fd_;
};

// Writes an agent's word into its pipe.
Result<> say_word(int pipe, protocol::Outcome word, u32 agent, const std::string &text);

}  // namespace ckpt::tools
