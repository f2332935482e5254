// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

constexpr size_t kC = kChunkBytes;

TEST_CASE("streams of every size around a multiple of the chunk size can be read back") {
  TempFolder tmp;
  NamedBytes streams;
  for (size_t n :
       {size_t{0}, size_t{1}, size_t{15}, size_t{17}, kC - 1, kC, kC + 1, 3 * kC, 3 * kC + 12345}) {
    streams.emplace_back(fmt::format("smooth/{}", n), smooth_bytes(n, n));
    streams.emplace_back(fmt::format("random/{}", n), random_bytes(n, n));
    streams.emplace_back(fmt::format("zero/{}", n), zeros(n));
  }
  must(write_image(tmp / "image", streams));
  CHECK(tmp.names() == std::vector<std::string>{"image"});

  auto image = must(ImageReader::open(tmp / "image"));
  CHECK(image->streams().size() == streams.size());
  CHECK(image->manifest()["program"] == "test");
  for (const auto &stream : streams) {
    CAPTURE(stream.first);
    CHECK(must(read_stream(*image, stream.first)) == stream.second);
  }
  CHECK(image->verify(ImageReader::Depth::Full).ok());
  CHECK(image->verify(ImageReader::Depth::Stored).ok());
  CHECK(image->find("absent") == nullptr);
}

TEST_CASE("an image without streams can be written and read") {
  TempFolder tmp;
  must(write_image(tmp / "image", {}));
  auto image = must(ImageReader::open(tmp / "image"));
  CHECK(image->streams().empty());
  CHECK(image->verify(ImageReader::Depth::Full).ok());
}

TEST_CASE("only the owner can access the folder and the files") {
  TempFolder tmp;
  must(write_image(tmp / "image", {{"a", zeros(1)}}));
  for (auto [name, mode] :
       {std::pair{"", 0700u}, {"/index.ckpt", 0600u}, {"/chunks.ckpt", 0600u}}) {
    struct stat st;
    REQUIRE(::stat((tmp / "image" + name).c_str(), &st) == 0);
    CHECK((st.st_mode & 0777u) == mode);
  }
}

TEST_CASE("append() accepts pieces of any size") {
  TempFolder tmp;
  Bytes bytes = smooth_bytes(2 * kC + 777, 5);
  auto writer = must(ImageWriter::create(tmp / "image", {.threads = 3}));
  StreamId id = must(writer->stream("a"));
  std::mt19937 rng(1);
  for (size_t at = 0; at < bytes.size();) {
    size_t n = std::min<size_t>(bytes.size() - at, rng() % 50000);
    must(writer->append(id, ByteView(bytes).subspan(at, n)));
    at += n;
  }
  must(writer->close(id));
  CHECK_FALSE(writer->append(id, bytes));  // closed
  must(writer->finish({{"a", 1}}));
  CHECK_FALSE(writer->finish({{"a", 1}}));
  CHECK_FALSE(writer->stream("b"));
  CHECK(must(read_stream(*must(ImageReader::open(tmp / "image")), "a")) == bytes);
}

TEST_CASE("put() works in any order and from any thread, and calls done() once") {
  TempFolder tmp;
  Bytes bytes = random_bytes(40 * kC + 99, 7);
  std::vector<u64> offsets;
  for (u64 at = 0; at < bytes.size(); at += 2 * kC) offsets.push_back(at);
  std::shuffle(offsets.begin(), offsets.end(), std::mt19937(3));
  std::atomic<size_t> next = 0, done = 0;
  auto writer = must(ImageWriter::create(tmp / "image", {.threads = 3, .memory_bytes = 3 * kC}));
  StreamId id = must(writer->stream("a"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (size_t i; (i = next++) < offsets.size();) {
        u64 at = offsets[i];
        size_t n = std::min<size_t>(2 * kC, bytes.size() - at);
        must(writer->put(id, at, ByteView(bytes).subspan(at, n), [&] { ++done; }));
      }
    });
  for (std::thread &t : threads) t.join();
  must(writer->finish({{"a", 1}}));
  CHECK(done == offsets.size());
  CHECK(must(read_stream(*must(ImageReader::open(tmp / "image")), "a")) == bytes);
}

