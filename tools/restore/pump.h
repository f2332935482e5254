// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// Takes from a text, which comes in pieces, each carriage return that a line feed follows.
class ReturnRemover {
 public:
  // What can be said by now: a return that ends a piece waits for the next one.
  Bytes next(ByteView piece);
  // What waited, at the end of the text.
  Bytes rest();

 private:
  bool held_ = false;
};

// Copies one stream into another in a thread, where CRIU cannot be given our own descriptor.
class Pump {
 public:
  enum class Text {
    AsIs,
    WithoutCarriageReturns
  };  // what a terminal adds and a file should not have
  enum class AtStop { Drain, Drop };

  // `first` goes before anything else. At the end of `from` (which may be none) `to` is closed.
  Pump(UniqueFd from, UniqueFd to, Text text, AtStop at_stop, Bytes first = {});
  Pump(const Pump &) = delete;
  ~Pump();  // stops it: hands on what is there already, or drops it

 private:
  void run(Bytes first);
  bool copy_some();
  bool write_or_stop(ByteView data);

  UniqueFd from_, to_, stop_;
  Text text_;
  ReturnRemover remover_;
  AtStop at_stop_;
  std::thread thread_;
};

}  // namespace ckpt::tools
