// SPDX-License-Identifier: Apache-2.0
//
// make-image PATH [--small] [--parent IMAGE] [--key-file FILE]: writes an image with every kind of
// chunk and stream, with the same bytes each time, for test_format.py and tests/golden. The streams
// are those of expected_streams() in test_format.py. Both are written out; neither is derived from
// the other.
#include <cstdio>
#include <optional>

#include <nlohmann/json.hpp>

#include "storage/io/key_file.h"
#include "storage/write/image_writer.h"

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

struct Arguments {
  std::string path, parent, key_file;
  bool small = false;
};

Result<std::unique_ptr<storage::ImageWriter>> create(const Arguments &a) {
  storage::ImageWriter::Options o{.threads = 1, .parent = a.parent};
  std::optional<storage::Key> key;
  if (!a.key_file.empty()) {
    CKPT_TRY(key, storage::read_key(a.key_file));
    o.key = &*key;
  }
  return storage::ImageWriter::create(a.path, o);
}

Result<> add(storage::ImageWriter &image, const std::string &name, const Bytes &bytes,
             storage::Cut cut = storage::Cut::Fixed) {
  CKPT_TRY(storage::StreamId id, image.stream(name, cut));
  return image.append(id, bytes);
}

Result<> make(const Arguments &a) {
  CKPT_TRY(auto image, create(a));
  size_t big = a.small ? 5000 : 2 * storage::kChunkBytes + 77;
  for (const char *kind : {"random", "smooth", "zero"})
    for (size_t n : {size_t{0}, size_t{1}, size_t{300}, big})
      CKPT_CHECK(add(*image, fmt::format("device/0/{}-{}", kind, n), pattern(kind, n)));
  CKPT_CHECK(add(*image, "criu/pages-1.img", pattern("random", big)));
  CKPT_CHECK(add(*image, "criu/pages-2.img", pattern("smooth", 600000), storage::Cut::Content));
  Bytes similar = pattern("random", big);
  if (!a.parent.empty()) similar[100] ^= std::byte{1};
  CKPT_CHECK(add(*image, "device/0/like", similar));
  if (!a.parent.empty()) CKPT_CHECK(add(*image, "device/0/random-700", pattern("random", 700)));
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
  ckpt::Arguments a{.path = argv[1]};
  for (int i = 2; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--small") a.small = true;
    if (word == "--parent" && i + 1 < argc) a.parent = argv[++i];
    if (word == "--key-file" && i + 1 < argc) a.key_file = argv[++i];
  }
  auto done = ckpt::make(a);
  if (!done) std::fprintf(stderr, "make-image: %s\n", done.error().text().c_str());
  return done ? 0 : 1;
}
