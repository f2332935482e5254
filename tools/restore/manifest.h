// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-restore reads of an image's manifest (written by tools/dump/manifest.cc). It is hostile
// input like the rest of the image: a field that is missing or of another kind is an error.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

struct ImageManifest {
  struct ProcessEntry {
    pid_t pid;
    pid_t group;
    pid_t session;
    std::vector<pid_t> threads;
    bool stopped;  // before the dump stopped it
  };
  struct Need {
    u32 agent;
    std::string api;
    nlohmann::json needs;
  };
  struct File {
    std::string path;
    u64 size;
    bool append_only;
    bool writable;
  };
  struct Pipe {
    u64 inode;
    int fd;
    bool program_reads;
  };

  std::string program;
  std::string cwd;
  pid_t root_pid = 0;
  std::string session_folder;
  std::vector<ProcessEntry> processes;
  std::vector<u64> outcome_pipes;  // inode, by agent
  std::vector<pid_t> agent_pids;   // in the image's own numbers, by agent
  std::vector<Need> needs;
  std::vector<File> files;
  std::vector<File> mapped_files;
  std::vector<Pipe> pipes;
  bool terminal = false;
  bool terminal_at[3]{};  // the root's stdin, stdout, stderr

  static Result<ImageManifest> parse(const nlohmann::json &manifest);
  // Every number that CRIU has to find free in the namespace it restores into.
  std::vector<pid_t> pids() const;
  std::set<pid_t> stopped() const;
};

}  // namespace ckpt::tools
