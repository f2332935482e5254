// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/read/image_reader.h"

namespace ckpt::tools {

// Serves CRIU's files from an image to `criu restore --stream -D folder` (tools/criu/streamer.h).
class StreamServer {
 public:
  explicit StreamServer(const storage::ImageReader &image) : image_(image) {}
  ~StreamServer();
  Result<> start(const std::string &folder);
  // After CRIU has ended: returns the first error of reading the image.
  Result<> finish();

 private:
  void accept_and_serve();
  Result<> serve(int socket);
  void copy(const std::string &name, UniqueFd pipe);

  const storage::ImageReader &image_;
  UniqueFd listener_;
  std::thread server_;
  std::mutex mutex_;
  std::list<std::thread> copiers_;
  Result<> first_error_;
};

}  // namespace ckpt::tools
