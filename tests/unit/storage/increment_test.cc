// SPDX-License-Identifier: Apache-2.0
//
// Increments: equal chunks are stored once in a chain of images, even if the bytes have moved;
// errors name the image of the chain that is missing.
#include "storage/chunk/content_cut.h"
#include "storage/ops/copy.h"
#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

Result<> write_pages(const std::string &path, const Bytes &pages, const std::string &parent = "") {
  CKPT_TRY(auto image, ImageWriter::create(path, {.parent = parent}));
  CKPT_TRY(StreamId id, image->stream("criu/pages-1.img", Cut::Content));
  ByteView rest = pages;
  for (size_t n = 70000; !rest.empty(); rest = rest.subspan(std::min(n, rest.size())))
    CKPT_CHECK(image->append(id, rest.first(std::min(n, rest.size()))));
  return image->finish({{"program", "test"}});
}

TEST_CASE("chunks of the parent are not stored again") {
  TempFolder tmp;
  NamedBytes first = {{"a", random_bytes(5 * kChunkBytes + 3, 1)}, {"b", zeros(kChunkBytes)}};
  NamedBytes second = first;
  Bytes fresh = random_bytes(kChunkBytes, 2);
  std::ranges::copy(fresh, second[0].second.begin() + 2 * kChunkBytes);
  second.emplace_back("c", first[0].second);
  must(write_image(tmp / "one", first));
  must(write_image(tmp / "two", second, {.parent = tmp / "one"}));
  check_holds(tmp / "one", first);
  check_holds(tmp / "two", second);
  auto two = open_image(tmp / "two");
  CHECK(two->stats().unique_chunks == 1);
  CHECK(two->stats().stored_bytes == kChunkBytes);
  CHECK(two->index().generation == 1);
  REQUIRE(two->index().parents.size() == 1);
  CHECK(two->index().parents[0].name == "one");
  CHECK(two->index().seed == open_image(tmp / "one")->index().seed);
}

TEST_CASE("a chunk that the parent has is referred to by its address, without its bytes") {
  TempFolder tmp;
  Bytes bytes = random_bytes(2 * kChunkBytes + 500, 1);
  must(write_image(tmp / "one", {{"a", bytes}}));
  auto one = open_image(tmp / "one");
  auto image = must(ImageWriter::create(tmp / "two", {.parent = tmp / "one"}));
  StreamId id = must(image->stream("b"));
  auto address = [&](size_t chunk) {
    return one->index().chunks[one->find("a")->chunks[chunk]].address;
  };
  must(image->put_known(id, 0, kChunkBytes, address(0)));
  must(image->put_known(id, 2 * kChunkBytes, 500, address(2)));
  must(image->put(id, kChunkBytes, ByteView(bytes).subspan(kChunkBytes, kChunkBytes)));
  must(image->finish({{"program", "test"}}));
  check_holds(tmp / "two", {{"b", bytes}});
  CHECK(open_image(tmp / "two")->stats().unique_chunks == 0);
}

TEST_CASE("a chunk that the parent does not have cannot be referred to") {
  TempFolder tmp;
  must(write_image(tmp / "one", {{"a", random_bytes(kChunkBytes, 1)}}));
  auto one = open_image(tmp / "one");
  ChunkAddress known = one->index().chunks[one->find("a")->chunks[0]].address;
  auto image = must(ImageWriter::create(tmp / "two", {.parent = tmp / "one"}));
  StreamId id = must(image->stream("b"));
  CHECK(!image->put_known(id, 0, kChunkBytes, {1, 2}));
  CHECK(!image->put_known(id, 0, 500, known));
  CHECK(!image->put_known(id, 17, kChunkBytes, known));
  must(image->put_known(id, 0, kChunkBytes, known));
  CHECK(!image->put_known(id, 0, kChunkBytes, known));
}

TEST_CASE("an image refers to all images that have chunks it needs, and to no others") {
  TempFolder tmp;
  NamedBytes streams;
  for (u64 i = 0; i < 4; ++i) {
    streams.emplace_back(fmt::format("s{}", i), random_bytes(kChunkBytes, i));
    must(write_image(tmp / std::to_string(i), streams,
                     {.parent = i ? tmp / std::to_string(i - 1) : ""}));
    check_holds(tmp / std::to_string(i), streams);
  }
  auto last = open_image(tmp / "3");
  CHECK(last->stats().unique_chunks == 1);
  CHECK(last->index().parents.size() == 3);
  CHECK(last->index().generation == 3);
  // Uses no chunk of image 1.
  streams.erase(streams.begin() + 1);
  must(write_image(tmp / "4", streams, {.parent = tmp / "3"}));
  CHECK(open_image(tmp / "4")->index().parents.size() == 3);
  must(write_image(tmp / "5", {streams[2]}, {.parent = tmp / "4"}));
  auto five = open_image(tmp / "5");
  REQUIRE(five->index().parents.size() == 1);
  CHECK(five->index().parents[0].name == "3");
}

