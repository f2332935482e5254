// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/new_image.h"

#include <atomic>
#include <thread>

#include "tests/unit/storage/support.h"

namespace ckpt::test {
using namespace tools;

TEST_CASE("an image that is discarded leaves nothing, and another one can be made") {
  TempFolder folder;
  DumpOptions options;
  options.image = folder / "job.img";
  NewImage image;
  CHECK_FALSE(image.exists());
  CHECK(image.bytes_done() == 0);
  for (int i = 0; i < 2; i++) {
    image.expect(1000);
    REQUIRE(image.create(options));
    CHECK(image.exists());
    storage::StreamId id = must(image.writer().stream("a"));
    must(image.writer().append(id, random_bytes(100, 1)));
    must(image.writer().close(id));
    CHECK(image.bytes_expected() == 1000);
    image.discard();
    CHECK_FALSE(image.exists());
    CHECK(image.bytes_done() == 0);
    CHECK(image.bytes_expected() == 0);
    CHECK(folder.names().empty());
  }
}

TEST_CASE("other threads may ask for the progress, or abandon the image, while it is discarded") {
  TempFolder folder;
  DumpOptions options;
  options.image = folder / "job.img";
  NewImage image;
  std::atomic<bool> over = false;
  std::thread display([&] {
    while (!over) CHECK(image.bytes_done() == 0);
  });
  for (int i = 0; i < 20; i++) {
    REQUIRE(image.create(options));
    image.abandon();
    CHECK_FALSE(image.writer().stream("a"));
    image.discard();
    image.abandon();
  }
  over = true;
  display.join();
}

}  // namespace ckpt::test
