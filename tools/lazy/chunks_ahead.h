// SPDX-License-Identifier: Apache-2.0
//
// The chunks of an image that a program needs next, decoded by threads of their own, because one
// thread decodes more slowly than all cores of a restore without --lazy. These threads know no
// addresses: only the thread that reads what the kernel reports places pages (lazy_space.h).
//
// Memory: as many chunks as are named at once, one for each thread, and the one that was taken
// last.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/read/image_reader.h"

namespace ckpt::tools {

class ChunksAhead {
 public:
  // The image must live as long as this object.
  explicit ChunksAhead(const storage::ImageReader &image) : image_(image) {}
  ~ChunksAhead();
  ChunksAhead(const ChunksAhead &) = delete;

  Result<> start(unsigned threads);
  // How many chunks to name, so that no thread waits.
  size_t depth() const { return threads_.size() + kSpare; }
  // These are needed next, in this order; those named before are not.
  void want(std::vector<u32> chunks);
  // Whether take() returns at once.
  bool has(u32 chunk);
  // The bytes of a chunk, until the next call. Decodes it here unless a thread has begun to. An
  // error names the chunk.
  Result<ByteView> take(u32 chunk);
  // Readable when has() has changed: read it before.
  int changed_fd() const { return event_.get(); }

 private:
  static constexpr size_t kSpare = 2;
  struct Decoded {
    bool done = false;
    size_t size = 0;
    std::unique_ptr<std::byte[]> bytes;
    Result<> result;
  };
  using Lock = std::unique_lock<std::mutex>;

  void work();
  std::optional<u32> next() const;
  std::shared_ptr<Decoded> decode(u32 chunk, Lock &lock);
  Result<> read(u32 chunk, Decoded &to) const;
  bool is_wanted(u32 chunk) const;
  void drop_unwanted();

  const storage::ImageReader &image_;
  UniqueFd event_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stop_ = false;
  std::vector<u32> wanted_;
  std::map<u32, std::shared_ptr<Decoded>> decoded_;  // or being decoded
  std::pair<u32, std::shared_ptr<Decoded>> taken_;
  std::vector<std::thread> threads_;
};

}  // namespace ckpt::tools
