// SPDX-License-Identifier: Apache-2.0
//
// The part of a session that serves an OpenCL program: it answers the program's first questions
// from what is known (inventory.h), and starts the proxy when the program needs it.
#pragma once

#include "remote/opencl/far_relay.h"
#include "remote/opencl/questions.h"
#include "remote/server/inventory.h"
#include "remote/server/notes.h"
#include "remote/server/session.h"
#include "remote/transport/connection.h"

namespace ckpt::remote {

class OpenClSession {
 public:
  // `arguments`: of the proxy.
  OpenClSession(Connection &connection, int daemon, const ProxyStarter &starter,
                std::vector<std::string> arguments);
  // Until the program has hung up. Threads use this until the process ends.
  Result<> run();

 private:
  Result<> greet();
  Result<ByteView> answer_questions();
  Result<bool> answer(ByteView command);
  Result<> start_proxy();
  Result<> start_late();
  Result<> compare_answers();
  Result<Bytes> ask(Note note, ByteView body);
  void report(Note note, const Writer &body);
  Writer about_devices() const;

  Connection &connection_;
  int daemon_;
  const ProxyStarter &starter_;
  std::vector<std::string> arguments_;
  std::string devices_;  // the name of what is known; empty: nothing is kept
  std::mutex daemon_mutex_;

  Inventory known_;
  Questions questions_;
  std::vector<Bytes> told_;  // keys of the questions that were answered without a proxy
  std::optional<FarRelay::Proxy> proxy_;
  Bytes platforms_;   // the greeting of `proxy_`
  UniqueFd control_;  // the keeper's side of it
};

}  // namespace ckpt::remote
