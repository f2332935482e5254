// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/base/bytes.h"
#include "storage/format/key.h"
#include "storage/format/pipe_format.h"
#include "tools/dump/barriers.h"
#include "tools/dump/carried_choice.h"
#include "tools/dump/hand_over.h"

namespace ckpt::tools {

struct DumpOptions {
  pid_t pid = 0;
  std::string image;  // "": ckpt-COMMAND-PID.img in the current folder; kPipeImage: standard output
  bool leave_running = false;
  bool stop_the_world = false;  // with leave_running: it waits until all contents are copied
  bool overwrite = false;
  std::string parent;               // the image that this one is an increment on; "": none
  std::optional<unsigned> keep;     // how many images of the chain to keep afterwards
  std::optional<storage::Key> key;  // encrypts the image
  u32 rounds_ahead = 0;             // of copies while the program runs
  u64 prepare_bytes = 0;            // host memory that is taken before the program is paused
  std::optional<u64> memory_mib;    // limit of the data that waits in memory for the disk
  // The program has requested the checkpoint itself: it receives the outcome only when the image is
  // durable, not as soon as it is continued.
  bool outcome_when_durable = false;
  int timeout_seconds = 60;
  DumpBarriers *barriers = nullptr;   // of a job, which is checkpointed as one
  HandOver *hand_over = nullptr;      // to another machine, before the program is ended
  HandOver *follower = nullptr;       // ckpt-migrate, which sends what is written at once
  bool passing = false;               // the image will be removed soon: the keeper need not know it
  std::string criu_log;               // of a CRIU that fails; "": beside the image
  bool refuse_as_root = false;        // what only ckpt-restore --as-root could restore
  bool as_template = false;           // copies of it can run at the same time (ckpt-start)
  bool with_files = false;            // carries the program's files in the image
  u64 carried_mib = kCarriedDataMiB;  // the largest one without code, in MiB
  bool for_another_machine = false;   // with dry_run(): its manifest is checked there
  bool tcp_close = false;             // a template's copies find TCP connections closed

  bool in_pipe() const { return image == storage::kPipeImage; }
  // Whether contents of devices may be copied when the program runs again. A thread that waits for
  // the checkpoint to be durable does not run meanwhile.
  bool may_owe() const { return leave_running && !stop_the_world && !outcome_when_durable; }
  CarriedChoice::Options carried() const { return {with_files, carried_mib << 20}; }
};

}  // namespace ckpt::tools
