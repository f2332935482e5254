// SPDX-License-Identifier: Apache-2.0
//
// The contents of one agent's devices, decompressed into a file in memory before the agent can take
// them.
//
// The problem. A restore decompresses contents on all cores. But CRIU's restore and the driver's,
// which come first, leave most cores idle.
//
// How it works. From the beginning of the restore, threads fill a file, unit by unit
// (contents_plan.h). When the devices are ready, the agent page-locks the file and has the devices
// copy from it; an agent that cannot gets what is in the file through slots. The file takes memory
// only while the machine has more than a given amount free. The rest is decompressed into slots
// when the agent takes it (load_contents.h).
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/ipc/shared_memory.h"
#include "tools/agent_link/contents_plan.h"

namespace ckpt::tools {

class ContentsAhead {
 public:
  // Of agent number `agent`. The image must live as long as this object.
  ContentsAhead(const storage::ImageReader &image, u32 agent);
  // Ends the threads, and frees the memory.
  ~ContentsAhead();
  ContentsAhead(const ContentsAhead &) = delete;

  // Begins to fill the file, on `threads` threads and while the machine has more than `keep_free`
  // bytes of free memory. To be called once, before all below.
  void start(unsigned threads, u64 keep_free);

  const storage::ImageReader &image() const { return image_; }
  const ContentsPlan &plan() const { return plan_; }
  int file() const { return file_.get(); }  // -1: there is none
  // Waits until it is decided whether a unit is in the file. An error: the image is damaged.
  Result<bool> has(size_t unit);
  // What a unit has in the file.
  ByteView contents(const ContentsPlan::Run &run) const;
  // From the beginning of the file: so much has been filled without a gap.
  u64 ready();
  // So far: what is in the file, and the time in which it got there.
  u64 bytes();
  double seconds();

 private:
  enum class State : u8 { Waiting, InFile, NotInFile, Damaged };
  // The agent page-locks as much at a time, so all its pages are allocated at once.
  struct Piece {
    std::mutex mutex;
    bool tried = false, allocated = false;
  };

  Result<> make_file();
  void fill(unsigned threads);
  void fill_next(size_t unit);
  Result<State> fill_unit(size_t unit);
  bool has_pages(size_t unit);
  void decide(size_t unit, State state);

  const storage::ImageReader &image_;
  const ContentsPlan plan_;
  UniqueFd file_;
  Mapping memory_;
  u64 keep_free_ = 0;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<State> units_;
  size_t ready_units_ = 0;
  u64 bytes_ = 0;
  std::string damage_;
  std::chrono::steady_clock::time_point started_, last_;
  std::thread thread_;
};

}  // namespace ckpt::tools
