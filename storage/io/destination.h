// SPDX-License-Identifier: Apache-2.0
//
// Where an image goes while it is written: a folder that gets its name at the end, or a pipe.
#pragma once

#include <atomic>
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
  // Bytes of chunks.ckpt. Thread-safe. When ordered(), each call must begin where the one before
  // ended, and they come one at a time.
  virtual Result<> write(u64 offset, ByteView data) = 0;
  virtual bool ordered() const = 0;
  // All chunks are written. The image is whole and safe when this succeeds, or there is none.
  virtual Result<> finish(ByteView index) = 0;
  // From any thread: write() and finish() fail soon.
  virtual void abandon() {}
};

class FolderDestination : public Destination {
 public:
  static Result<std::unique_ptr<FolderDestination>> create(const std::string &final_path,
                                                           bool overwrite, FileSystem &fs);
  Result<> write(u64 offset, ByteView data) override;
  bool ordered() const override { return false; }
  Result<> finish(ByteView index) override;

 private:
  explicit FolderDestination(FileSystem &fs) : fs_(fs) {}
  void start_writeback(u64 end);

  FileSystem &fs_;
  std::unique_ptr<PartialFolder> folder_;
  UniqueFd chunks_;
  std::string path_;  // of chunks_
  std::mutex mutex_;
  u64 writeback_started_ = 0;
};

// The stream of docs/FORMAT.md ("In a pipe").
class PipeDestination : public Destination {
 public:
  // `fd` stays the caller's. SIGPIPE must be blocked or ignored.
  static Result<std::unique_ptr<PipeDestination>> create(int fd);
  Result<> write(u64 offset, ByteView data) override;
  bool ordered() const override { return true; }
  // Returns once a pipe's reader has taken the last byte.
  Result<> finish(ByteView index) override;
  void abandon() override { abandoned_ = true; }

 private:
  explicit PipeDestination(UniqueFd fd) : fd_(std::move(fd)) {}
  Result<> send(ByteView data);
  Result<> wait_until(short events);
  Result<> wait_until_taken();

  UniqueFd fd_;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace ckpt::storage
