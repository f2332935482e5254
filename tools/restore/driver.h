// SPDX-License-Identifier: Apache-2.0
//
// Brings a program back to life while the keeper's loop serves it: CRIU, then the agents. Runs in a
// thread of its own.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "storage/read/image_reader.h"
#include "tools/agent/agent.h"
#include "tools/agent/staging.h"
#include "tools/criu/criu.h"
#include "tools/phases.h"
#include "tools/restore/alias.h"
#include "tools/restore/checks.h"
#include "tools/restore/manifest.h"
#include "tools/restore/stem.h"
#include "tools/restore/streams.h"
#include "tools/session/keeper.h"
#include "tools/session/periodic.h"

namespace ckpt::tools {

struct RestoreOptions {
  std::string image;  // kPipeImage: from standard input
  std::string key_file;
  std::string device;
  bool portable = false;
  bool ignore_limits = false;
  bool detach = false;
  std::string output_file;
  bool truncate_files = false;
  std::string json_report;
  PeriodicOptions periodic;
};

class RestoreDriver {
 public:
  // Called in the driver's thread once the program runs, however soon it ends.
  using Running = std::function<void(pid_t pid)>;

  // What the checks have found.
  struct Plan {
    const ImageManifest &manifest;
    const DeviceMaps &maps;
    Criu criu;
  };
  RestoreDriver(Keeper &keeper, const RestoreOptions &o, const storage::ImageReader &image,
                const Plan &plan, Phases &phases, Running running);
  ~RestoreDriver();

 private:
  void run();
  Result<> restore();
  Result<> host_side();
  Result<> try_criu(bool new_namespace);
  Result<> start_and_wait(const std::string &folder, bool new_namespace);
  StemOptions stem_options(const std::string &folder, bool new_namespace) const;
  Result<> make_word_pipes();
  Result<> find_root(pid_t ns_root);
  void hand_to_keeper();
  bool stem_event();
  // One agent on its way back.
  struct Returned {
    std::optional<AgentClient> client;
    std::optional<Staging> staging;
  };
  Result<> agents();
  Result<> bring_back(u32 number, Returned &agent);
  bool process_lives(pid_t ns_pid) const;
  bool process_ended(pid_t ns_pid);
  Result<UniqueFd> restored_agent(u32 number);
  void program_is_gone();
  Result<> write_report() const;

  Keeper &keeper_;
  const RestoreOptions &options_;
  const storage::ImageReader &image_;
  const ImageManifest &manifest_;
  const DeviceMaps &maps_;
  Criu criu_;
  Phases &phases_;
  Running running_;

  std::unique_ptr<RestoredStreams> streams_;
  std::unique_ptr<SessionAlias> alias_;
  struct WordPipe {
    UniqueFd read_end, write_end;
  };
  std::vector<WordPipe> words_;
  Stem stem_;
  bool new_namespace_ = false;
  bool pid_was_taken_ = false;
  pid_t root_ = 0;  // as we see it
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<u32, UniqueFd> arrived_;
  bool gone_ = false;
  std::thread thread_;
};

}  // namespace ckpt::tools
