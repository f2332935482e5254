// SPDX-License-Identifier: Apache-2.0
#include "storage/ops/receive.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "storage/io/partial_folder.h"

namespace ckpt::storage {
namespace {

constexpr const char *kCutShort = "the image in the pipe ends too early: its sender failed";
constexpr size_t kReadBytes = 1u << 20;

Result<> read_pipe(int fd, std::span<std::byte> to) {
  while (!to.empty()) {
    ssize_t n = ::read(fd, to.data(), to.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot read the pipe");
    if (n == 0) return fail_with_hint(kCutShort, "look at its messages");
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
  Bytes want = encode_pipe_header(), found(want.size());
  CKPT_CHECK(read_pipe(fd, found));
  if (!std::ranges::equal(ByteView(found).first(kPipeMagic.size()), view(kPipeMagic)))
    return fail("what comes through the pipe is no image of ckpt-dump -o -");
  Reader rest(ByteView(found).subspan(kPipeMagic.size()));
  u32 version = rest.get<u32>(), reserved = rest.get<u32>();
  if (version < kFirstPipeVersion || version > kFormatVersion || reserved != 0)
    return fail("the pipe has version {}; this ckpt reads versions {} to {}", version,
                kFirstPipeVersion, kFormatVersion);
  return {};
}

// Both take no more memory than came, whatever the lengths say.
Result<> receive_chunks(int fd, int file, const std::string &path, FileSystem &fs) {
  Bytes buffer(kReadBytes);
  for (u64 at = 0;;) {
    CKPT_TRY(u32 left, read_number<u32>(fd));
    if (left == 0) return {};
    if (left > kMaxPieceBytes) return fail("the pipe announces a piece of {} bytes", left);
    while (left > 0) {
      std::span<std::byte> part = std::span(buffer).first(std::min<size_t>(left, buffer.size()));
      CKPT_CHECK(read_pipe(fd, part));
      CKPT_CHECK(write_at(fs, file, part, at, path));
      at += part.size(), left -= static_cast<u32>(part.size());
    }
  }
}

Result<Bytes> receive_index(int fd) {
  CKPT_TRY(u64 size, read_number<u64>(fd));
  if (size > kMaxIndexBytes)
    return fail("the pipe announces an index of {} bytes; {} are allowed", size, kMaxIndexBytes);
  Bytes index;
  while (index.size() < size) {
    size_t at = index.size(), n = std::min<size_t>(size - at, kReadBytes);
    index.resize(at + n);
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

FileSystem &file_system(const ReadOptions &options) {
  return options.file_system ? *options.file_system : FileSystem::real();
}

}  // namespace

Bytes encode_pipe_header() {
  Writer w;
  w.raw(kPipeMagic.data(), kPipeMagic.size()).put(kFormatVersion).put(u32{0});
  return w.take();
}

Result<> receive_image(int fd, const std::string &final_path, bool overwrite,
                       const ReadOptions &options) {
  FileSystem &fs = file_system(options);
  CKPT_TRY(auto folder, PartialFolder::create(final_path, overwrite, fs));
  CKPT_CHECK(receive_into(fd, *folder, fs));
  CKPT_CHECK(ImageReader::open(folder->path(), options));
  return folder->publish();
}

Result<std::unique_ptr<ImageReader>> spool_image(int fd, const std::string &folder,
                                                 const ReadOptions &options) {
  // One name for all, though none gets it: so what a killed one left is removed by the next.
  CKPT_TRY(auto partial,
           PartialFolder::create(folder + "/ckpt-spool", false, file_system(options)));
  CKPT_CHECK(receive_into(fd, *partial, file_system(options)));
  return ImageReader::open(partial->path(), options);  // the folder's end removes the names
}

}  // namespace ckpt::storage
