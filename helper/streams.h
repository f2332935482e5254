// SPDX-License-Identifier: Apache-2.0
//
// CRIU's files on their way between CRIU and the caller (tools/criu/streamer.h has the protocol).
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::helper {

// A folder that only root can write to, with the socket that CRIU connects to. Its process holds a
// lock (flock(2)) on it.
class StreamFolder {
 public:
  enum class For { Dump, Restore };
  static Result<StreamFolder> create(const std::string &parent, For purpose);
  StreamFolder(StreamFolder &&o) noexcept;
  StreamFolder &operator=(StreamFolder &&) = delete;
  ~StreamFolder();

  const std::string &path() const { return path_; }
  // Waits until CRIU has connected, or `process` has ended: then the descriptor is invalid.
  // `is_criu` distinguishes CRIU from other processes that connect.
  Result<UniqueFd> accept(int process, const std::function<bool(pid_t)> &is_criu);

 private:
  StreamFolder() = default;
  std::string path_, socket_;
  UniqueFd lock_, listener_;
};

// Removes a folder whose process was killed.
void remove_dead_stream_folder(const std::string &parent, const std::string &name);

}  // namespace ckpt::helper
