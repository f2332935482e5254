// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "storage/chunk/chunk_codec.h"
#include "storage/io/key_file.h"
#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

Key make_key(u64 seed) { return must(Key::from_bytes(random_bytes(Key::kBytes, seed))); }

NamedBytes some_streams() {
  return {{"raw", random_bytes(60, 1)},
          {"zstd", smooth_bytes(3000, 2)},
          {"zero", zeros(100)},
          {"big", smooth_bytes(2 * kChunkBytes + 5, 3)}};
}

TEST_CASE("an encrypted image can be read with its key only") {
  TempFolder tmp;
  Key key = make_key(1), other = make_key(2);
  must(write_image(tmp / "image", some_streams(), {.key = &key}));
  check_holds(tmp / "image", some_streams(), {.key = &key});
  auto without = ImageReader::open(tmp / "image");
  REQUIRE_FALSE(without);
  CHECK(mentions(without.error(), "is encrypted"));
  CHECK(mentions(without.error(), "--key-file"));
  auto wrong = ImageReader::open(tmp / "image", {.key = &other});
  REQUIRE_FALSE(wrong);
  CHECK(mentions(wrong.error(), "wrong key"));
  // An image without encryption can be read with any key.
  must(write_image(tmp / "clear", some_streams()));
  check_holds(tmp / "clear", some_streams(), {.key = &key});
}

bool holds_text(const Bytes &file, std::string_view words) {
  return text(file).find(words) != std::string_view::npos;
}

TEST_CASE("no bytes of the program are on the disk unencrypted") {
  TempFolder tmp;
  Key key = make_key(1);
  NamedBytes streams = {{"device/secret-name", Bytes(200, std::byte{'Q'})},
                        {"random", random_bytes(500, 7)}};
  must(write_image(tmp / "image", streams, {.key = &key}));
  must(write_image(tmp / "clear", streams));
  for (const char *file : {"/index.ckpt", "/chunks.ckpt"}) {
    Bytes sealed = read_file(tmp / "image" + file);
    for (std::string_view words : {"secret-name", "QQQQQQQQ", "\"program\""})
      CHECK_FALSE(holds_text(sealed, words));
    CHECK_FALSE(holds_text(sealed, text(ByteView(streams[1].second).first(16))));
  }
  CHECK(holds_text(read_file(tmp / "clear/index.ckpt"), "secret-name"));
  CHECK(holds_text(read_file(tmp / "clear/chunks.ckpt"),
                   text(ByteView(streams[1].second).first(16))));
}

TEST_CASE("all images of a chain need the same key, and equal chunks are stored once") {
  TempFolder tmp;
  Key key = make_key(1), other = make_key(2);
  must(write_image(tmp / "one", some_streams(), {.key = &key}));
  must(write_image(tmp / "two", some_streams(), {.parent = tmp / "one", .key = &key}));
  check_holds(tmp / "two", some_streams(), {.key = &key});
  CHECK(open_image(tmp / "two", {.key = &key})->stats().unique_chunks == 0);
  CHECK_FALSE(write_image(tmp / "three", some_streams(), {.parent = tmp / "one"}));
  CHECK_FALSE(write_image(tmp / "three", some_streams(), {.parent = tmp / "one", .key = &other}));
  must(write_image(tmp / "clear", some_streams()));
  CHECK(mentions(
      write_image(tmp / "three", some_streams(), {.parent = tmp / "clear", .key = &key}).error(),
      "is not encrypted"));
}

TEST_CASE("every flip in an encrypted image is found, even with correct checksums") {
  TempFolder tmp;
  Key key = make_key(1);
  must(write_image(tmp / "image", {{"a", random_bytes(40, 1)}}, {.key = &key}));
  auto image = open_image(tmp / "image", {.key = &key});
  const ChunkEntry &c = image->index().chunks[0];
  Bytes chunks = read_file(tmp / "image/chunks.ckpt"), raw(c.raw_size);
  Bytes context = seal_context(c.address, c.raw_size, c.codec);
  ByteView stored = ByteView(chunks).subspan(c.offset, c.stored_size);
  must(key.open(context, stored, raw));
  Bytes flipped(stored.begin(), stored.end());
  for (size_t bit = 0; bit < flipped.size() * 8; ++bit) {
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK_FALSE(key.open(context, flipped, raw));
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  CHECK_FALSE(key.open(seal_context(c.address, c.raw_size, Codec::Zstd), stored, raw));
  Bytes index = read_file(tmp / "image/index.ckpt");
  for (size_t bit = 0; bit < index.size() * 8; ++bit) {
    Bytes bad = index;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    write_file(tmp / "image/index.ckpt", bad);
    CHECK_FALSE(ImageReader::open(tmp / "image", {.key = &key}));
  }
}

TEST_CASE("key files contain 32 bytes or 64 hex digits") {
  mode_t before = ::umask(077);
  TempFolder tmp;
  Bytes bytes = random_bytes(Key::kBytes, 5);
  std::string hex;
  for (std::byte b : bytes) hex += fmt::format("{:02x}", static_cast<u8>(b));
  write_file(tmp / "raw", bytes);
  write_file(tmp / "hex", view(hex));
  write_file(tmp / "hex-line", view(hex + "\n"));
  Key key = must(Key::from_bytes(bytes));
  for (const char *name : {"raw", "hex", "hex-line"})
    CHECK(must(read_key(tmp / name)).check(Uuid{1}) == key.check(Uuid{1}));
  CHECK(key.check(Uuid{1}) != key.check(Uuid{2}));
  ::chmod((tmp / "raw").c_str(), 0640);
  CHECK(mentions(read_key(tmp / "raw").error(), "other users may access"));
  CHECK(read_key(tmp / "raw", KeyAccess::Shared));
  write_file(tmp / "short", ByteView(bytes).first(31));
  write_file(tmp / "long", view(hex + "\n\n"));
  write_file(tmp / "words", view(std::string(64, 'x')));
  for (const char *name : {"short", "long", "words"}) {
    Result<Key> r = read_key(tmp / name);
    REQUIRE_FALSE(r);
    CHECK(mentions(r.error(), "is not a key"));
  }
  CHECK(mentions(read_key(tmp / "absent").error(), "No such file"));
  CHECK_FALSE(read_key(tmp.path()));
  ::umask(before);
}

}  // namespace
}  // namespace ckpt::test
