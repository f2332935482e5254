// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/read/image_reader.h"

namespace ckpt::tools {

struct StreamPart {
  u64 offset, size;
};

// Changes that a restore makes to CRIU's files on their way to CRIU. The image stays as it is.
struct StreamEdits {
  std::function<bool(const std::string &name)> wanted;  // of a file such as "files.img"
  std::function<Bytes(const std::string &name, Bytes)> edited;
  // Of a file that is too large to be edited: the only parts that CRIU gets, in order. Nothing, or
  // no function: all of it.
  std::function<std::optional<std::vector<StreamPart>>(const std::string &name)> parts = {};
};

// Serves CRIU's files from an image to `criu restore --stream -D folder` (tools/criu/streamer.h).
class StreamServer {
 public:
  StreamServer(const storage::ImageReader &image, StreamEdits edits)
      : image_(image), edits_(std::move(edits)) {}
  ~StreamServer();
  Result<> start(const std::string &folder);
  // The same, for a connection that CRIU has made already.
  Result<> start(UniqueFd connection);
  // After CRIU has ended: returns the first error of reading the image.
  Result<> finish();

 private:
  void accept_and_serve();
  void serve_connected(int socket);
  Result<> serve(int socket);
  void copy(const std::string &name, UniqueFd pipe);
  using Write = std::function<Result<>(ByteView)>;
  Result<> read_stream(const std::string &name, const Write &write) const;
  Result<> read_parts(const storage::StreamEntry &stream, const std::vector<StreamPart> &parts,
                      const Write &write) const;

  const storage::ImageReader &image_;
  StreamEdits edits_;
  UniqueFd listener_, connection_;
  std::thread server_;
  std::mutex mutex_;
  bool finishing_ = false;
  std::list<std::thread> copiers_;
  Result<> first_error_;
};

}  // namespace ckpt::tools