TEST_CASE("the error names a parent that is missing, replaced or truncated") {
  TempFolder tmp;
  NamedBytes streams = {{"a", random_bytes(100000, 1)}};
  must(write_image(tmp / "one", streams));
  must(write_image(tmp / "two", streams, {.parent = tmp / "one"}));
  std::filesystem::rename(tmp / "one", tmp / "away");
  auto missing = ImageReader::open(tmp / "two");
  REQUIRE_FALSE(missing);
  CHECK(mentions(missing.error(), "an increment on the image 'one' ("));
  CHECK(mentions(missing.error(), "No such file"));
  CHECK(mentions(missing.error(), "put that image back"));
  must(write_image(tmp / "one", streams));
  auto other = ImageReader::open(tmp / "two");
  REQUIRE_FALSE(other);
  CHECK(mentions(other.error(), "belongs to another image"));
  std::filesystem::remove_all(tmp / "one");
  std::filesystem::create_directory_symlink("away", tmp / "one");
  CHECK_FALSE(ImageReader::open(tmp / "two"));  // links are not followed
  std::filesystem::remove(tmp / "one");
  std::filesystem::rename(tmp / "away", tmp / "one");
  check_holds(tmp / "two", streams);
  std::filesystem::resize_file(tmp / "one/chunks.ckpt", 50000);
  auto cut = ImageReader::open(tmp / "two");
  REQUIRE_FALSE(cut);
  CHECK(mentions(cut.error(), "one/chunks.ckpt is truncated"));
}

TEST_CASE("damage in a parent is found in its children, and the error names the parent's file") {
  TempFolder tmp;
  NamedBytes streams = {{"a", random_bytes(3000, 1)}};
  must(write_image(tmp / "one", streams));
  must(write_image(tmp / "two", streams, {.parent = tmp / "one"}));
  Bytes chunks = read_file(tmp / "one/chunks.ckpt");
  chunks[1000] ^= std::byte{4};
  write_file(tmp / "one/chunks.ckpt", chunks);
  auto two = open_image(tmp / "two");
  for (auto depth : {ImageReader::Depth::Stored, ImageReader::Depth::Full}) {
    auto report = two->verify(depth);
    REQUIRE(report.damaged_chunks == 1);
    CHECK(report.damages[0].find(tmp / "one/chunks.ckpt") != std::string::npos);
    CHECK(report.damages[0].find("'a'") != std::string::npos);
  }
  CHECK_FALSE(read_stream(*two, "a"));
  CHECK_FALSE(flatten_image(*two, tmp / "flat", {}));  // damage is not copied
  CHECK_FALSE(std::filesystem::exists(tmp / "flat"));
}

TEST_CASE("unsuitable parents are refused, and parents are not replaced") {
  TempFolder tmp;
  NamedBytes streams = {{"a", random_bytes(3000, 1)}};
  must(write_image(tmp / "one", streams));
  std::filesystem::create_directory(tmp / "sub");
  CHECK(mentions(write_image(tmp / "sub/two", streams, {.parent = tmp / "one"}).error(),
                 "is not in the folder"));
  CHECK(mentions(
      write_image(tmp / "one", streams, {.overwrite = true, .parent = tmp / "one"}).error(),
      "its own parent"));
  CHECK_FALSE(write_image(tmp / "two", streams, {.parent = tmp / "absent"}));
  CHECK_FALSE(write_image(tmp / "two", streams, {.parent = tmp / "sub"}));
  CHECK(tmp.names() == std::vector<std::string>{"one", "sub"});
  // An image that has increments is not replaced, whatever the new image's parent is.
  must(write_image(tmp / "child", streams, {.parent = tmp / "one"}));
  must(write_image(tmp / "grandchild", {{"b", zeros(5)}}, {.parent = tmp / "child"}));
  CHECK(mentions(
      write_image(tmp / "one", streams, {.overwrite = true, .parent = tmp / "child"}).error(),
      "its own parent"));
  CHECK(mentions(write_image(tmp / "one", streams, {.overwrite = true}).error(),
                 "is a parent of " + (tmp / "child")));
  check_holds(tmp / "child", streams);
  must(write_image(tmp / "child", {{"c", zeros(5)}}, {.overwrite = true}));
  must(write_image(tmp / "one", streams, {.overwrite = true}));
  // A parent that is given as a link is stored by its own name.
  std::filesystem::create_directory_symlink(tmp / "one", tmp / "sub/link");
  must(write_image(tmp / "two", streams, {.parent = tmp / "sub/link"}));
  check_holds(tmp / "two", streams);
}

