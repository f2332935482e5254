// SPDX-License-Identifier: Apache-2.0
//
// Addresses of the program whose pages are a buffer file, and what becomes of them in a fork
//
// A forked child shares a buffer file with its parent: what it writes there would reach the
// parent's buffers. Natively the child has a copy of such memory, as of all other. So the fork
// handler of the child replaces the pages, before any other code of the child runs:
//
//   the program may use them (a map, a host pointer)    by copies of their contents
//   otherwise                                           by empty ones
//
// The handler may take no lock and no memory of the heap, because another thread of the parent may
// have been at work there (pthread_atfork(3)). So the ranges are in a list whose entries are never
// freed, only used again.
#pragma once

#include <atomic>
#include <cstddef>

namespace ckpt::ocl {

class SharedRange {
 public:
  // Before the pages become shared, with its first users: a fork may come at once. nullptr: there
  // is no memory for it.
  static SharedRange *add(std::byte *begin, size_t bytes, unsigned users = 0);
  // The pages are private again, or unmapped.
  void remove();

  // The program begins or ends to use the pages.
  void use() { users_.fetch_add(1); }
  void stop_use() { users_.fetch_sub(1); }
  bool in_use() const { return users_.load() > 0; }

  // The descriptor of the buffer file, while the application has it; else -1. A child closes it.
  void keep_file(int fd) { file_.store(fd); }
  int file() const { return file_.load(); }
  void close_file();

  std::byte *begin() const { return begin_.load(); }
  size_t bytes() const { return bytes_.load(); }

  // In the child of a fork. Async-signal-safe.
  static void all_in_child();

 private:
  void in_child();

  std::atomic<bool> taken_{false};
  std::atomic<std::byte *> begin_{nullptr};
  std::atomic<size_t> bytes_{0};  // 0: the pages are not shared
  std::atomic<unsigned> users_{0};
  std::atomic<int> file_{-1};
  SharedRange *next_ = nullptr;
};

// Replaces pages by private ones: with the same contents, or empty. False: there is no memory for
// them, and the pages stay as they were. Async-signal-safe. Nothing may write to them meanwhile.
bool make_private(std::byte *begin, size_t bytes, bool keep_contents);

}  // namespace ckpt::ocl