TEST_CASE("offsets that an agent merely names cost no memory beyond what an index can list") {
  TempFolder tmp;
  Bytes byte(1);  // threads of the writer read it until the writer ends
  auto writer = must(ImageWriter::create(tmp / "image", {}));
  Result<> put;
  int streams = 0;
  for (; put && streams < 64; ++streams) {
    StreamId id = must(writer->stream(fmt::format("s{}", streams)));
    put = writer->put(id, kMaxStreamBytes / 2, byte, nullptr);
  }
  CHECK(streams == 4);  // 2^25 + 1 chunks each, and an index of 512 MiB lists 2^27
  CHECK(put.error().what.find("more than 134217728 chunks") != std::string::npos);
}

TEST_CASE("put() refuses invalid ranges, overlaps and the wrong mode") {
  TempFolder tmp;
  Bytes bytes = random_bytes(2 * kC, 7);
  int done = 0;
  auto count = [&] { ++done; };
  auto writer = must(ImageWriter::create(tmp / "image", {}));
  StreamId a = must(writer->stream("a")), b = must(writer->stream("b"));
  CHECK_FALSE(writer->put(a, 1, bytes, count));                // not aligned
  CHECK_FALSE(writer->put(a, kMaxStreamBytes, bytes, count));  // too far
  CHECK_FALSE(writer->put(a, u64{0} - kC, bytes, count));      // overflow
  CHECK_FALSE(writer->put(StreamId(17), 0, bytes, count));     // no such stream
  CHECK(done == 4);
  must(writer->put(a, kC, bytes));
  CHECK_FALSE(writer->put(a, 2 * kC, bytes));  // twice
  CHECK_FALSE(writer->append(a, bytes));       // filled by put()
  must(writer->append(b, bytes));
  CHECK_FALSE(writer->put(b, 0, bytes));
  Result<> hole = writer->finish({{"a", 1}});
  REQUIRE_FALSE(hole);
  CHECK(hole.error().what == "stream 'a' was not filled at byte 0");
  writer.reset();
  CHECK(tmp.names().empty());
}

TEST_CASE("a short chunk in the middle of a stream of put() is a hole") {
  TempFolder tmp;
  Bytes bytes = random_bytes(kC, 7);
  auto writer = must(ImageWriter::create(tmp / "image", {}));
  StreamId a = must(writer->stream("a"));
  must(writer->put(a, 0, ByteView(bytes).first(100)));
  must(writer->put(a, kC, bytes));
  CHECK_FALSE(writer->finish({{"a", 1}}));
}

TEST_CASE("equal chunks are stored once, and zeros are not stored") {
  TempFolder tmp;
  Bytes one = random_bytes(kC, 1), two;
  for (int i = 0; i < 8; ++i) two.insert(two.end(), one.begin(), one.end());
  must(write_image(tmp / "image", {{"a", one}, {"b", two}, {"c", zeros(5 * kC + 3)}}));
  auto image = must(ImageReader::open(tmp / "image"));
  ImageStats s = image->stats();
  CHECK(s.unique_chunks == 1);
  CHECK(s.raw_chunks == 1);
  CHECK(s.zero_chunks == 6);
  CHECK(s.chunks == 15);
  CHECK(s.raw_bytes == 14 * kC + 3);
  CHECK(s.stored_bytes == kC);
  CHECK(std::filesystem::file_size(tmp / "image/chunks.ckpt") == kC + kChunksHeaderBytes);
  CHECK(must(read_stream(*image, "b")) == two);
}

