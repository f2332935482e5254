// SPDX-License-Identifier: Apache-2.0
//
// Writes one image. Any number of threads fill streams; a pool of workers hashes, compresses and
// writes chunks. Nothing is visible under the final name before finish() succeeds.
//
//   CKPT_TRY(auto image, ImageWriter::create("job.img", {}));
//   CKPT_TRY(StreamId pages, image->stream("criu/pages-1.img"));
//   CKPT_CHECK(image->append(pages, bytes));
//   CKPT_CHECK(image->finish({{"program", "./app"}}));
//
// Errors: every call after the first error returns that error, with path and reason; no call blocks
// after it. Memory: see Options::memory_bytes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "storage/chunk/content_cut.h"
#include "storage/format/format.h"
#include "storage/format/image_stats.h"
#include "storage/format/key.h"
#include "storage/io/file_system.h"

namespace ckpt::storage {

class ImageReader;

enum class StreamId : u32 {};

class ImageWriter {
 public:
  struct Options {
    int zstd_level = 1;
    unsigned threads = 0;  // 0: the number of cores that this process may use
    // Limit on the raw bytes that wait for a worker. 0: 4 MiB for each thread, and at least 32 MiB
    // (with more, the bytes would no longer be in the cache when a worker processes them). In
    // addition, each thread needs about 3 MiB (zstd's context and output; 3 MiB more with a
    // parent), and each stream that is open for append() at most 2 MiB.
    size_t memory_bytes = 0;
    // put() copies its bytes, within memory_bytes, and calls done() at once. So a caller that waits
    // for done() waits only for memory, not for compression and the disk: these start when half of
    // memory_bytes is in use, or in finish(), and run at a lower priority.
    bool copy_puts = false;
    bool overwrite = false;  // replace an image at the final path, atomically
    // The folder of an image beside the new one. Chunks that it or its own parents have are
    // referred to and not written again. "": no parent.
    std::string parent;
    bool only_own_parent = false;  // as ImageReader's only_own
    const Key *key = nullptr;      // encrypts the image; copied. The same as the parent's key
    // Called, by any thread, when stored bytes are in `file` (chunks.ckpt of the partial folder),
    // to send them on before the image is complete.
    std::function<void(const std::string &file, u64 offset, u32 bytes)> written;
    FileSystem *file_system = nullptr;  // null: the real one
  };

  // Creates and locks `final_path`.partial-XXXXXX (mode 0700, its files 0600), and removes what
  // killed writers of the same image have left. Fails if `final_path` exists, unless `overwrite`.
  static Result<std::unique_ptr<ImageWriter>> create(const std::string &final_path,
                                                     const Options &options);
  // Writes the image into a pipe. `fd` remains the caller's; SIGPIPE must be blocked. To read it,
  // see storage/ops/receive.h. Fails if there is a parent, because the reader may not have it.
  static Result<std::unique_ptr<ImageWriter>> create_in_pipe(int fd, const Options &options);
  // Without finish(): waits for the workers (every done() is called) and removes the partial
  // folder.
  ~ImageWriter();

  // Adds an empty stream. The name must be new and follow the rules of check_stream_name().
  // Cut::Content is for append() only. Thread-safe.
  Result<StreamId> stream(const std::string &name, Cut cut = Cut::Fixed);
  // Fills an empty stream with the bytes of a stream of the parent, without reading them. Fails if
  // the parent has no such stream, or if that one does not have `size` bytes.
  Result<> reuse(StreamId id, const std::string &parent_stream, u64 size);
  // The parent image, until the end of finish(), or null.
  const ImageReader *parent() const;

  // Appends a copy of the bytes to a stream. Blocks while memory_bytes are waiting. Different
  // threads may append to different streams.
  Result<> append(StreamId id, ByteView data);
  // append() without a copy: room() returns memory (at least one byte) for the next bytes of the
  // stream, and commit() appends the first `size` of them. Valid until the next call for the
  // stream.
  Result<std::span<std::byte>> room(StreamId id);
  Result<> commit(StreamId id, size_t size);
  // Ends a stream that was appended to: submits its last chunk and frees its buffer. Optional.
  Result<> close(StreamId id);

  // Fills [offset, offset + data.size()) of a stream without a copy: `data` must remain valid and
  // unchanged until done() is called. `offset` must be a multiple of kChunkBytes; so must
  // data.size(), except at the end of the stream. Calls may come from any thread and in any order,
  // but must not overlap, and together must leave no holes. Blocks while memory_bytes are waiting.
  // done() is called exactly once, even after an error, usually by a worker; it must not call the
  // writer. A stream is filled by append() or by put(), not both.
  Result<> put(StreamId id, u64 offset, ByteView data, std::function<void()> done = {});

  // put() of a chunk that the parent has, without its bytes. Fails if the parent does not have it.
  Result<> put_known(StreamId id, u64 offset, u32 size, const ChunkAddress &address);

  // put() without a copy, also with copy_puts.
  Result<> put_in_place(StreamId id, u64 offset, ByteView data, std::function<void()> done = {});

  // Waits for the workers, writes the index, makes everything durable, and renames the folder.
  // After an error the final path is unchanged. `manifest` is an object; bytes that are not UTF-8
  // are replaced. Call it once, when no other call is running.
  Result<> finish(const nlohmann::json &manifest);

  // From any thread: makes every call fail from now on, also one that waits for a pipe's reader.
  void abandon();

  // Updated while writing. Thread-safe.
  ImageStats stats() const;
  Uuid uuid() const;
  u64 seed() const;  // of the addresses of chunks

 private:
  class Impl;
  explicit ImageWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckpt::storage
