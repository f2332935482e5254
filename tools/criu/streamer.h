// SPDX-License-Identifier: Apache-2.0
//
// The protocol of `criu --stream` (criu/img-streamer.c, images/img-streamer.proto): through a UNIX
// socket in its images folder CRIU names one file after the other, and each file is a pipe. A
// request is a u32 length and the protobuf message { string filename = 1 }; at a restore it is
// answered by { bool exists = 1 }; then the pipe's other end comes by SCM_RIGHTS.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/read/image_reader.h"
#include "storage/write/image_writer.h"

namespace ckpt::tools {

// Streams of an image that are CRIU's files.
inline constexpr std::string_view kCriuStreams = "criu/";

// Takes what `criu dump --stream -D folder` writes and puts it into an image.
class Capture {
 public:
  Capture(storage::ImageWriter &image) : image_(image) {}
  ~Capture();
  Result<> start(const std::string &folder);
  // CRIU has ended: waits for the last bytes; the first error of any file.
  Result<> finish();
  // Breaks the pipes: CRIU fails, cures the program and ends by itself (it must never be killed in
  // the middle, with its parasite inside the program).
  void cancel();

 private:
  void accept_and_serve();
  Result<> serve(int socket);
  void copy(UniqueFd pipe, std::string name);
  void note(const Result<> &r);

  storage::ImageWriter &image_;
  UniqueFd listener_;
  std::thread server_;
  std::mutex mutex_;
  std::list<std::thread> copiers_;
  std::set<int> open_;  // sockets and pipes that cancel() has to break
  std::atomic<bool> cancelled_ = false;
  Result<> first_error_;
};

// Hands CRIU's files to `criu restore --stream -D folder` out of an image.
class Serve {
 public:
  Serve(const storage::ImageReader &image) : image_(image) {}
  ~Serve();
  Result<> start(const std::string &folder);
  // CRIU has ended. The first error in reading the image, if any.
  Result<> finish();

 private:
  void accept_and_serve();
  Result<> serve(int socket);
  void copy(std::string name, UniqueFd pipe);

  const storage::ImageReader &image_;
  UniqueFd listener_;
  std::thread server_;
  std::mutex mutex_;
  std::list<std::thread> copiers_;
  Result<> first_error_;
};

}  // namespace ckpt::tools