TEST_CASE("the writer and the reader report the same statistics") {
  TempFolder tmp;
  auto writer = must(ImageWriter::create(tmp / "image", {}));
  StreamId id = must(writer->stream("a"));
  for (const Bytes &b : {zeros(3 * kC), smooth_bytes(2 * kC, 1), random_bytes(kC, 1), zeros(9)})
    must(writer->append(id, b));
  must(writer->finish({{"a", 1}}));
  ImageStats w = writer->stats(), r = must(ImageReader::open(tmp / "image"))->stats();
  CHECK(w.raw_bytes == r.raw_bytes);
  CHECK(w.stored_bytes == r.stored_bytes);
  CHECK(w.chunks == r.chunks);
  CHECK(w.unique_chunks == r.unique_chunks);
  CHECK(w.zero_chunks == r.zero_chunks);
  CHECK(w.raw_chunks == r.raw_chunks);
  CHECK(w.zstd_chunks == r.zstd_chunks);
}

TEST_CASE("two images of the same bytes have different uuids and addresses") {
  TempFolder tmp;
  for (const char *name : {"one", "two"}) must(write_image(tmp / name, {{"a", zeros(1)}}));
  auto one = must(ImageReader::open(tmp / "one")), two = must(ImageReader::open(tmp / "two"));
  CHECK(one->index().uuid != two->index().uuid);
  CHECK_FALSE(one->index().chunks[0].address == two->index().chunks[0].address);
}

TEST_CASE("read() works at any offset, and fails beyond the end") {
  TempFolder tmp;
  Bytes bytes = smooth_bytes(3 * kC + 1000, 4);
  must(write_image(tmp / "image", {{"a", bytes}}));
  auto image = must(ImageReader::open(tmp / "image"));
  const StreamEntry &s = *image->find("a");
  std::mt19937 rng(9);
  for (int i = 0; i < 200; ++i) {
    size_t at = rng() % bytes.size(), n = rng() % std::min<size_t>(bytes.size() - at, 2 * kC);
    Bytes out(n);
    must(image->read(s, at, out));
    CHECK(std::equal(out.begin(), out.end(), bytes.begin() + static_cast<long>(at)));
  }
  Bytes out(2);
  CHECK_FALSE(image->read(s, bytes.size() - 1, out));
  CHECK_FALSE(image->read(s, ~u64{0}, out));
}

TEST_CASE("for_each_chunk() passes all chunks, in order on request") {
  TempFolder tmp;
  Bytes bytes = smooth_bytes(30 * kC + 5, 4);
  must(write_image(tmp / "image", {{"a", bytes}, {"empty", {}}}));
  auto image = must(ImageReader::open(tmp / "image"));
  Bytes ascending;
  auto append = [&](u64 offset, ByteView b) -> Result<> {
    CHECK(offset == ascending.size());
    ascending.insert(ascending.end(), b.begin(), b.end());
    return {};
  };
  must(image->for_each_chunk(*image->find("a"), ImageReader::Order::Ascending, append, 4));
  CHECK(ascending == bytes);
  Bytes any(bytes.size());
  auto place = [&](u64 offset, ByteView b) -> Result<> {
    std::ranges::copy(b, any.begin() + static_cast<long>(offset));
    return {};
  };
  must(image->for_each_chunk(*image->find("a"), ImageReader::Order::Any, place, 4));
  CHECK(any == bytes);
  must(image->for_each_chunk(*image->find("empty"), ImageReader::Order::Any,
                             [](u64, ByteView) -> Result<> { return fail("called"); }));
}

