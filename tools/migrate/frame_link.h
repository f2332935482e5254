// SPDX-License-Identifier: Apache-2.0
//
// The two directions of a migration's connection: frames over a pair of descriptors, which lead to
// the other machine through ssh. What arrives is hostile input. A side that works for a while sends
// Working frames; one that hears nothing for longer than its patience takes the link for dead.
#pragma once

#include <chrono>
#include <functional>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// docs/MIGRATION.md has what each of them contains, and which side sends it when.
enum class Kind : u16 {
  Hello = 1,
  Welcome = 2,
  Failed = 3,
  Working = 4,
  Prepare = 5,
  Prepared = 6,
  Image = 7,
  Index = 8,
  Want = 9,
  Chunk = 10,
  ImageEnd = 11,
  Stored = 12,
  Check = 13,
  Checked = 14,
  Load = 15,
  Ready = 16,
  Go = 17,
  Running = 18,
  Finished = 19,
  Question = 20,
  TakeBack = 21,
  State = 22,
  Begin = 23,
  Ahead = 24,
};

inline constexpr size_t kMaxFrameBytes = 5u << 20;  // a sealed chunk of 4 MiB, and its number

struct Frame {
  Kind kind{};
  Bytes body;
};

class FrameLink {
 public:
  using Check = std::function<Result<>()>;
  // `check` is asked often; its failure ends every wait.
  FrameLink(UniqueFd in, UniqueFd out, Check check);

  void set_patience(std::chrono::seconds patience) { patience_ = patience; }
  // The body is `head`, followed by `rest`.
  Result<> send(Kind kind, ByteView head = {}, ByteView rest = {});
  // The next frame but Working. A Failed frame is the error that it names.
  Result<Frame> receive();
  // The next frame, which must be of this kind.
  Result<Bytes> receive(Kind kind);
  // While this side works: at most once a second, tells the other one.
  Result<> beat();
  u64 sent_bytes() const { return sent_; }
  // The time in which these were sent, without that in which there was nothing to send.
  double sending_seconds() const { return sending_; }
  // No more frames. The other side notices it.
  void close();

 private:
  Failure lost();
  Result<> write(ByteView data);
  Result<> read(std::span<std::byte> data);
  Result<> wait(int fd, short event, Clock::time_point since);

  UniqueFd in_, out_;
  Check check_;
  std::chrono::seconds patience_{60};
  Clock::time_point last_sent_ = Clock::now();
  u64 sent_ = 0;
  double sending_ = 0;
};

}  // namespace ckpt::tools
