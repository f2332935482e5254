// SPDX-License-Identifier: Apache-2.0
//
// One attempt at a dump. dump_attempt.cc is its table of contents: begin(), checkpoint() and
// finish() list its steps, and undo() takes them back.
#pragma once

#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "tools/dump/agents.h"
#include "tools/dump/cancel.h"
#include "tools/dump/dump_marker.h"
#include "tools/dump/dump_options.h"
#include "tools/dump/dump_report.h"
#include "tools/dump/held_program.h"
#include "tools/dump/host_side.h"
#include "tools/dump/keeper_link.h"
#include "tools/dump/locked_connections.h"
#include "tools/dump/new_image.h"
#include "tools/dump/program_record.h"
#include "tools/dump/refusals.h"
#include "tools/phases.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class DumpAttempt {
 public:
  // `marker` and `image` are those of the dump; the image is empty.
  DumpAttempt(DumpOptions options, Cancel &cancel, DumpMarker &marker, NewImage &image);
  DumpAttempt(const DumpAttempt &) = delete;

  // The program is not touched here.
  Result<> begin();
  // The program is paused. Every failure is undone.
  Result<> checkpoint();
  // The image is complete. A failure from here on does not undo it.
  Result<> finish();
  void undo(const Error &why);
  bool another_may_succeed(const Error &why) const;

  DumpReport report();
  // After a failure of finish().
  bool devices_lost() const { return devices_lost_; }

 private:
  Result<> resolve();
  Result<> announce();
  Result<> check_no_new_agents();
  Result<> open_image();
  Result<> quiesce();
  Result<> lock_connections();
  Result<> dump_criu_side();
  Result<> record_stopped_program();
  Result<> record_owner();
  Result<> check_recorded();
  Result<> wait_for_contents();
  void wake(bool owed);
  Result<> write();
  Result<> meet_when_durable();
  Result<> end_program();
  Result<> check_returned();

  DumpOptions options_;  // with the image's path, once the program is found
  Cancel &cancel_;
  DumpMarker &marker_;
  NewImage &image_;
  Phases phases_;
  Clock::time_point paused_at_;
  Target target_;
  Agents agents_;
  KeeperLink keeper_;
  Refusals refusals_;
  LockedConnections connections_;
  HeldProgram program_;
  HostRecord host_;
  std::optional<ProgramRecord> record_;  // with the image
  bool agents_missed_ = false;           // one was about to start
  bool met_others_ = false;              // of a job, which do not wait for a second attempt
  bool unwanted_ = false;  // the image is complete, but the job or ckpt-migrate has given up
  bool devices_lost_ = false;
  DumpReport report_;
};

}  // namespace ckpt::tools
