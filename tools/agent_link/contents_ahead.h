// SPDX-License-Identifier: Apache-2.0
//
// The contents of one agent's devices, decompressed into a file in memory before the agent can take
// them.
//
// The problem. A restore decompresses contents on all cores. But CRIU's restore and the driver's,
// which come first, leave most cores idle.
//
// How it works. From the beginning of the restore until the devices are ready, threads fill a file,
// unit by unit (contents_plan.h). Then the agent page-locks what is there, and the devices copy
// from it; an agent that cannot gets it through slots. All else is decompressed into slots, as it
// would be without a file (load_contents.h).
//
// Cost. The file takes memory only while the machine has more than a given amount free, and its
// pages must be allocated, which takes more of a core's time than a copy into a slot. So there are
// no more threads than idle cores, and none where all cores are busy: then nothing would be gained.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
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

  // Before start(): gets the memory of `earlier`, which is of another image of the same chain, and
  // fills anew only what has changed since. `earlier` is of no further use.
  void take_over(ContentsAhead &earlier);
  // Begins to fill the file, on `threads` threads (0: there is no file) and while the machine has
  // more than `keep_free` bytes of free memory. To be called once.
  void start(unsigned threads, u64 keep_free);
  // Fills no further units. With `all`, those that have been planned are filled before.
  void close(bool all = false);

  const storage::ImageReader &image() const { return image_; }
  const ContentsPlan &plan() const { return plan_; }
  int file() const { return file_.get(); }  // -1: there is none

  // After close(): whether a unit is in the file, and what it has there.
  bool has(size_t unit);
  ByteView contents(const ContentsPlan::Run &run) const;
  // After close(): all pages before this byte of the file are allocated.
  u64 allocated();
  // What is in the file, and the time in which it got there.
  u64 bytes();
  double seconds();

 private:
  // The agent page-locks as much at a time, so all its pages are allocated at once.
  struct Piece {
    std::mutex mutex;
    bool tried = false, allocated = false;
  };

  // Chunks in the file of an earlier image, by place.
  struct Filled {
    u64 bytes = 0;
    storage::ChunkAddress address;
  };

  Result<> make_file();
  bool fill_part(const ContentsPlan::Part &part);
  void fill(unsigned threads);
  bool fill_unit(size_t unit);
  bool has_pages(size_t unit);
  Result<> allocate(std::span<std::byte> piece);
  void note(size_t unit);

  const storage::ImageReader &image_;
  const ContentsPlan plan_;
  UniqueFd file_;
  Mapping memory_;
  u64 keep_free_ = 0;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::unordered_map<u64, Filled> filled_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> small_pages_ = false;
  std::mutex mutex_;  // guards all below
  bool closed_ = false;
  std::vector<bool> in_file_;  // by unit
  u64 bytes_ = 0;
  Clock::time_point started_, last_;
  std::thread thread_;
};

// The number of cores that no thread of this machine uses at this moment, and that this process may
// use. CKPT_TEST_AHEAD=N: N, for tests.
unsigned idle_cores();

}  // namespace ckpt::tools
