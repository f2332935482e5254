// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump's main path: attempts (dump_attempt.h) until one succeeds, or none can.
#pragma once

#include "common/base/result.h"
#include "tools/dump/cancel.h"
#include "tools/dump/dump_attempt.h"
#include "tools/dump/dump_marker.h"
#include "tools/dump/dump_options.h"
#include "tools/dump/dump_report.h"
#include "tools/dump/new_image.h"

namespace ckpt::tools {

class Dump {
 public:
  Dump(DumpOptions options, Cancel &cancel) : options_(std::move(options)), cancel_(cancel) {}
  // A failure leaves the program running as before, unless the image is complete already.
  Result<DumpReport> run();

  // For a progress display in another thread.
  u64 bytes_done() const { return image_.bytes_done(); }
  u64 bytes_expected() const { return image_.bytes_expected(); }
  // After a failure: the image is complete, but the program has lost its devices.
  bool devices_lost() const { return devices_lost_; }

 private:
  Result<DumpReport> finish(DumpAttempt &attempt);

  DumpOptions options_;
  Cancel &cancel_;
  DumpMarker marker_;
  NewImage image_;
  bool devices_lost_ = false;
};

}  // namespace ckpt::tools
