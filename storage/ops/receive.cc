// SPDX-License-Identifier: Apache-2.0
#include "storage/ops/receive.h"

#include <unistd.h>

#include <algorithm>

#include "storage/io/partial_folder.h"

namespace ckpt::storage {
namespace {

constexpr size_t kReadBytes = 1u << 20;

Result<> read_pipe(int fd, std::span<std::byte> to) {
  while (!to.empty()) {
    ssize_t n = ::read(fd, to.data(), to.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot read the pipe");
    if (n == 0)
      return fail_with_hint("the image in the pipe ends too early: its sender failed",
                            "see the messages of the sender");
    to = to.subspan(static_cast<size_t>(n));
  }
  return {};
}

template <class T>
Result<T> read_number(int fd) {
  std::byte bytes[sizeof(T)];
  CKPT_CHECK(read_pipe(fd, bytes));
  return Reader(bytes).get<T>();
}

Result<> check_pipe_header(int fd) {
  Bytes found(encode_pipe_header().size());
  CKPT_CHECK(read_pipe(fd, found));
  if (!std::ranges::equal(ByteView(found).first(kPipeMagic.size()), view(kPipeMagic)))
    return fail("the pipe does not contain an image of ckpt-dump -o -");
  Reader rest(ByteView(found).subspan(kPipeMagic.size()));
  u32 version = rest.get<u32>();
  u32 reserved = rest.get<u32>();
  if (version < kFirstPipeVersion || version > kFormatVersion || reserved != 0)
    return fail("the image in the pipe has version {}; this ckpt reads versions {} to {}", version,
                kFirstPipeVersion, kFormatVersion);
  return {};
}

// Appends one piece of `left` bytes to the file at offset `at`.
Result<> receive_piece(int fd, u32 left, int file, u64 &at, Bytes &buffer, const std::string &path,
                       FileSystem &fs) {
  while (left > 0) {
    std::span<std::byte> part = std::span(buffer).first(std::min<size_t>(left, buffer.size()));
    CKPT_CHECK(read_pipe(fd, part));
    CKPT_CHECK(write_at(fs, file, part, at, path));
    at += part.size();
    left -= static_cast<u32>(part.size());
  }
  return {};
}

// This function and receive_index() never use more memory than has arrived, whatever the lengths
// say.
Result<> receive_chunks(int fd, int file, const std::string &path, FileSystem &fs) {
  Bytes buffer(kReadBytes);
  for (u64 at = 0;;) {
    CKPT_TRY(u32 size, read_number<u32>(fd));
    if (size == 0) return {};
    if (size > kMaxPieceBytes)
      return fail("the pipe announces a piece of {} bytes; the limit is {}", size, kMaxPieceBytes);
    CKPT_CHECK(receive_piece(fd, size, file, at, buffer, path, fs));
  }
}

Result<Bytes> receive_index(int fd) {
  CKPT_TRY(u64 size, read_number<u64>(fd));
  if (size > kMaxIndexBytes)
    return fail("the pipe announces an index of {} bytes; the limit is {}", size, kMaxIndexBytes);
  Bytes index;
  while (index.size() < size) {
    size_t at = index.size();
    index.resize(at + std::min<size_t>(size - at, kReadBytes));
    CKPT_CHECK(read_pipe(fd, std::span(index).subspan(at)));
  }
  return index;
}

Result<> receive_into(int fd, PartialFolder &folder, FileSystem &fs) {
  CKPT_CHECK(check_pipe_header(fd));
  std::string path = folder.path() + "/";
  CKPT_TRY(UniqueFd chunks, folder.create_file(kChunksFile));
  CKPT_CHECK(receive_chunks(fd, chunks.get(), path + kChunksFile, fs));
  CKPT_TRY(Bytes bytes, receive_index(fd));
  CKPT_TRY(UniqueFd index, folder.create_file(kIndexFile));
  CKPT_CHECK(write_at(fs, index.get(), bytes, 0, path + kIndexFile));
  CKPT_CHECK(sync_file(fs, chunks.get(), path + kChunksFile));
  return sync_file(fs, index.get(), path + kIndexFile);
}

}  // namespace

Result<> receive_image(int fd, const std::string &final_path, bool overwrite,
                       const ReadOptions &options) {
  FileSystem &fs = FileSystem::or_real(options.file_system);
  CKPT_TRY(auto folder, PartialFolder::create(final_path, overwrite, fs));
  CKPT_CHECK(receive_into(fd, *folder, fs));
  CKPT_CHECK(ImageReader::open(folder->path(), options));
  return folder->publish();
}

Result<std::unique_ptr<ImageReader>> spool_image(int fd, const std::string &folder,
                                                 const ReadOptions &options) {
  FileSystem &fs = FileSystem::or_real(options.file_system);
  // Always the same name, although it is never published, so that each call removes what killed
  // processes have left.
  CKPT_TRY(auto partial, PartialFolder::create(folder + "/ckpt-spool", false, fs));
  CKPT_CHECK(receive_into(fd, *partial, fs));
  return ImageReader::open(partial->path(), options);  // ~PartialFolder() unlinks the files
}

}  // namespace ckpt::storage
