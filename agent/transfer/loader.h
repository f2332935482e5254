// SPDX-License-Identifier: Apache-2.0
//
// Load: the tool fills slots of staging memory, participants empty them. Pieces come in the image's
// order, that is, mixed over participants, and slots are few: so participants load at the same
// time. There is no thread that distributes. Whoever wants a piece and finds its queue empty reads
// the next message, for itself or for another; a process with one participant needs no second
// thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "agent/transfer/staging.h"

namespace ckpt::agent {

class Loader {
 public:
  Loader(Channel &tool, Staging &staging);
  ~Loader();
  // Every participant's load(), up to the tool's LoadEnd.
  Result<> run(std::span<Participant *const> participants);
  u64 bytes() const { return bytes_; }

 private:
  class Lane;  // the Source of one participant
  struct Region {
    Lane *lane = nullptr;
    std::string name;  // without prefix
    u64 bytes = 0;
  };

  Result<bool> next(Lane &lane, Source::Piece &piece);
  Result<> release(Lane &lane, Slot slot);
  void run_lane(Lane &lane);
  void close(Lane &lane, Result<> loaded);
  Result<> drain();
  Result<> read_one(std::unique_lock<std::mutex> &lock);
  Result<> take(const Incoming &message);
  Result<> take_region(Reader in);
  Result<> take_slot(Reader in);
  Result<> send_free(u32 slot);
  Lane *lane_of(std::string_view region);
  void abort(Error why);

  Channel &tool_;
  Staging &staging_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::map<u32, Region> regions_;
  std::map<u32, Lane *> held_;  // slots that the tool has filled
  bool reading_ = false;
  bool ended_ = false;
  std::vector<Error> errors_;  // the first is the cause
  u64 bytes_ = 0;
};

}  // namespace ckpt::agent
