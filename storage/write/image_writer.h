// SPDX-License-Identifier: Apache-2.0
//
// Writes one image. Streams are filled from any number of threads; a pool of workers hashes,
// compresses and writes chunks; nothing is visible under the final name before finish() succeeds.
//
//   CKPT_TRY(auto image, ImageWriter::create("job.img", {}));
//   CKPT_TRY(StreamId pages, image->stream("criu/pages-1.img"));
//   CKPT_CHECK(image->append(pages, bytes));
//   CKPT_CHECK(image->finish({{"program", "./app"}}));
//
// Errors: the first one sticks and comes back from every later call, with path and reason; nothing
// blocks after it. Memory: see Options::memory_bytes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
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
    unsigned threads = 0;  // 0: as many as this process may use cores
    // Bound on the raw bytes that wait for a worker; 0: 4 MiB for each thread, and 32 MiB at least
    // (more would not be in the cache any more when a worker comes to it). On top come, for each
    // thread, about 3 MiB (zstd's context and its output; with a parent 3 MiB more), and for each
    // stream that is open for append at most 2 MiB.
    size_t memory_bytes = 0;
    // put() copies its bytes, within memory_bytes, and calls done() at once: who waits for done()
    // waits for memory only, and not for compression and the disk: these begin when half of
    // memory_bytes is taken, or in finish(), and yield the cores.
    bool copy_puts = false;
    bool overwrite = false;  // replace an image at the final path, in one step
    // The folder of an image beside the new one: chunks that it holds, or that its own parents
    // hold, are referred to and not written again. "": none.
    std::string parent;
    const Key *key = nullptr;           // encrypt; copied. A parent must have the same key, or none
    FileSystem *file_system = nullptr;  // null: the real one
  };
  // Fixed: chunks of kChunkBytes from the stream's begin on. Content: where the pages' contents say
  // (storage/chunk/content_cut.h), for append() only.
  enum class Cut { Fixed, Content };

  // Makes `final_path`.partial-XXXXXX (0700, its files 0600) and locks it. Removes what killed
  // writers of the same image left. Refuses an existing `final_path` unless `overwrite`.
  static Result<std::unique_ptr<ImageWriter>> create(const std::string &final_path,
                                                     const Options &options);
  // The image goes through a pipe instead (`fd` stays the caller's; SIGPIPE blocked): readers are
  // storage/ops/receive.h. Takes no parent: the reader might not have it.
  static Result<std::unique_ptr<ImageWriter>> create_in_pipe(int fd, const Options &options);
  // Not finished: waits for the workers (every done() is called) and removes the partial folder.
  ~ImageWriter();

  // A new, empty stream; the name must not be in use (rules: check_stream_name). Thread-safe.
  Result<StreamId> stream(const std::string &name, Cut cut = Cut::Fixed);
  // Fills an empty stream with what a stream of the parent holds, without reading it. Fails where
  // there is none of that name, or where it has not `size` bytes.
  Result<> reuse(StreamId id, const std::string &parent_stream, u64 size);
  // The parent image, until the end of finish(); or null.
  const ImageReader *parent() const;

  // Adds bytes at the end of a stream; copies them. Blocks while memory_bytes are waiting. One
  // thread at a time for one stream; different streams from different threads.
  Result<> append(StreamId id, ByteView data);
  // append() without its copy: room() is where the next bytes of the stream go, at least one;
  // commit() says how many of them are there now. Valid until the stream's next call.
  Result<std::span<std::byte>> room(StreamId id);
  Result<> commit(StreamId id, size_t size);
  // No more append()s: hands the last, short chunk over and frees its buffer. Optional.
  Result<> close(StreamId id);

  // Fills [offset, offset + data.size()) of a stream, without a copy: `data` must stay valid and
  // unchanged until done() was called. `offset` is a multiple of kChunkBytes; data.size() too,
  // unless it ends the stream. Any thread, any order; nothing twice and in the end no holes. Blocks
  // while memory_bytes are waiting. done() is called exactly once, also when an error is returned,
  // usually from a worker, and must not call the writer. A stream takes append() or put().
  Result<> put(StreamId id, u64 offset, ByteView data, std::function<void()> done = {});

  // Waits for the workers, writes the index, makes everything durable and renames. After an error
  // the final path is what it was before. `manifest` is an object; strings that are not UTF-8 have
  // their bad bytes replaced. Call once; no other call may be running.
  Result<> finish(const nlohmann::json &manifest);

  // From any thread: every call fails from now on, those that wait on a pipe's reader too.
  void abandon();

  // Live and thread-safe.
  ImageStats stats() const;
  Uuid uuid() const;

 private:
  class Impl;
  explicit ImageWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckpt::storage
