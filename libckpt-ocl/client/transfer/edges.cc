// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/transfer/edges.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>

namespace ckpt::ocl {
namespace {

constexpr size_t kEdgePage = 4096;

struct Edges {
  std::mutex mutex;
  std::vector<Edge *> all;
  std::atomic<size_t> count{0};
};

// Never destroyed, as what uses it.
Edges &edges() {
  static Edges *e = new Edges;
  return *e;
}

// What is no longer as it was seen goes to the other side, and nothing else: the program may change
// other bytes meanwhile.
void copy_changes(const std::byte *from, std::byte *to, Bytes &seen) {
  if (std::memcmp(from, seen.data(), seen.size()) == 0) return;
  for (size_t i = 0; i < seen.size(); i++)
    if (from[i] != seen[i]) to[i] = seen[i] = from[i];
}

}  // namespace

Edge::Edge(std::byte *at, size_t bytes, int file, size_t offset) : at_(at), seen_(at, at + bytes) {
  size_t page = offset / kEdgePage * kEdgePage;
  void *p = ::mmap(nullptr, kEdgePage, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                   static_cast<off_t>(page));
  if (p == MAP_FAILED) return;
  range_ = SharedRange::add(static_cast<std::byte *>(p), kEdgePage);
  if (!range_) {
    ::munmap(p, kEdgePage);
    return;
  }
  window_ = static_cast<std::byte *>(p);
  there_ = window_ + (offset - page);
  std::lock_guard lock(edges().mutex);
  edges().all.push_back(this);
  edges().count = edges().all.size();
}

Edge::~Edge() {
  if (!window_) return;
  {
    std::lock_guard lock(edges().mutex);
    to_program();
    std::erase(edges().all, this);
    edges().count = edges().all.size();
  }
  range_->remove();
  ::munmap(window_, kEdgePage);
}

void Edge::to_file() { copy_changes(at_, there_, seen_); }
void Edge::to_program() {
  // In a forked child, which has no longer a page of the file.
  if (range_->bytes() > 0) copy_changes(there_, at_, seen_);
}

void edges_to_files() {
  if (edges().count.load() == 0) return;
  std::lock_guard lock(edges().mutex);
  for (Edge *e : edges().all) e->to_file();
}

void edges_to_program() {
  if (edges().count.load() == 0) return;
  std::lock_guard lock(edges().mutex);
  for (Edge *e : edges().all) e->to_program();
}

}  // namespace ckpt::ocl