TEST_CASE("for_each_chunk() stops at the first error of the function and returns it") {
  TempFolder tmp;
  must(write_image(tmp / "image", {{"a", random_bytes(20 * kC, 1)}}));
  auto image = must(ImageReader::open(tmp / "image"));
  for (auto order : {ImageReader::Order::Any, ImageReader::Order::Ascending}) {
    std::atomic<int> calls = 0;
    Result<> r = image->for_each_chunk(
        *image->find("a"), order,
        [&](u64 offset, ByteView) -> Result<> {
          ++calls;
          if (offset == 3 * kC) return fail("enough");
          return {};
        },
        3);
    REQUIRE_FALSE(r);
    CHECK(r.error().what == "enough");
    if (order == ImageReader::Order::Ascending) CHECK(calls == 4);
  }
}

TEST_CASE("several threads can append to different streams") {
  TempFolder tmp;
  auto writer = must(ImageWriter::create(tmp / "image", {.memory_bytes = 2 * kC}));
  std::vector<std::thread> threads;
  for (u64 t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      StreamId id = must(writer->stream(fmt::format("thread/{}", t)));
      Bytes b = smooth_bytes(5 * kC + t, t);
      for (size_t at = 0; at < b.size(); at += 100000)
        must(writer->append(id, ByteView(b).subspan(at, std::min<size_t>(100000, b.size() - at))));
    });
  for (std::thread &t : threads) t.join();
  must(writer->finish({{"a", 1}}));
  auto image = must(ImageReader::open(tmp / "image"));
  for (u64 t = 0; t < 6; ++t)
    CHECK(must(read_stream(*image, fmt::format("thread/{}", t))) == smooth_bytes(5 * kC + t, t));
}

TEST_CASE("an image can have ten thousand small streams") {
  TempFolder tmp;
  auto writer = must(ImageWriter::create(tmp / "image", {}));
  for (int i = 0; i < 10000; ++i) {
    StreamId id = must(writer->stream(fmt::format("s/{}", i)));
    must(writer->append(id, view(std::to_string(i))));
    must(writer->close(id));
  }
  must(writer->finish({{"a", 1}}));
  auto image = must(ImageReader::open(tmp / "image"));
  REQUIRE(image->streams().size() == 10000);
  CHECK(text(must(read_stream(*image, "s/9876"))) == "9876");
}

TEST_CASE("an abandoned image leaves nothing behind and calls every done()") {
  TempFolder tmp;
  Bytes bytes = random_bytes(30 * kC, 1);
  std::atomic<int> done = 0;
  {
    auto writer = must(ImageWriter::create(tmp / "image", {}));
    StreamId id = must(writer->stream("a"));
    must(writer->put(id, 0, bytes, [&] { ++done; }));
    CHECK(tmp.names().size() == 1);
  }
  CHECK(done == 1);
  CHECK(tmp.names().empty());
}

TEST_CASE("stream names that are not safe file names are refused") {
  TempFolder tmp;
  auto writer = must(ImageWriter::create(tmp / "image", {}));
  for (std::string name : {"", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/..", "a\nb",
                           "a\\b", "\x1b[2J", "\xc3\xa9"})
    CHECK_FALSE(writer->stream(name));
  CHECK_FALSE(writer->stream(std::string(256, 'a')));
  CHECK_FALSE(writer->stream(std::string("a\0b", 3)));
  CHECK(writer->stream(std::string(255, 'a')));
  CHECK(writer->stream("ocl/0/buffer-17"));
  CHECK(writer->stream("..."));
  CHECK_FALSE(writer->stream("..."));  // twice
}

TEST_CASE("the manifest is an object, and its bytes that are not UTF-8 are replaced") {
  TempFolder tmp;
  {
    auto writer = must(ImageWriter::create(tmp / "image", {}));
    must(writer->finish({{"argv", {"./a", "\xff\xfe"}}}));
  }
  auto image = must(ImageReader::open(tmp / "image"));
  CHECK(image->manifest()["argv"][1] == "\xEF\xBF\xBD\xEF\xBF\xBD");
  auto writer = must(ImageWriter::create(tmp / "other", {}));
  CHECK_FALSE(writer->finish(nlohmann::json::array()));
}

}  // namespace
}  // namespace ckpt::test
