// SPDX-License-Identifier: Apache-2.0
//
// Physical memory that is with its owner (driver-checkpoint/owner/memory_owner.h) while the driver
// is checkpointed: all that this library serves, or none of it.
#pragma once

#include <map>
#include <vector>

#include "agent/participant/participant.h"
#include "driver-checkpoint/owner/memory_owner.h"

namespace ckpt::cuda {

// Used by the agent's thread.
class OwnedMemory {
 public:
  // False: the program was not started with ckpt-run --device-owner. An error says why there can be
  // no owner.
  Result<bool> start();
  // After quiesce(): the owner gets all memory, which stays here, too. False: it cannot.
  bool give(agent::Sink &sink);
  // It shall copy these bytes of the memory `key` to `at` of the sink's file.
  void due(const OwnerCopy &copy) { copies_.push_back(copy); }
  // After the last due(): the copies begin.
  Result<> drain(const agent::Sink &sink);
  // From here on the owner has the memory, so it may be given back here. Does nothing where the
  // owner was not given any.
  Result<> leave();
  // After the driver's Unlock, before remap_served_memory(): the same physical memory is there
  // again. Where that fails, new memory will take its place.
  void take_back();
  // Whether the owner alone has all memory.
  bool has_left() const { return state_ == State::Left; }
  // After remap_served_memory(): whether memory has had its contents all the time since give().
  bool has_contents() const { return state_ == State::Given || state_ == State::Back; }
  // The process has lost its devices: the owner need not wait.
  void abandon();
  // The checkpoint is over. An owner that has not been left ends, and one that has given all back
  // ends with its copies (copier.h).
  void end();
  // The same for one that was given nothing.
  void end_unused() {
    if (state_ == State::Started) end();
  }
  // In a restored copy: the owner is the original's.
  void forget();
  // In a forked child. Async-signal-safe.
  void close_in_child() {
    owner_.hang_up();
    tool_.reset();
  }

 private:
  // Given: the owner has it, too. Left: it alone. Back: it was taken back.
  enum class State : u8 { None, Started, Given, Left, Back };
  Result<> give_all();
  Result<> offer_to_tool(agent::Sink &sink);
  Result<> import_all();
  Result<> import(const SharedMemory &memory);

  State state_ = State::None;
  MemoryOwner owner_;
  bool owed_ = false;         // the program goes on while the owner copies
  UniqueFd tool_;             // the owner's end of the socket to the tool
  std::map<u64, u64> given_;  // the bytes of what the owner has, by key
  std::vector<OwnerCopy> copies_;
};

}  // namespace ckpt::cuda
