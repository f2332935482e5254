// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the tests of storage/: a temporary folder, byte patterns, and functions that write or
// read a whole image.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "storage/read/image_reader.h"
#include "storage/write/image_writer.h"

namespace ckpt::test {

using namespace storage;

// In memory if possible, because the tests call fsync() for thousands of files.
class TempFolder {
 public:
  TempFolder() {
    bool memory = ::access("/dev/shm", W_OK) == 0;
    std::filesystem::path parent = memory ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string name = parent / "ckpt-storage-XXXXXX";
    REQUIRE(::mkdtemp(name.data()));
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string &path() const { return path_; }
  std::string operator/(const std::string &name) const { return path_ + "/" + name; }
  // The sorted names of its entries.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto &e : std::filesystem::directory_iterator(path_))
      out.push_back(e.path().filename());
    std::ranges::sort(out);
    return out;
  }

 private:
  std::string path_;
};

inline Bytes zeros(size_t n) { return Bytes(n); }

inline Bytes random_bytes(size_t n, u64 seed) {
  std::mt19937_64 rng(seed);
  Bytes out(n + 8);
  for (size_t i = 0; i < n; i += 8) {
    u64 v = rng();
    std::memcpy(out.data() + i, &v, 8);
  }
  out.resize(n);
  return out;
}

// Compressible bytes; all chunks are different.
inline Bytes smooth_bytes(size_t n, u64 seed) {
  Bytes out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>((i / 64 + seed * 31) >> (i % 3));
  for (size_t i = 0; i < n; i += 4096) out[i] = static_cast<std::byte>((seed + i / 4096) * 131);
  return out;
}

template <class T>
T must(Result<T> r) {
  if (!r) FAIL(r.error().text());
  return std::move(*r);
}
inline void must(Result<> r) {
  if (!r) FAIL(r.error().text());
}

using NamedBytes = std::vector<std::pair<std::string, Bytes>>;

inline Result<> write_image(const std::string &path, const NamedBytes &streams,
                            const ImageWriter::Options &options = {}) {
  CKPT_TRY(auto image, ImageWriter::create(path, options));
  for (const auto &[name, bytes] : streams) {
    CKPT_TRY(StreamId id, image->stream(name));
    CKPT_CHECK(image->append(id, bytes));
  }
  return image->finish({{"program", "test"}});
}

inline std::unique_ptr<ImageReader> open_image(const std::string &path,
                                               const ReadOptions &options = {}) {
  return must(ImageReader::open(path, options));
}

inline Result<Bytes> read_stream(const ImageReader &image, const std::string &name) {
  const StreamEntry *s = image.find(name);
  if (!s) return fail("no stream '{}'", name);
  Bytes out(s->size);
  CKPT_CHECK(image.read(*s, 0, out));
  return out;
}

inline Bytes read_file(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::string s((std::istreambuf_iterator<char>(in)), {});
  ByteView b = view(s);
  return {b.begin(), b.end()};
}

inline void write_file(const std::string &path, ByteView bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char *>(bytes.data()), static_cast<long>(bytes.size()));
}

// Whether there is a readable image with exactly these streams.
inline bool holds(const std::string &path, const NamedBytes &streams) {
  auto image = ImageReader::open(path);
  if (!image || (*image)->streams().size() != streams.size()) return false;
  return std::ranges::all_of(streams, [&](const auto &s) {
    Result<Bytes> read = read_stream(**image, s.first);
    return read && *read == s.second;
  });
}

// Whether the text of an error, with its hint, contains `part`.
inline bool mentions(const Error &e, std::string_view part) {
  return e.text().find(part) != std::string::npos;
}

// Checks that an image contains these streams and no others.
inline void check_holds(const std::string &path, const NamedBytes &streams,
                        const ReadOptions &options = {}) {
  auto image = open_image(path, options);
  CHECK(image->streams().size() == streams.size());
  for (const auto &stream : streams) {
    CAPTURE(stream.first);
    CHECK(must(read_stream(*image, stream.first)) == stream.second);
  }
  CHECK(image->verify(ImageReader::Depth::Full).ok());
}

}  // namespace ckpt::test
