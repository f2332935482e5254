// SPDX-License-Identifier: Apache-2.0
//
// Every single-bit flip and every truncation of a small image is found by verify() and by reading,
// and the message names the file and the stream.
#include <fcntl.h>

#include <numeric>

#include "storage/chunk/chunk_codec.h"
#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// A stream for each codec, and two that share a chunk.
NamedBytes small_streams() {
  Bytes smooth(3000, std::byte{7});
  smooth[100] = std::byte{8};
  return {{"raw", random_bytes(60, 1)},
          {"zstd", smooth},
          {"zero", zeros(100)},
          {"shared/one", random_bytes(50, 2)},
          {"shared/two", random_bytes(50, 2)}};
}

struct SmallImage {
  SmallImage() : path(tmp / "image"), streams(small_streams()) {
    must(write_image(path, streams));
    index = read_file(path + "/index.ckpt");
    chunks = read_file(path + "/chunks.ckpt");
  }
  TempFolder tmp;
  std::string path;
  NamedBytes streams;
  Bytes index, chunks;
};

// The streams that a byte of chunks.ckpt belongs to.
std::vector<std::string> streams_at(const ImageReader &image, u64 byte) {
  std::vector<std::string> out;
  for (const StreamEntry &s : image.streams())
    for (u32 c : s.chunks) {
      const ChunkEntry &e = image.index().chunks[c];
      if (byte >= e.offset && byte < e.offset + e.stored_size) out.push_back(s.name);
    }
  return out;
}

void check_damage_is_named(const SmallImage &small, const std::vector<std::string> &hit) {
  auto image = must(ImageReader::open(small.path));
  for (auto depth : {ImageReader::Depth::Stored, ImageReader::Depth::Full}) {
    ImageReader::VerifyReport report = image->verify(depth, {}, 1);
    REQUIRE(report.damaged_chunks == 1);
    CHECK(contains(report.damages[0], "chunks.ckpt"));
    for (const std::string &name : hit) CHECK(contains(report.damages[0], "'" + name + "'"));
  }
  for (const auto &[name, bytes] : small.streams) {
    Result<Bytes> read = read_stream(*image, name);
    bool is_hit = std::ranges::find(hit, name) != hit.end();
    REQUIRE(read.has_value() == !is_hit);
    if (read) CHECK(*read == bytes);
    if (!read) CHECK(contains(read.error().what, "chunks.ckpt"));
    if (!read) CHECK(contains(read.error().what, "'" + name + "'"));
  }
}

void check_open_fails_naming(const std::string &path, const char *file) {
  Result<std::unique_ptr<ImageReader>> image = ImageReader::open(path);
  REQUIRE_FALSE(image);
  CHECK(contains(image.error().what, file));
}

TEST_CASE("every single-bit flip of chunks.ckpt is found") {
  SmallImage small;
  auto whole = must(ImageReader::open(small.path));
  for (size_t bit = 0; bit < small.chunks.size() * 8; ++bit) {
    CAPTURE(bit);
    Bytes flipped = small.chunks;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    write_file(small.path + "/chunks.ckpt", flipped);
    if (bit / 8 < kChunksHeaderBytes)
      check_open_fails_naming(small.path, "chunks.ckpt");
    else
      check_damage_is_named(small, streams_at(*whole, bit / 8));
  }
}

TEST_CASE("every single-bit flip of index.ckpt is found") {
  SmallImage small;
  for (size_t bit = 0; bit < small.index.size() * 8; ++bit) {
    CAPTURE(bit);
    Bytes flipped = small.index;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    write_file(small.path + "/index.ckpt", flipped);
    check_open_fails_naming(small.path, "index.ckpt");
  }
}

TEST_CASE("every truncation of both files and every extra byte is found") {
  SmallImage small;
  for (auto [file, whole] : {std::pair{"index.ckpt", small.index}, {"chunks.ckpt", small.chunks}}) {
    for (size_t n = 0; n < whole.size(); ++n) {
      CAPTURE(n);
      write_file(small.path + "/" + file, ByteView(whole).first(n));
      check_open_fails_naming(small.path, file);
    }
    Bytes longer = whole;
    longer.push_back({});
    write_file(small.path + "/" + file, longer);
    check_open_fails_naming(small.path, file);
    write_file(small.path + "/" + file, whole);
    must(ImageReader::open(small.path));
  }
}

TEST_CASE("a truncation names the first stream that loses bytes") {
  SmallImage small;
  auto whole = must(ImageReader::open(small.path));
  std::string last = streams_at(*whole, small.chunks.size() - 1).at(0);
  write_file(small.path + "/chunks.ckpt", ByteView(small.chunks).first(small.chunks.size() - 1));
  Result<std::unique_ptr<ImageReader>> image = ImageReader::open(small.path);
  REQUIRE_FALSE(image);
  CHECK(contains(image.error().what, "'" + last + "'"));
}

