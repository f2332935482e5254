// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/contents_ahead.h"

#include "tests/unit/storage/support.h"

using namespace ckpt;
using namespace ckpt::test;
using namespace ckpt::tools;

namespace {

constexpr u64 kUnit = ContentsPlan::kUnitBytes;
constexpr u64 kMiB = 1u << 20;

// Of agent 0: a region with zeros in its middle, and one with a short last chunk.
struct Made {
  TempFolder folder;
  Bytes first = random_bytes(11 * kMiB, 1), second = random_bytes(30 * kMiB + 5, 2);
  std::unique_ptr<ImageReader> image;

  Made() {
    std::fill_n(first.begin() + 2 * kMiB, 3 * kMiB, std::byte{});
    must(write_image(folder / "image", {{"device/0/cuda/a", first},
                                        {"device/0/cuda/b", second},
                                        {"device/1/cuda/a", random_bytes(100, 3)}}));
    image = must(ImageReader::open(folder / "image"));
  }
};

void check_contents(ContentsAhead &ahead, const Made &made) {
  Bytes first(made.first.size()), second(made.second.size());
  for (size_t i = 0; i < ahead.plan().units.size(); ++i) {
    REQUIRE(ahead.has(i));
    for (const ContentsPlan::Run &run : ahead.plan().units[i].runs)
      std::ranges::copy(ahead.contents(run), (run.region == 0 ? first : second).begin() +
                                                 static_cast<std::ptrdiff_t>(run.offset));
  }
  CHECK(first == made.first);
  CHECK(second == made.second);
}

}  // namespace

TEST_CASE("a plan has the zeros, and neighbouring chunks as one run in each unit") {
  Made made;
  ContentsPlan plan = plan_contents(*made.image, 0);
  REQUIRE(plan.regions.size() == 2);
  CHECK(plan.regions[1].name == "cuda/b");
  CHECK(plan.regions[1].bytes == made.second.size());
  REQUIRE(plan.zeros.size() == 1);
  CHECK(plan.zeros[0].offset == 2 * kMiB);
  CHECK(plan.zeros[0].bytes == 3 * kMiB);
  REQUIRE(plan.units.size() == 5);
  CHECK(plan.units[0].runs.size() == 2);  // around the zeros
  CHECK(plan.units[0].parts.size() == 8);
  CHECK(plan.units[1].runs.size() == 1);
  CHECK(plan.file_bytes() == 5 * kUnit);
  CHECK(plan_contents(*made.image, 2).regions.empty());
}

TEST_CASE("the file holds what the image has, whatever the number of threads") {
  Made made;
  for (unsigned threads : {1U, 3U}) {
    ContentsAhead ahead(*made.image, 0);
    ahead.start(threads, 0);
    ahead.close(true);
    check_contents(ahead, made);
    CHECK(ahead.allocated() == ahead.plan().file_bytes());
    CHECK(ahead.bytes() == made.first.size() + made.second.size() - 3 * kMiB);
    CHECK(ahead.seconds() > 0);
  }
}

TEST_CASE("without free memory, and without threads, nothing is in the file") {
  Made made;
  for (unsigned threads : {0U, 2U}) {
    ContentsAhead ahead(*made.image, 0);
    ahead.start(threads, u64{1} << 60);
    ahead.close(true);
    for (size_t i = 0; i < ahead.plan().units.size(); ++i) CHECK(!ahead.has(i));
    CHECK(ahead.allocated() == 0);
    CHECK(ahead.bytes() == 0);
    CHECK((ahead.file() < 0) == (threads == 0));
  }
}

TEST_CASE("what is in the file when it is closed is right, and nothing is added") {
  Made made;
  ContentsAhead ahead(*made.image, 0);
  ahead.start(2, 0);
  ahead.close();
  u64 bytes = ahead.bytes(), found = 0;
  ::usleep(100'000);
  for (size_t i = 0; i < ahead.plan().units.size(); ++i)
    for (const ContentsPlan::Run &run : ahead.plan().units[i].runs)
      if (ahead.has(i)) found += run.bytes;
  CHECK(found == bytes);
  CHECK(ahead.bytes() == bytes);
}

TEST_CASE("a unit with a damaged chunk is not in the file") {
  Made made;
  {
    std::fstream chunks(made.folder / "image/chunks.ckpt");
    chunks.seekp(20 * kMiB);
    chunks.put('?');
    chunks.put('!');
  }
  ContentsAhead ahead(*made.image, 0);
  ahead.start(2, 0);
  ahead.close(true);
  size_t damaged = 0;
  for (size_t i = 0; i < ahead.plan().units.size(); ++i) damaged += ahead.has(i) ? 0 : 1;
  CHECK(damaged == 1);
}

TEST_CASE("of a later image of the chain, only what has changed is filled anew") {
  Made made;
  ContentsAhead before(*made.image, 0);
  before.start(2, 0);
  before.close(true);
  made.second[kMiB + 7] ^= std::byte{1};
  auto writer = must(ImageWriter::create(made.folder / "next", {.parent = made.folder / "image"}));
  for (auto &[name, bytes] :
       {std::pair{"device/0/cuda/a", &made.first}, {"device/0/cuda/b", &made.second}})
    must(writer->append(must(writer->stream(name)), *bytes));
  must(writer->finish({{"program", "test"}}));
  std::unique_ptr<ImageReader> earlier = std::move(made.image);
  made.image = must(ImageReader::open(made.folder / "next"));
  {  // What has not changed is not read again.
    std::fstream chunks(made.folder / "image/chunks.ckpt");
    chunks.seekp(20 * kMiB);
    chunks.put('?');
    chunks.put('!');
  }
  ContentsAhead ahead(*made.image, 0);
  ahead.take_over(before);
  ahead.start(2, 0);
  ahead.close(true);
  check_contents(ahead, made);
}

TEST_CASE("a restore that is given up does not wait for the rest") {
  Made made;
  ContentsAhead ahead(*made.image, 0);
  ahead.start(1, 0);
}
