// SPDX-License-Identifier: Apache-2.0
//
// Increments: equal chunks are stored once over a chain of images, whatever moved in between; what
// a chain lacks is named.
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

bool mentions(const Error &e, std::string_view part) {
  return e.text().find(part) != std::string::npos;
}

TEST_CASE("what the parent holds is not stored again") {
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

TEST_CASE("a chain refers to every image that it needs and to no other") {
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
  // Nothing of image 1 is in this one.
  streams.erase(streams.begin() + 1);
  must(write_image(tmp / "4", streams, {.parent = tmp / "3"}));
  CHECK(open_image(tmp / "4")->index().parents.size() == 3);
  must(write_image(tmp / "5", {streams[2]}, {.parent = tmp / "4"}));
  auto five = open_image(tmp / "5");
  REQUIRE(five->index().parents.size() == 1);
  CHECK(five->index().parents[0].name == "3");
}

TEST_CASE("a missing, another or a shortened parent is named") {
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
  CHECK_FALSE(ImageReader::open(tmp / "two"));  // no link leads a reader elsewhere
  std::filesystem::remove(tmp / "one");
  std::filesystem::rename(tmp / "away", tmp / "one");
  check_holds(tmp / "two", streams);
  std::filesystem::resize_file(tmp / "one/chunks.ckpt", 50000);
  auto cut = ImageReader::open(tmp / "two");
  REQUIRE_FALSE(cut);
  CHECK(mentions(cut.error(), "one/chunks.ckpt is cut short"));
}

TEST_CASE("damage in a parent is found in its children, by the parent's file") {
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
  CHECK_FALSE(flatten_image(*two, tmp / "flat", {}));  // damage is not handed on
  CHECK_FALSE(std::filesystem::exists(tmp / "flat"));
}

TEST_CASE("what cannot be a parent") {
  TempFolder tmp;
  NamedBytes streams = {{"a", random_bytes(3000, 1)}};
  must(write_image(tmp / "one", streams));
  std::filesystem::create_directory(tmp / "sub");
  CHECK(mentions(write_image(tmp / "sub/two", streams, {.parent = tmp / "one"}).error(),
                 "does not lie in the folder"));
  CHECK(mentions(
      write_image(tmp / "one", streams, {.overwrite = true, .parent = tmp / "one"}).error(),
      "its own parent"));
  CHECK_FALSE(write_image(tmp / "two", streams, {.parent = tmp / "absent"}));
  CHECK_FALSE(write_image(tmp / "two", streams, {.parent = tmp / "sub"}));
  CHECK(tmp.names() == std::vector<std::string>{"one", "sub"});
  // Neither is what others are increments on replaced, by whomever.
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
  // Through a link it is known by its own name.
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

TEST_CASE("pages that moved meet again, and chunks stay within their bounds") {
  TempFolder tmp;
  Bytes pages = random_bytes(8u << 20, 3);
  must(write_pages(tmp / "one", pages));
  // Three pages more at the front, one less in the middle, one changed.
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
  // Reading at any place, over any edge.
  std::mt19937 rng(5);
  for (int i = 0; i < 200; ++i) {
    size_t at = rng() % pages.size(), n = std::min<size_t>(pages.size() - at, rng() % 1000000);
    Bytes out(n);
    must(one->read(s, at, out));
    CHECK(std::ranges::equal(out, ByteView(pages).subspan(at, n)));
  }
}

TEST_CASE("cuts by content: pages of zeros and of one kind, and an odd end") {
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

TEST_CASE("a stream is taken over from the parent without its bytes") {
  TempFolder tmp;
  NamedBytes streams = {{"device/0/a", random_bytes(2 * kChunkBytes + 9, 1)}, {"z", zeros(70)}};
  must(write_image(tmp / "one", streams));
  auto writer = must(ImageWriter::create(tmp / "two", {.parent = tmp / "one"}));
  REQUIRE(writer->parent());
  for (const auto &[name, bytes] : streams)
    must(writer->reuse(must(writer->stream("new/" + name)), name, bytes.size()));
  StreamId other = must(writer->stream("other"));
  CHECK_FALSE(writer->reuse(other, "other", 5));  // the parent has none of that name
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
