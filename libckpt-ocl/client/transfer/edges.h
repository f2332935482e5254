// SPDX-License-Identifier: Apache-2.0
//
// The ends of a program's own memory (CL_MEM_USE_HOST_PTR) that fill no whole page
//
//   the program's memory   …neighbour|head│page page page│tail|neighbour…
//   the buffer file                   head│page page page│tail
//                                     copied   shared     copied
//
// Such a page has other bytes of the program, which must stay where they are: a thread may write to
// them at any time, and a forked child must not share them. So the ends exist twice, and are
// compared byte by byte with what was equal last: before a command is sent, what the program has
// changed goes into the file; when commands have finished, what they have changed goes to the
// program. Cost: two comparisons of at most two pages for each buffer with ends.
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/bytes.h"
#include "libckpt-ocl/client/transfer/shared_ranges.h"

namespace ckpt::ocl {

class Edge {
 public:
  // `at`: bytes of the program's memory; `file`: of a buffer file, from `offset` on. Both are
  // equal. Not mapped: there is no memory for it.
  Edge(std::byte *at, size_t bytes, int file, size_t offset);
  Edge(const Edge &) = delete;
  ~Edge();  // what commands have changed goes to the program
  bool mapped() const { return window_ != nullptr; }

  void to_file();
  void to_program();

 private:
  std::byte *const at_;
  std::byte *window_ = nullptr;  // the page of the file
  std::byte *there_ = nullptr;   // the bytes in it
  SharedRange *range_ = nullptr;
  Bytes seen_;  // both sides, when they were equal
};

// Of all edges: before a command is sent, and when one has finished.
void edges_to_files();
void edges_to_program();

}  // namespace ckpt::ocl
