// SPDX-License-Identifier: Apache-2.0
//
// An image's manifest as ckpt-restore uses it: its fields (manifest.h), and what follows from them.
// ckpt-dump writes it (tools/dump/dump_record.cc). Like the whole image it is untrusted input: a
// field that is required and missing, or of another type, is an error.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "tools/manifest/manifest.h"

namespace ckpt::tools {

struct ImageManifest : manifest::Manifest {
#define RECORD(Name, text, fields) using Name = manifest::Name;
#define RECORD_ON(Name, Base, text, fields) using Name = manifest::Name;
#define KNOWN(Type, text, fields)
#define ROW(Type, text, fields)
#include "tools/manifest/manifest.api"
#undef RECORD
#undef RECORD_ON
#undef KNOWN
#undef ROW

  std::vector<u64> outcome_pipes;  // by agent: the inode
  std::vector<pid_t> agent_pids;   // by agent: the PID in the program's PID namespace
  u64 device_bytes = 0;            // of all agents
  bool has_stream[3]{};            // whether the root has a stdin, stdout and stderr
  bool terminal_at[3]{};           // whether the root's stdin, stdout and stderr are terminals
  std::string file_at[3];          // the regular files that they are, else ""
  // The carried files that this restore takes from the image (carried_files.h). None while an image
  // is only looked at.
  std::set<std::string> supplied;

  static Result<ImageManifest> parse(const nlohmann::json &manifest);
  // All IDs that must be free in the PID namespace of the restore, in ascending order: of
  // processes, threads, process groups and sessions.
  std::vector<pid_t> pids() const;
  std::set<pid_t> stopped() const;
};

}  // namespace ckpt::tools
