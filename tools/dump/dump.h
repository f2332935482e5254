// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump's main path.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "storage/format/pipe_format.h"
#include "storage/write/image_writer.h"
#include "tools/criu/criu.h"
#include "tools/criu/streamer.h"
#include "tools/dump/agents.h"
#include "tools/dump/cancel.h"
#include "tools/dump/preflight.h"
#include "tools/dump/streams.h"
#include "tools/phases.h"
#include "tools/session/folder.h"
#include "tools/session/target.h"

namespace ckpt::tools {

struct DumpOptions {
  pid_t pid = 0;
  std::string image;  // "": a name in the current folder; kPipeImage: standard output
  bool leave_running = false;
  bool overwrite = false;
  std::string parent;               // an image beside, on which this one is an increment; "": none
  std::optional<unsigned> keep;     // afterwards keep so many images of the chain
  std::optional<storage::Key> key;  // encrypt
  std::optional<u64> memory_mib;    // of the program's memory that may wait here for the disk
  bool word_when_durable = false;   // the program itself asked, and is told once the image is safe
  int timeout_seconds = 60;
};

struct DumpReport {
  std::string image;
  pid_t pid = 0;
  size_t processes = 0;
  storage::ImageStats stats;
  u64 unchanged_bytes = 0;     // of device memory: known to be the parent's without reading it
  double pause_seconds = 0;    // from the gate until the program runs again or is gone
  double durable_seconds = 0;  // until the image is safe on the disk
  nlohmann::json phases;
  std::vector<std::string> remarks;  // on the program's use of devices
};

class Dump {
 public:
  Dump(DumpOptions options, Cancel &cancel)
      : options_(std::move(options)), cancel_(cancel), agents_(cancel) {}
  // Until the image is complete every failure leaves the program running as before.
  Result<DumpReport> run();

  // For a progress display, from another thread.
  std::string phase() const;
  u64 bytes_done() const;
  u64 bytes_expected() const { return expected_; }

 private:
  Result<> begin();
  Result<> checkpoint();
  Result<> finish();
  Result<> resolve();
  Result<> preflight();
  Result<> open_image();
  storage::ImageWriter::Options writer_options() const;
  bool in_pipe() const { return options_.image == storage::kPipeImage; }
  void prune() const;
  Result<> announce();
  Result<> dump_host_side();
  Result<> run_criu(const std::string &folder);
  std::vector<std::string> criu_command(const std::string &folder) const;
  Result<> record_stopped_program();
  Result<> no_new_agents() const;
  Result<> write_image();
  Result<> wake();
  Result<> end_program();
  void undo(const Error &why);
  std::string keep_log(const std::string &log) const;
  void step(const std::string &name);

  DumpOptions options_;
  Cancel &cancel_;
  Phases phases_;
  mutable std::mutex phase_mutex_;
  std::string phase_;
  std::atomic<u64> expected_ = 0;
  Phases::Clock::time_point paused_at_;
  Criu criu_;
  Target target_;
  std::set<pid_t> stopped_before_;
  Agents agents_;
  std::unique_ptr<storage::ImageWriter> image_;
  std::atomic<storage::ImageWriter *> live_image_ = nullptr;
  UniqueFd keeper_;
  bool stopped_ = false;  // CRIU has left the tree stopped
  bool awake_ = false;    // it runs again, whatever becomes of the image
  nlohmann::json manifest_;
  DumpReport report_;
};

}  // namespace ckpt::tools
