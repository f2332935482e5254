// SPDX-License-Identifier: Apache-2.0
//
// A restore that begins before its image exists, so that the program is stopped for a shorter time
// (ckpt-migrate). While the program runs on the other machine, images of it arrive one after the
// other. This process checks what a restore needs by the first one, and decompresses device memory
// of each; for the last one, only what has changed since the one before is left to be read.
//
// Words on the socket of take_over.h, before its own:
//
//   ckpt-restore   'C': a restore is possible
//   ckpt-migrate   'N', then u32 round: this image has arrived
//                  'L': the newest is the last one; restore it. A hang-up: end
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/read/image_reader.h"
#include "tools/agent_link/contents_ahead.h"
#include "tools/restore/plan.h"
#include "tools/restore/take_over.h"

namespace ckpt::tools {

class StandBy {
 public:
  StandBy(const MigrationOptions &m, const RestoreOptions &o);
  // Until the last image is there. Then it is that of `o`, and `plan`, which was of the first one,
  // is that of the last one.
  Result<> wait(RestoreOptions &o, RestorePlan &plan);
  // What was decompressed of it.
  std::vector<std::unique_ptr<ContentsAhead>> contents() { return std::move(contents_); }

 private:
  Result<> prepare(const std::string &path);

  const int connection_;  // of TakeOver; -1: none
  const std::string folder_;
  RestoreOptions options_;  // with the newest image
  std::unique_ptr<storage::ImageReader> image_;
  std::vector<std::unique_ptr<ContentsAhead>> contents_;  // by the agent's number
};

// make_plan(), or that of the first image of a program that still runs elsewhere.
Result<RestorePlan> first_plan(RestoreOptions o);

}  // namespace ckpt::tools
