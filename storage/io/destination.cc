// SPDX-License-Identifier: Apache-2.0
#include "storage/io/destination.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "common/proc/file.h"
#include "storage/format/pipe_format.h"

namespace ckpt::storage {
namespace {

// The kernel is asked to start writing after this many bytes, so that the last fsync() is short.
constexpr u64 kWritebackBytes = 32u << 20;
constexpr int kPollMs = 100;

}  // namespace

// ---- a folder

Result<std::unique_ptr<FolderDestination>> FolderDestination::create(const std::string &final_path,
                                                                     bool overwrite, FileSystem &fs,
                                                                     WrittenFn written) {
  std::unique_ptr<FolderDestination> out(new FolderDestination(fs, std::move(written)));
  CKPT_TRY(out->folder_, PartialFolder::create(final_path, overwrite, fs));
  CKPT_TRY(out->chunks_, out->folder_->create_file(kChunksFile));
  out->path_ = out->folder_->path() + "/" + kChunksFile;
  return out;
}

Result<> FolderDestination::write(u64 offset, ByteView data) {
  CKPT_CHECK(write_at(fs_, chunks_.get(), data, offset, path_));
  start_writeback(offset + data.size());
  if (written_) written_(path_, offset, static_cast<u32>(data.size()));
  return {};
}

// Only a hint, so errors are ignored. Chunks below `end` that other threads are still writing are
// covered by the fsync() in finish().
void FolderDestination::start_writeback(u64 end) {
  u64 from;
  {
    std::lock_guard lock(mutex_);
    if (end < writeback_started_ + kWritebackBytes) return;
    from = std::exchange(writeback_started_, end);
  }
  ::sync_file_range(chunks_.get(), static_cast<off_t>(from), static_cast<off_t>(end - from),
                    SYNC_FILE_RANGE_WRITE);
}

Result<> FolderDestination::finish(ByteView index) {
  CKPT_CHECK(sync_file(fs_, chunks_.get(), path_));
  CKPT_TRY(UniqueFd fd, folder_->create_file(kIndexFile));
  std::string path = folder_->path() + "/" + kIndexFile;
  CKPT_CHECK(write_at(fs_, fd.get(), index, 0, path));
  CKPT_CHECK(sync_file(fs_, fd.get(), path));
  CKPT_CHECK(folder_->publish());
  folder_.reset();  // releases the lock: from now on the image may be a parent
  return {};
}

// ---- a pipe

// Opens a pipe again, because O_NONBLOCK belongs to the open file description (open(2)), which
// other processes may share.
Result<std::unique_ptr<PipeDestination>> PipeDestination::create(int fd) {
  std::string self = proc::fd_path(proc::kSelf, fd);
  UniqueFd own;
  struct stat st;
  if (::fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
    own.reset(::open(self.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!own) own.reset(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!own) return fail_errno("cannot write to descriptor {}", fd);
  std::unique_ptr<PipeDestination> out(new PipeDestination(std::move(own)));
  CKPT_CHECK(out->send(encode_pipe_header()));
  return out;
}

Result<> PipeDestination::write(u64, ByteView data) {
  if (data.empty()) return {};
  CKPT_CHECK(send(Writer().put(static_cast<u32>(data.size())).bytes()));
  return send(data);
}

Result<> PipeDestination::finish(ByteView index) {
  CKPT_CHECK(send(Writer().put(u32{0}).put(u64{index.size()}).bytes()));
  CKPT_CHECK(send(index));
  struct stat st;
  if (::fstat(fd_.get(), &st) == 0 && S_ISREG(st.st_mode))
    return sync_file(FileSystem::real(), fd_.get(), "the output file of the image");
  return wait_until_read();
}

Result<> PipeDestination::send(ByteView data) {
  while (!data.empty()) {
    CKPT_CHECK(wait_until_writable());
    ssize_t n = ::write(fd_.get(), data.data(), data.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0 && errno == EPIPE)
      return fail_with_hint("the reader of the pipe has closed it",
                            "see the messages of the reader");
    if (n < 0) return fail_errno("cannot write to the pipe");
    data = data.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<> PipeDestination::wait_until_writable() {
  for (;;) {
    if (abandoned_) return fail("the image was abandoned");
    pollfd p{fd_.get(), POLLOUT, 0};
    int n = ::poll(&p, 1, kPollMs);
    if (n > 0 || (n < 0 && errno != EINTR)) return {};  // write() reports errors
  }
}

// If the reader dies, the bytes that are still in the pipe are lost.
Result<> PipeDestination::wait_until_read() {
  for (;;) {
    int unread = 0;
    if (::ioctl(fd_.get(), FIONREAD, &unread) != 0 || unread == 0) return {};
    pollfd p{fd_.get(), 0, 0};
    if (::poll(&p, 1, 0) > 0 && (p.revents & POLLERR))
      return fail("the reader of the pipe closed it before it had read everything");
    if (abandoned_) return fail("the image was abandoned");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace ckpt::storage
