// SPDX-License-Identifier: Apache-2.0
//
// Load: the tool fills slots of staging memory and the participants empty them.
//
// Pieces arrive in the order of the image, in which those of several participants alternate, and
// the number of slots is limited. If the participants loaded one after the other, pieces of the
// second would fill all slots while the first waits. So all participants load at the same time,
// each through a lane (a queue of pieces). No thread distributes the pieces: a participant that
// finds its lane empty reads the next message and puts the piece into the lane where it belongs.
// Therefore a process with one participant needs no second thread.
//
// Where the tool has contents in a file, one participant copies from there directly. The file is
// page-locked ahead of the copies, as far as its pages are allocated.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "agent/transfer/pieces_ahead.h"
#include "agent/transfer/staging.h"

namespace ckpt::agent {

class Loader {
 public:
  // The tool's file, and the participant that copies from it.
  struct File {
    DirectMemory *memory = nullptr;  // null: there is none
    Participant *participant = nullptr;
  };
  Loader(Channel &tool, Staging &staging, File file);
  ~Loader();
  // Calls load() of every participant, and reads up to the tool's LoadEnd.
  Result<> run(std::span<Participant *const> participants);
  u64 bytes() const { return bytes_; }

 private:
  class Lane;  // the Source of one participant
  struct Region {
    Lane *lane = nullptr;
    std::string name;  // without the prefix of the participant
    u64 bytes = 0;
  };

  Result<bool> next(Lane &lane, Source::Piece &piece);
  Result<bool> next_in_turn(Lane &lane, Source::Piece &piece);
  Result<> release(Lane &lane, Slot slot);
  void run_lane(Lane &lane);
  void close(Lane &lane, Result<> loaded);
  Result<> drain();
  Result<> read_one(std::unique_lock<std::mutex> &lock);
  Result<> take(const Incoming &message);
  Result<> take_region(Reader in);
  Result<> take_slot(Reader in);
  Result<> take_zeros(Reader in);
  Result<> take_contents(Reader in);
  Result<> send_free(u32 slot);
  Lane *lane_of(std::string_view region);
  void abort(Error why);

  Channel &tool_;
  Staging &staging_;
  const File file_;
  std::optional<PiecesAhead> ahead_;  // of the file, since its first contents
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::map<u32, Region> regions_;
  std::map<u32, Lane *> held_;  // slots that the tool has filled and not got back
  bool reading_ = false;        // one of the threads reads a message
  bool ended_ = false;
  std::vector<Error> errors_;  // the first one is the cause of the others
  u64 bytes_ = 0;
};

}  // namespace ckpt::agent
