// SPDX-License-Identifier: Apache-2.0
//
// What an image records of the program beside CRIU's files: its manifest, and the contents of the
// files that only the image can keep. What takes long is read while the program still runs.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "storage/write/image_writer.h"
#include "tools/criu/criu.h"
#include "tools/criu/criu_files.h"
#include "tools/criu/rights.h"
#include "tools/dump/agents.h"
#include "tools/dump/carried_files.h"
#include "tools/dump/connections.h"
#include "tools/dump/dump_options.h"
#include "tools/dump/file_hashes.h"
#include "tools/dump/kernel_state.h"
#include "tools/manifest/image_manifest.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class ProgramRecord {
 public:
  using Remarks = std::vector<std::string>;
  ProgramRecord(const DumpOptions &options, const Target &target, const Criu &criu,
                Credentials user, storage::ImageWriter &image);
  // Of those that the program has now.
  Result<> carry_files();

  // What is exact only while the program is stopped.
  struct Stopped {
    const DescriptorTable &table;
    const Connections &connections;
    const std::set<pid_t> &stopped_before;
    const std::vector<ImageManifest::Link> &links;  // names that CRIU has made
    const Agents &agents;
  };
  void set_owner(const Ownership &owner) { manifest_.owner = helper::Identity{*owner.user}; }
  Result<> describe(const Stopped &program, Remarks &remarks);
  // The program may be ended only for an image that can be restored. `facts`: of CRIU.
  Result<> check(const FactFiles &facts, Remarks &remarks) const;
  void set_phases(std::vector<PhaseTimes> phases) { manifest_.phases = std::move(phases); }

  const manifest::Manifest &manifest() const { return manifest_; }

 private:
  void describe_processes_of(const Stopped &program, Remarks &remarks);
  void describe_files_of(const Stopped &program);
  Result<> save_files(const Stopped &program);
  Result<> save_pipes(const Stopped &program);
  void describe_copy();

  const DumpOptions &options_;
  const Target &target_;
  Credentials user_;  // with whose rights files are opened by their names
  storage::ImageWriter &image_;
  FileHashes hashes_;
  MemoryRanges memory_ranges_;
  CarriedFiles carried_;
  manifest::Manifest manifest_;
};

}  // namespace ckpt::tools