TEST_CASE("an image of version 1 can be a parent") {
  TempFolder tmp;
  std::filesystem::path golden = std::filesystem::path(CKPT_SOURCE) / "tests/golden/v1/streams";
  std::filesystem::copy(golden, tmp / "v1");
  Bytes random = must(read_stream(*open_image(tmp / "v1"), "criu/pages-1.img"));
  must(write_image(tmp / "two", {{"x", random}}, {.parent = tmp / "v1"}));
  CHECK(open_image(tmp / "two")->stats().unique_chunks == 0);
  check_holds(tmp / "two", {{"x", random}});
}

TEST_CASE("moved pages are found in the parent, and chunks stay within their limits") {
  TempFolder tmp;
  Bytes pages = random_bytes(8u << 20, 3);
  must(write_pages(tmp / "one", pages));
  // Three more pages at the front, one less in the middle, one changed.
  Bytes moved = random_bytes(3 * kPageBytes, 4);
  moved.insert(moved.end(), pages.begin(), pages.begin() + (4 << 20));
  moved.insert(moved.end(), pages.begin() + (4 << 20) + kPageBytes, pages.end());
  moved[6u << 20] ^= std::byte{1};
  must(write_pages(tmp / "two", moved, tmp / "one"));
  auto one = open_image(tmp / "one"), two = open_image(tmp / "two");
  CHECK(must(read_stream(*two, "criu/pages-1.img")) == moved);
  CHECK(two->stats().stored_bytes < 3 * kMaxCutBytes);
  CHECK(two->verify(ImageReader::Depth::Full).ok());
  const StreamEntry &s = one->streams()[0];
  for (size_t i = 0; i + 1 < s.chunks.size(); ++i) {
    u32 size = one->index().chunks[s.chunks[i]].raw_size;
    CHECK(size % kPageBytes == 0);
    CHECK(size >= kMinCutBytes);
    CHECK(size <= kMaxCutBytes);
  }
  // Reads at random offsets, across chunk boundaries.
  std::mt19937 rng(5);
  for (int i = 0; i < 200; ++i) {
    size_t at = rng() % pages.size(), n = std::min<size_t>(pages.size() - at, rng() % 1000000);
    Bytes out(n);
    must(one->read(s, at, out));
    CHECK(std::ranges::equal(out, ByteView(pages).subspan(at, n)));
  }
}

TEST_CASE("content-defined cuts work with constant pages and with an incomplete last page") {
  TempFolder tmp;
  for (u64 seed : {0, 1, 2}) {
    Bytes pages(5u << 20, static_cast<std::byte>(seed * 7));
    pages.resize(pages.size() + 100 * seed);
    std::string path = tmp / std::to_string(seed);
    must(write_pages(path, pages));
    auto image = open_image(path);
    CHECK(must(read_stream(*image, "criu/pages-1.img")) == pages);
    CHECK(image->stats().stored_bytes < 10000);
  }
}

TEST_CASE("reuse() takes a stream from the parent without its bytes") {
  TempFolder tmp;
  NamedBytes streams = {{"device/0/a", random_bytes(2 * kChunkBytes + 9, 1)}, {"z", zeros(70)}};
  must(write_image(tmp / "one", streams));
  auto writer = must(ImageWriter::create(tmp / "two", {.parent = tmp / "one"}));
  REQUIRE(writer->parent());
  for (const auto &[name, bytes] : streams)
    must(writer->reuse(must(writer->stream("new/" + name)), name, bytes.size()));
  StreamId other = must(writer->stream("other"));
  CHECK_FALSE(writer->reuse(other, "other", 5));  // the parent has no such stream
  must(writer->append(other, view("x")));
  CHECK_FALSE(writer->reuse(other, "z", 70));  // not empty
  must(writer->finish({{"n", 2}}));
  for (auto &[name, bytes] : streams) name = "new/" + name;
  streams.emplace_back("other", Bytes(1, std::byte{'x'}));
  check_holds(tmp / "two", streams);
  auto two = open_image(tmp / "two");
  CHECK(two->stats().unique_chunks == 1);
  CHECK(two->stats().parent_chunks == 3);
  auto alone = must(ImageWriter::create(tmp / "three", {}));
  CHECK_FALSE(alone->reuse(must(alone->stream("z")), "z", 70));
  auto wrong = must(ImageWriter::create(tmp / "four", {.parent = tmp / "one"}));
  CHECK_FALSE(wrong->reuse(must(wrong->stream("z")), "z", 71));
}

}  // namespace
}  // namespace ckpt::test