TEST_CASE("a file that shrinks while it is read causes an error, not a signal") {
  SmallImage small;
  auto image = must(ImageReader::open(small.path));
  std::filesystem::resize_file(small.path + "/chunks.ckpt", kChunksHeaderBytes);
  CHECK_FALSE(read_stream(*image, "raw"));
  CHECK(image->verify(ImageReader::Depth::Full, {}, 1).damaged_chunks == 3);
}

// Flips one bit of a file, and restores it on destruction.
class Flip {
 public:
  Flip(int fd, u64 bit) : fd_(fd), bit_(bit) { flip(); }
  Flip(Flip &&o) noexcept : fd_(std::exchange(o.fd_, -1)), bit_(o.bit_) {}
  ~Flip() {
    if (fd_ >= 0) flip();
  }

 private:
  void flip() const {
    std::byte b;
    off_t at = static_cast<off_t>(bit_ / 8);
    REQUIRE(::pread(fd_, &b, 1, at) == 1);
    b ^= std::byte{1} << (bit_ % 8);
    REQUIRE(::pwrite(fd_, &b, 1, at) == 1);
  }
  int fd_;
  u64 bit_;
};

NamedBytes large_streams() {
  NamedBytes out;
  for (u64 i = 0; i < 60; ++i)
    out.emplace_back(fmt::format("s{}", i),
                     i % 2 ? random_bytes(500000 + i, i) : smooth_bytes(800000 + i, i));
  return out;
}

// Flips one bit in each of `count` chunks. verify() must name each chunk, and reading each must
// fail and name its stream.
void flip_and_find(const ImageReader &image, int fd, std::mt19937_64 &rng, size_t count) {
  std::vector<u32> chunks(image.index().chunks.size());
  std::iota(chunks.begin(), chunks.end(), 0);
  std::ranges::shuffle(chunks, rng);
  std::vector<Flip> flips;
  for (u32 c : std::span(chunks).first(count)) {
    const ChunkEntry &e = image.index().chunks[c];
    flips.emplace_back(fd, e.offset * 8 + rng() % (u64{e.stored_size} * 8));
    Bytes raw(e.raw_size);
    std::string name = streams_at(image, e.offset).at(0);
    Result<> read = image.read(*image.find(name), 0, raw);
    REQUIRE_FALSE(read);
    REQUIRE(contains(read.error().what, "'" + name + "'"));
  }
  for (auto depth : {ImageReader::Depth::Stored, ImageReader::Depth::Full}) {
    ImageReader::VerifyReport report = image.verify(depth);
    REQUIRE(report.damaged_chunks == count);
    std::string all;
    for (const std::string &d : report.damages) all += d + "\n";
    for (u32 c : std::span(chunks).first(count))
      REQUIRE(contains(all, fmt::format("chunks.ckpt: chunk {} (", c)));
  }
}

TEST_CASE("ten thousand random flips in a large image and in its index are found") {
  constexpr size_t kFlips = 10000;
  TempFolder tmp;
  must(write_image(tmp / "image", large_streams()));
  auto image = must(ImageReader::open(tmp / "image"));
  UniqueFd chunks(::open((tmp / "image/chunks.ckpt").c_str(), O_RDWR | O_CLOEXEC));
  std::mt19937_64 rng(4);
  constexpr size_t kBatch = ImageReader::kMaxDamages;
  for (size_t i = 0; i < kFlips; i += kBatch) flip_and_find(*image, chunks.get(), rng, kBatch);
  CHECK(image->verify(ImageReader::Depth::Full).ok());
  UniqueFd index(::open((tmp / "image/index.ckpt").c_str(), O_RDWR | O_CLOEXEC));
  u64 bits = std::filesystem::file_size(tmp / "image/index.ckpt") * 8;
  for (size_t i = 0; i < kFlips; ++i) {
    Flip flip(index.get(), rng() % bits);
    check_open_fails_naming(tmp / "image", "index.ckpt");
  }
}

TEST_CASE("chunks of another image, links and FIFOs are refused") {
  SmallImage small;
  must(write_image(small.tmp / "other", small.streams));
  std::string chunks = small.path + "/chunks.ckpt";
  std::filesystem::copy_file(small.tmp / "other/chunks.ckpt", chunks,
                             std::filesystem::copy_options::overwrite_existing);
  check_open_fails_naming(small.path, "chunks.ckpt");
  std::filesystem::remove(chunks);
  check_open_fails_naming(small.path, "chunks.ckpt");
  std::filesystem::create_symlink("../other/chunks.ckpt", chunks);
  check_open_fails_naming(small.path, "chunks.ckpt");
  std::filesystem::remove(chunks);
  REQUIRE(::mkfifo(chunks.c_str(), 0600) == 0);
  check_open_fails_naming(small.path, "chunks.ckpt");
  check_open_fails_naming(small.tmp / "absent", "absent");
  write_file(small.tmp / "file", {});
  check_open_fails_naming(small.tmp / "file", "file");
}

}  // namespace
}  // namespace ckpt::test
