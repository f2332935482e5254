// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/write/image_writer.h"
#include "tools/criu/criu_files.h"
#include "tools/criu/recorded_identities.h"

namespace ckpt::tools {

// Writes the files of `criu dump --stream -D folder` into an image (tools/criu/streamer.h).
class StreamCapture {
 public:
  // `facts`: receives the files that check_restorable() reads.
  StreamCapture(storage::ImageWriter &image, FactFiles &facts) : image_(image), facts_(facts) {}
  ~StreamCapture();
  Result<> start(const std::string &folder);
  // The same, for a connection that CRIU has made already.
  Result<> start(UniqueFd connection);
  // After CRIU has ended: waits until all bytes are in the image. Returns the first error.
  Result<> finish();
  // What the files say about identities, after finish().
  const RecordedIdentities &identities() const { return identities_; }
  // The rest of the files is not wanted: it is read and discarded, so that CRIU ends as after any
  // dump and leaves the program stopped. A CRIU that fails continues the program itself, and calls
  // that wait return EINTR then. The same happens after an error of the image.
  void discard() { discarded_ = true; }
  // Breaks the pipes, so that CRIU fails, removes its parasite code from the program and ends. For
  // a CRIU that takes too long.
  void abandon();

 private:
  void accept_and_serve();
  void serve_connected(int socket);
  Result<> serve(int socket);
  void take(const UniqueFd &pipe, const std::string &name);
  Result<> copy(int pipe, const std::string &name);
  void empty(int pipe) const;
  void note_fact(const std::function<void()> &f);
  void note(const Result<> &r);
  void note_identity(const std::string &name, ByteView file);

  storage::ImageWriter &image_;
  FactFiles &facts_;
  UniqueFd listener_, connection_;
  std::thread server_;
  std::mutex mutex_;
  std::list<std::thread> copiers_;
  std::set<int> open_;  // sockets that abandon() shuts down
  std::atomic<bool> discarded_ = false, abandoned_ = false;
  RecordedIdentities identities_;
  Result<> first_error_;
};

}  // namespace ckpt::tools
