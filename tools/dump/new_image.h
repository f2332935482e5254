// SPDX-License-Identifier: Apache-2.0
//
// The image that a dump writes: in a partial folder beside its final name, or as a stream to
// standard output.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "storage/write/image_writer.h"
#include "tools/dump/dump_options.h"

namespace ckpt::tools {

class NewImage {
 public:
  Result<> create(const DumpOptions &options);
  // From create() to discard().
  bool exists() const { return writer_ != nullptr; }
  storage::ImageWriter &writer() { return *writer_; }
  // Its partial folder is removed.
  void discard();

  // ---- from any thread

  u64 bytes_done() const;
  void expect(u64 bytes) { expected_ = bytes; }
  u64 bytes_expected() const { return expected_; }
  // Ends a wait for the reader of a pipe.
  void abandon();

 private:
  mutable std::mutex mutex_;  // held by other threads while they use the writer
  std::unique_ptr<storage::ImageWriter> writer_;
  std::atomic<u64> expected_ = 0;
};

// Removes the images of the chain that DumpOptions::keep does not keep. The new image is complete,
// so a failure is only a warning. Nothing, or why they were not removed.
std::optional<std::string> remove_older_images(const DumpOptions &options);

}  // namespace ckpt::tools
