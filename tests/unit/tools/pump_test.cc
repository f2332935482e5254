// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/pump.h"

#include <doctest/doctest.h>

namespace ckpt::test {
using namespace tools;
namespace {

ByteView bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte *>(text.data()), text.size()};
}

// The result for a text that arrives in pieces of `size` bytes.
std::string in_pieces(std::string_view text, size_t size) {
  ReturnRemover remover;
  std::string out;
  auto add = [&](const Bytes &b) {
    out.append(reinterpret_cast<const char *>(b.data()), b.size());
  };
  for (size_t at = 0; at < text.size(); at += size)
    add(remover.next(bytes_of(text.substr(at, size))));
  add(remover.rest());
  return out;
}

TEST_CASE("a terminal's carriage returns are removed, wherever its text is cut") {
  for (size_t size : {1, 2, 3, 4, 5, 100}) {
    CAPTURE(size);
    CHECK(in_pieces("one\r\ntwo\r\n", size) == "one\ntwo\n");
    CHECK(in_pieces("progress 1\rprogress 2\r\r\n", size) == "progress 1\rprogress 2\r\n");
    CHECK(in_pieces("at the end\r", size) == "at the end\r");
    CHECK(in_pieces("", size) == "");
  }
}

}  // namespace
}  // namespace ckpt::test
