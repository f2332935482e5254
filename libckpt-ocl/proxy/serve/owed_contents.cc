// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/owed_contents.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "agent/protocol.h"
#include "common/base/fields.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/ipc/unix_socket.h"
#include "libckpt-ocl/proxy/serve/images.h"

namespace ckpt::ocl {
namespace {

// CKPT_TEST_OWED: milliseconds before each piece, for tests.
std::chrono::milliseconds delay() {
  const char *given = ::secure_getenv("CKPT_TEST_OWED");
  return std::chrono::milliseconds(given ? std::atoi(given) : 0);
}

}  // namespace

cl_int OwedContents::open(int file, u64 bytes) {
  give_up();
  if (file < 0) return CL_INVALID_VALUE;
  Result<Mapping> mapped = Mapping::map(file, bytes);
  if (!mapped) {
    log::error(mapped.error());
    return CL_OUT_OF_HOST_MEMORY;
  }
  file_ = std::move(*mapped);
  return CL_SUCCESS;
}

cl_int OwedContents::add(const Piece &p) {
  bool fits = p.at <= file_.size() && p.bytes <= file_.size() - p.at;
  if (copier_.joinable() || !fits || !p.mem || !p.queue) {
    sound_ = false;
    return CL_INVALID_VALUE;
  }
  ::clRetainMemObject(p.mem);
  ::clRetainCommandQueue(p.queue);
  by_object_[p.number].push_back(pieces_.size());
  pieces_.push_back(p);
  return CL_SUCCESS;
}

cl_int OwedContents::begin(int tool) {
  if (copier_.joinable() || tool < 0 || !sound_) return CL_INVALID_VALUE;
  tool_.reset(::fcntl(tool, F_DUPFD_CLOEXEC, 0));
  if (!tool_) return CL_OUT_OF_HOST_MEMORY;
  states_.assign(pieces_.size(), State::Missing);
  there_ = 0;
  over_ = false;
  // From its start on the thread may have finished, and released everything.
  Result<std::thread> started = start_thread([this] { copy_all(); });
  if (started)
    copier_ = std::move(*started);
  else
    over_ = true;
  return started ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

void OwedContents::settle(u64 number) {
  if (auto its = by_object_.find(number); its != by_object_.end())
    for (size_t i : its->second) settle_piece(i);
}

void OwedContents::settle_all() {
  for (size_t i = 0; i < pieces_.size(); i++) settle_piece(i);
}

void OwedContents::settle_piece(size_t i) {
  copy_next(i);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return over_ || states_[i] == State::There; });
}

void OwedContents::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return over_; });
}

// Of an earlier checkpoint: its tool has ended.
void OwedContents::give_up() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (copier_.joinable()) copier_.join();
  release();
  pieces_.clear();
  by_object_.clear();
  sound_ = true;
}

void OwedContents::copy_all() {
  for (size_t i = 0; i < pieces_.size(); i++) {
    std::this_thread::sleep_for(delay());
    if (!copy_next(i)) break;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return over_ || there_ == pieces_.size(); });
  over_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return std::ranges::count(states_, State::InWork) == 0; });
  release();
}

// Unless that is done, or is being done. False: no more is wanted.
bool OwedContents::copy_next(size_t i) {
  {
    std::lock_guard lock(mutex_);
    if (over_) return false;
    if (states_[i] != State::Missing) return true;
    states_[i] = State::InWork;
  }
  if (cl_int error = copy(pieces_[i]); error != CL_SUCCESS)
    fail_with(error, i);
  else
    finished(i);
  return true;
}

cl_int OwedContents::copy(const Piece &p) {
  std::byte *to = file_.data() + p.at;
  if (p.pages) {
    std::memcpy(to, p.pages, p.bytes);
    return CL_SUCCESS;
  }
  if (is_image(p.mem)) return move_image(p.queue, p.mem, true, p.offset, p.bytes, to);
  return ::clEnqueueReadBuffer(p.queue, p.mem, CL_TRUE, p.offset, p.bytes, to, 0, nullptr, nullptr);
}

void OwedContents::finished(size_t i) {
  {
    std::lock_guard lock(mutex_);
    states_[i] = State::There;
    size_t before = there_;
    while (there_ < states_.size() && states_[there_] == State::There) there_++;
    if (there_ > before) tell();
  }
  changed_.notify_all();
}

// A tool that has gone wants nothing any more.
void OwedContents::tell() {
  u16 type = static_cast<u16>(protocol::Type::Drained);
  if (!send_message(tool_.get(), type, Writer().put(u64{there_}).bytes())) over_ = true;
}

void OwedContents::fail_with(cl_int error, size_t i) {
  const Piece &p = pieces_[i];
  std::string why = fmt::format("cannot read {} bytes of {} {}: OpenCL error {}", p.bytes,
                                is_image(p.mem) ? "image" : "buffer", p.number, error);
  Writer body;
  body.str(why);
  body.str({});  // no hint
  {
    std::lock_guard lock(mutex_);
    (void)send_message(tool_.get(), static_cast<u16>(protocol::Type::Failed), body.bytes());
    states_[i] = State::There;
    over_ = true;
  }
  changed_.notify_all();
}

void OwedContents::release() {
  for (Piece &p : pieces_) {
    if (!p.mem) continue;
    ::clReleaseMemObject(std::exchange(p.mem, nullptr));
    ::clReleaseCommandQueue(p.queue);
  }
  tool_.reset();
  file_.reset();
}

}  // namespace ckpt::ocl
