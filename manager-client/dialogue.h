// SPDX-License-Identifier: Apache-2.0
//
// The dialogue with the Manager: the introduction, what each of its messages does, and the reports
// of progress. On the agent's thread.
#pragma once

#include <string>
#include <variant>

#include "common/base/clock.h"
#include "common/managed/messages.h"
#include "manager-client/client_state.h"
#include "manager-client/orders.h"
#include "manager-client/progress_report.h"

namespace ckpt::manager_client {

class Dialogue {
 public:
  Dialogue(ClientState &state, Orders &orders) : state_(state), orders_(orders) {}

  // ---- without the client's mutex

  // Tries to connect.
  void seek();
  // One message.
  void receive();

  // ---- with it

  // When the next report is due; Connection::kNever: none is.
  Clock::time_point next_report() const;
  void report_if_due(Clock::time_point now);

 private:
  void lost(const std::string &why);
  void introduce();
  managed::to_manager::Join introduction() const;
  managed::Standing standing() const;

  void on(const managed::to_program::Welcome &m);
  void on(const managed::to_program::Refused &m);
  void on(const managed::to_program::Connect &m);
  void on(const managed::to_program::ApiAdded &m);
  void on(const managed::to_program::GoAhead &m);
  void on(const managed::to_program::OutOfMemory &m);
  void on(const managed::to_program::CCheckOk &m);
  void on(const managed::to_program::CCheckFailed &);
  void on(const managed::to_program::Credit &m);
  void on(const managed::to_program::RevokeCredit &);
  void on(const managed::to_program::Signal &);
  void on(const managed::to_program::Suspend &m) { orders_.suspend(m.folder); }
  void on(const managed::to_program::SuspendMemory &m) { orders_.suspend_memory(m.folder); }
  void on(const managed::to_program::Deepen &) { orders_.deepen(); }
  void on(const managed::to_program::Migrate &m) { orders_.migrate(m.gpu); }
  void on(const managed::to_program::ReportProgress &m);
  void on(const managed::to_program::Pong &) {}    // only shows that the Manager answers
  void on(const managed::to_program::Status &) {}  // for tools
  void on(std::monostate) {}

  ClientState &state_;
  Orders &orders_;
  ProgressReport progress_;
  managed::to_manager::Join told_;  // what the Manager was told in the last Join
};

}  // namespace ckpt::manager_client
