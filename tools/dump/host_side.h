// SPDX-License-Identifier: Apache-2.0
//
// The host side of a dump: CRIU, which writes memory, threads and descriptors into the image.
#pragma once

#include <string>
#include <vector>

#include "storage/write/image_writer.h"
#include "tools/criu/criu.h"
#include "tools/criu/criu_files.h"
#include "tools/criu/recorded_identities.h"
#include "tools/criu/rights.h"
#include "tools/dump/cancel.h"
#include "tools/dump/held_program.h"
#include "tools/manifest/image_manifest.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// What CRIU has recorded of the program, once that was stopped.
struct HostRecord {
  FactFiles facts;  // what the restore's rules read (restorable.h)
  RecordedIdentities identities;
  std::vector<ImageManifest::Link> links;  // names of unlinked files (link_remaps.h)
};

struct HostSide {
  const Criu &criu;
  const CriuRights &rights;
  const Target &target;
  storage::ImageWriter &image;
  Cancel &cancel;
  // Descriptors that CRIU inherits: the connection to the keeper and our ends of the outcome pipes.
  // If this tool is killed, they stay open until CRIU has ended too, so that neither the keeper nor
  // an agent acts while CRIU still works on the program.
  std::vector<int> inherited;
  std::string kept_log;  // where a copy of CRIU's log goes after a failure
  bool tcp_close;        // TCP connections are left out
  HeldProgram &program;  // is told if CRIU has left it stopped
  HostRecord &record;
};

// Runs CRIU, which may leave the whole process tree stopped also when a later step of this call
// fails.
Result<> dump_host_side(const HostSide &side);

}  // namespace ckpt::tools
