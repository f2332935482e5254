// SPDX-License-Identifier: Apache-2.0
//
// The contents of memory objects that a checkpoint still needs when the program runs again. They
// belong to the moment at which the program was paused:
//
//   serving thread   OwedFile, Owed …, OwedBegin   while the program is paused
//   copying thread   copies one piece after the other to the file, and tells the tool
//   serving thread   Settle, when a command that may write to an object follows: copies its pieces
//                    that are still missing, or waits for the copying thread, and only then goes on
//
// So the host of the program never waits, unless the ring is full. A released object is kept until
// its contents are in the file, and so is this process, if the program ends.
#pragma once

#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/ipc/shared_memory.h"
#include "libckpt-ocl/proxy/serve/objects.h"

namespace ckpt::ocl {

class OwedContents {
 public:
  // A piece of the contents of an object.
  struct Piece {
    u64 number = 0;  // of the object
    cl_mem mem = nullptr;
    cl_command_queue queue = nullptr;  // of ours, in its context
    const std::byte *pages = nullptr;  // of its buffer file at `offset`; null: it has none
    u64 offset = 0, bytes = 0;
    u64 at = 0;  // in the file
  };

  OwedContents() = default;
  ~OwedContents() { give_up(); }
  OwedContents(const OwedContents &) = delete;

  // Serving thread. The first three return an OpenCL error.
  cl_int open(int file, u64 bytes);
  cl_int add(const Piece &piece);
  cl_int begin(int tool);
  void settle(u64 number);
  void settle_all();
  // Returns when all contents are in the file, or the tool does not want them any more.
  void wait();

 private:
  enum class State : u8 { Missing, InWork, There };
  void give_up();
  void settle_piece(size_t i);
  void copy_all();
  bool copy_next(size_t i);
  cl_int copy(const Piece &piece);
  void finished(size_t i);
  void tell();
  void fail_with(cl_int error, size_t i);
  void release();

  Mapping file_;
  std::vector<Piece> pieces_;
  std::unordered_map<u64, std::vector<size_t>> by_object_;
  bool sound_ = true;  // every add() has succeeded
  UniqueFd tool_;
  std::thread copier_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<State> states_;
  size_t there_ = 0;  // as many from the beginning on
  bool over_ = true;  // nothing is owed
};

}  // namespace ckpt::ocl
