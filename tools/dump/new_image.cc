// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/new_image.h"

#include <unistd.h>

#include <algorithm>

#include "common/base/available_memory.h"
#include "storage/ops/prune.h"

namespace ckpt::tools {
namespace {

// With --leave-running the program need not wait for compression and the disk, as long as a copy of
// its data fits into memory. The limit is a quarter of the memory that is available now.
size_t background_bytes() {
  constexpr u64 kMin = 128u << 20, kPart = 4;
  return std::max(kMin, available_memory() / kPart);
}

storage::ImageWriter::Options writer_options(const DumpOptions &options) {
  storage::ImageWriter::Options o{
      .overwrite = options.overwrite, .parent = options.parent, .only_own_parent = true};
  if (options.key) o.key = &*options.key;
  if (options.follower)
    o.written = [to = options.follower](const std::string &file, u64 offset, u32 bytes) {
      to->written(file, offset, bytes);
    };
  o.copy_puts = options.leave_running;
  if (options.leave_running) o.memory_bytes = background_bytes();
  if (options.memory_mib) o.memory_bytes = *options.memory_mib << 20;
  return o;
}

Result<std::unique_ptr<storage::ImageWriter>> writer_for(const DumpOptions &options) {
  if (options.in_pipe())
    return storage::ImageWriter::create_in_pipe(STDOUT_FILENO, writer_options(options));
  return storage::ImageWriter::create(options.image, writer_options(options));
}

}  // namespace

Result<> NewImage::create(const DumpOptions &options) {
  CKPT_TRY(std::unique_ptr<storage::ImageWriter> writer, writer_for(options));
  std::lock_guard lock(mutex_);
  writer_ = std::move(writer);
  return {};
}

void NewImage::discard() {
  std::unique_ptr<storage::ImageWriter> gone;  // it waits for its workers, without the lock
  std::lock_guard lock(mutex_);
  gone = std::move(writer_);
  expected_ = 0;
}

u64 NewImage::bytes_done() const {
  std::lock_guard lock(mutex_);
  return writer_ ? writer_->stats().raw_bytes : 0;
}

void NewImage::abandon() {
  std::lock_guard lock(mutex_);
  if (writer_) writer_->abandon();
}

std::optional<std::string> remove_older_images(const DumpOptions &options) {
  if (!options.keep) return std::nullopt;
  const storage::Key *key = options.key ? &*options.key : nullptr;
  Result<storage::PruneReport> done =
      storage::prune_chain(options.image, *options.keep, {.key = key});
  if (done) return std::nullopt;
  return "the older images of the chain were not removed: " + done.error().text();
}

}  // namespace ckpt::tools
