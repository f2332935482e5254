// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// Removes every carriage return in front of a line feed from a text that arrives in pieces.
class ReturnRemover {
 public:
  // A carriage return at the end of a piece is held back until the next piece.
  Bytes next(ByteView piece);
  // At the end of the text: the carriage return that is still held back.
  Bytes rest();

 private:
  bool held_ = false;
};

// Copies one stream to another in a thread, if the program cannot be given our own descriptor.
class Pump {
 public:
  // A terminal adds carriage returns, which a file should not contain.
  enum class Text { AsIs, WithoutCarriageReturns };
  enum class AtStop { Drain, Drop };

  // Passes the bytes that are written before those of `from` to a function, piece by piece. Stops
  // when that returns an error.
  using Write = std::function<Result<>(ByteView)>;
  using First = std::function<Result<>(const Write &)>;

  // Writes the bytes of `first`, then copies `from`, which may be invalid. Closes `to` at the end.
  // Throws std::system_error if the system refuses another thread.
  Pump(UniqueFd from, UniqueFd to, Text text, AtStop at_stop, First first = {});
  Pump(const Pump &) = delete;
  // Stops the thread. Data that has arrived already is copied (Drain) or lost (Drop).
  ~Pump();

 private:
  void run(const First &first);
  bool write_first(const First &first);
  bool copy_some();
  bool write_or_stop(ByteView data);

  UniqueFd from_, to_, stop_;
  Text text_;
  ReturnRemover remover_;
  AtStop at_stop_;
  std::thread thread_;
};

}  // namespace ckpt::tools
