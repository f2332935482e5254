// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump's main path. dump.cc is the table of contents of a dump: begin(), checkpoint() and
// finish() list its steps.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "storage/format/pipe_format.h"
#include "storage/write/image_writer.h"
#include "tools/criu/criu.h"
#include "tools/criu/criu_files.h"
#include "tools/criu/recorded_identities.h"
#include "tools/criu/rights.h"
#include "tools/dump/agents.h"
#include "tools/dump/barriers.h"
#include "tools/dump/cancel.h"
#include "tools/dump/carried_files.h"
#include "tools/dump/carried_list.h"
#include "tools/dump/connections.h"
#include "tools/dump/dump_marker.h"
#include "tools/dump/file_hashes.h"
#include "tools/dump/hand_over.h"
#include "tools/dump/kernel_state.h"
#include "tools/dump/preflight.h"
#include "tools/manifest/image_manifest.h"
#include "tools/phases.h"
#include "tools/proc/held_processes.h"
#include "tools/session/target.h"

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
};

// What ckpt-dump --check has found (dry_run.cc).
struct DryRun {
  pid_t pid = 0;
  size_t processes = 0;
  std::string program;
  Reasons reasons;  // why a dump would be refused; empty: it would begin
  std::vector<std::string> remarks;
  nlohmann::json needs;                // what a restore needs of the machine
  std::optional<CarriedList> carried;  // with_files: what the image would carry
  nlohmann::json manifest;  // of the program as it is now, for the checks of another machine
};

struct DumpReport {
  std::string image;
  pid_t pid = 0;
  size_t processes = 0;
  storage::ImageStats stats;
  size_t carried_files = 0;  // of with_files
  u64 carried_bytes = 0;
  u64 device_bytes = 0;            // the contents of device memory
  u64 unchanged_bytes = 0;         // of device memory, not read because it equals the parent's
  u64 zero_bytes = 0;              // of device memory, not read because the device saw zeros
  std::vector<std::string> blind;  // why devices did not look at their memory first
  double pause_seconds = 0;    // from closing the gate until the program runs again or has ended
  double durable_seconds = 0;  // from closing the gate until the image is on the disk
  double seconds = 0;          // of the whole dump
  double quiesce_seconds = 0;  // of the pause: `before` callbacks, and until the devices were idle
  std::map<std::string, double> waits;  // of that, by API; and for "callbacks"
  nlohmann::json phases;
  std::string program;
  std::vector<std::string> apis;     // of the devices that it uses
  std::vector<std::string> remarks;  // of the agents, on the program's use of devices
};

class Dump {
 public:
  Dump(DumpOptions options, Cancel &cancel)
      : options_(std::move(options)), cancel_(cancel), agents_(cancel) {}
  // A failure leaves the program running as before, unless the image is complete already.
  Result<DumpReport> run();
  // Looks for everything that would make run() fail, and changes nothing.
  Result<DryRun> dry_run();

  // For a progress display in another thread.
  u64 bytes_done() const {
    storage::ImageWriter *image = live_image_;
    return image ? image->stats().raw_bytes : 0;
  }
  u64 bytes_expected() const { return expected_; }
  // After a failure: the image is complete, but the program has lost its devices.
  bool devices_lost() const { return devices_lost_; }

 private:
  Result<> begin();
  Result<> checkpoint();
  Result<> finish();
  Result<> resolve();
  Result<> preflight();
  Reasons refusals();
  Closables find_closables() const;
  Closables look_for_closables() const;
  Result<> refuse_as_template(Reasons &reasons);
  void describe_template(manifest::Manifest &manifest) const;
  void describe_copy();
  Result<> check_recorded_template();
  void ask_agents(Reasons &reasons);
  Result<DryRun> look();
  Result<> refusals_of_agents(Reasons &reasons);
  manifest::Manifest describe_running();
  Result<> check_closed() const;
  Result<> open_image();
  CarriedChoice carried_choice() const;
  void read_ahead();
  bool in_pipe() const { return options_.image == storage::kPipeImage; }
  Result<> announce();
  Result<> lock_connections();
  Result<> dump_criu_side();
  Result<> hold();
  void expect_stop();
  Result<> check_held();
  bool root_has_ended();
  Failure cause_of(const Error &of_criu) const;
  Result<> check_no_new_connections(const Connections &now) const;
  Result<> record_stopped_program();
  Result<> check_recorded();
  Result<> record_owner();
  Result<> check_no_new_agents();
  Result<> wake(bool owed);
  bool may_owe() const;
  Result<> wait_for_contents();
  Result<> write();
  Result<> meet_when_durable();
  Result<> end_program();
  Result<> check_returned();
  void tell_keeper_of_image() const;
  void continue_program();
  void undo(const Error &why);
  bool another_may_succeed(const Error &why) const;
  void start_again();

  DumpOptions options_;
  Cancel &cancel_;
  Phases phases_;
  std::atomic<u64> expected_ = 0;
  Clock::time_point paused_at_;
  Criu criu_;
  CriuRights rights_;
  Target target_;
  std::vector<ProcessHandle> handles_;  // of its stopped processes
  std::set<pid_t> stopped_before_;
  Agents agents_;
  std::unique_ptr<storage::ImageWriter> image_;
  std::atomic<storage::ImageWriter *> live_image_ = nullptr;
  UniqueFd keeper_;
  DumpMarker marker_;
  std::set<pid_t> may_close_;   // the processes with callbacks that may close what no image holds
  bool must_close_ = false;     // and there is something to close
  bool agents_missed_ = false;  // an agent could not be reached, or was about to start
  bool devices_lost_ = false;
  Connections connections_;
  ReuseOfSockets reuse_;
  ConnectionLock connection_lock_;
  bool met_others_ = false;     // of a job, which do not wait for a second attempt
  bool unwanted_ = false;       // the image is complete, but the job or ckpt-migrate has given up
  bool stopped_ = false;        // CRIU has left the process tree stopped
  HeldProcesses held_;          // from then on, until the program goes on or has ended
  bool was_continued_ = false;  // by another process, in the middle of the checkpoint
  FileHashes hashes_;
  std::optional<CarriedFiles> carried_;
  MemoryRanges memory_ranges_;
  FactFiles facts_;  // of CRIU
  std::vector<ImageManifest::Link> links_;
  RecordedIdentities recorded_;
  manifest::Manifest manifest_;
  DumpReport report_;
};

}  // namespace ckpt::tools
