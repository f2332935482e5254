// SPDX-License-Identifier: Apache-2.0
//
// make-image PATH: an image of every kind of chunk and stream, the same bytes each time, for the
// second reader's test and for tests/golden. STREAM i of kind k is what expected_streams() in
// test_format.py says; both are written down, neither is computed from the other.
#include <cstdio>

#include <nlohmann/json.hpp>

#include "storage/image_writer.h"

namespace ckpt {
namespace {

Bytes pattern(const char *kind, size_t n) {
  Bytes out(n);
  u32 state = 12345;
  for (size_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    if (*kind == 'r') out[i] = static_cast<std::byte>(state >> 24);
    if (*kind == 's') out[i] = static_cast<std::byte>(i / 16 % 251);
  }
  return out;
}

Result<> make(const std::string &path, bool small) {
  CKPT_TRY(auto image, ImageWriter::create(path, {.threads = 1}));
  size_t big = small ? 5000 : 2 * kChunkBytes + 77;
  for (const char *kind : {"random", "smooth", "zero"})
    for (size_t n : {size_t{0}, size_t{1}, size_t{300}, big}) {
      CKPT_TRY(StreamId id, image->stream(fmt::format("device/0/{}-{}", kind, n)));
      CKPT_CHECK(image->append(id, pattern(kind, n)));
    }
  CKPT_TRY(StreamId shared, image->stream("criu/pages-1.img"));
  CKPT_CHECK(image->append(shared, pattern("random", big)));
  return image->finish(
      {{"program", "/bin/golden"},
       {"argv", {"golden", "a b", "\xc3\xa9\x1b[2J"}},
       {"created", "2026-01-02T03:04:05Z"},
       {"ckpt_version", "0.1.0"},
       {"processes", {{{"pid", 7}, {"command", "golden"}, {"agent", true}}}},
       {"participants", {{{"agent", 0}, {"api", "ocl"}, {"needs", {{"fp64", true}}}}}}});
}

}  // namespace
}  // namespace ckpt

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  auto done = ckpt::make(argv[1], argc > 2);
  if (!done) std::fprintf(stderr, "make-image: %s\n", done.error().text().c_str());
  return done ? 0 : 1;
}
