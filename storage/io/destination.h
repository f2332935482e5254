// SPDX-License-Identifier: Apache-2.0
//
// Where an image is written to: a folder that gets its name at the end, or a pipe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/io/file_system.h"
#include "storage/io/partial_folder.h"

namespace ckpt::storage {

class Destination {
 public:
  virtual ~Destination() = default;
  // Writes bytes of chunks.ckpt. Thread-safe. If ordered(), the calls must not overlap, and each
  // must start where the previous one ended.
  virtual Result<> write(u64 offset, ByteView data) = 0;
  virtual bool ordered() const = 0;
  // Called after all chunks are written. On success the image is complete and durable; on failure
  // there is no image.
  virtual Result<> finish(ByteView index) = 0;
  // From any thread: makes write() and finish() fail soon.
  virtual void abandon() {}
};

// Called, by any thread, when bytes are in `file`, which then only gets more of them. The image is
// not complete, and perhaps never will be.
using WrittenFn = std::function<void(const std::string &file, u64 offset, u32 bytes)>;

class FolderDestination : public Destination {
 public:
  static Result<std::unique_ptr<FolderDestination>> create(const std::string &final_path,
                                                           bool overwrite, FileSystem &fs,
                                                           WrittenFn written = {});
  Result<> write(u64 offset, ByteView data) override;
  bool ordered() const override { return false; }
  Result<> finish(ByteView index) override;

 private:
  FolderDestination(FileSystem &fs, WrittenFn written) : fs_(fs), written_(std::move(written)) {}
  void start_writeback(u64 end);

  FileSystem &fs_;
  const WrittenFn written_;
  std::unique_ptr<PartialFolder> folder_;
  UniqueFd chunks_;
  std::string path_;  // of chunks_
  std::mutex mutex_;
  u64 writeback_started_ = 0;
};

// The byte stream of docs/FORMAT.md ("In a pipe").
class PipeDestination : public Destination {
 public:
  // `fd` remains the caller's. SIGPIPE must be blocked or ignored.
  static Result<std::unique_ptr<PipeDestination>> create(int fd);
  Result<> write(u64 offset, ByteView data) override;
  bool ordered() const override { return true; }
  // Returns when the reader of the pipe has read the last byte.
  Result<> finish(ByteView index) override;
  void abandon() override { abandoned_ = true; }

 private:
  explicit PipeDestination(UniqueFd fd) : fd_(std::move(fd)) {}
  Result<> send(ByteView data);
  Result<> wait_until_writable();
  Result<> wait_until_read();

  UniqueFd fd_;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace ckpt::storage
