// SPDX-License-Identifier: Apache-2.0
//
// Writing and reading an image needs only the memory that image_writer.h and image_reader.h
// promise, whatever its size. Each step runs in a child, to measure its own peak.
// (bench/storage/scale_bench.cc does this up to 4 GiB.)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

constexpr u64 kPieces = 384;  // of kChunkBytes

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsInflated = true;
#else
constexpr bool kIsInflated = false;
#endif

// The memory that `step` adds to the process, in MiB.
double peak_mib(const std::function<Result<>()> &step) {
  pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    Result<> r = step();
    ::getrusage(RUSAGE_SELF, &after);
    ::_exit(r ? static_cast<int>(std::min(254L, (after.ru_maxrss - before.ru_maxrss) >> 10)) : 255);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) != 255);
  return WEXITSTATUS(status);
}

Result<> write_large(const std::string &path, const std::string &parent, u64 salt) {
  CKPT_TRY(auto image, ImageWriter::create(path, {.threads = 2, .parent = parent}));
  CKPT_TRY(StreamId id, image->stream("memory", Cut::Content));
  Bytes piece = smooth_bytes(kChunkBytes, 1);
  for (u64 i = 0; i < kPieces; ++i) {
    std::memcpy(piece.data(), &i, sizeof i);
    std::memcpy(piece.data() + 300000, &salt, sizeof salt);
    CKPT_CHECK(image->append(id, piece));
  }
  return image->finish({{"n", 1}});
}

TEST_CASE("memory is bounded for images of any size") {
  if (kIsInflated) {
    MESSAGE("SKIPPED: peak memory (sanitizers need memory too)");
    return;
  }
  TempFolder tmp;
  const std::string one = tmp / "one", two = tmp / "two";
  // 32 MiB of waiting bytes, two threads, one stream, and what the libraries allocate.
  CHECK(peak_mib([&] { return write_large(one, "", 1); }) < 96);
  // An increment also decodes chunks of the parent. How much freed memory malloc() retains varies:
  // 33 to 98 MiB were measured.
  CHECK(peak_mib([&] { return write_large(two, one, 2); }) < 128);
  for (const std::string &path : {one, two}) {
    CHECK(peak_mib([&]() -> Result<> {
            CKPT_TRY(auto image, ImageReader::open(path));
            return image->verify(ImageReader::Depth::Full, {}, 2).result();
          }) < 48);
    CHECK(peak_mib([&]() -> Result<> {
            CKPT_TRY(auto image, ImageReader::open(path));
            return image->for_each_chunk(
                image->streams()[0], ImageReader::Order::Ascending,
                [](u64, ByteView) -> Result<> { return {}; }, 2);
          }) < 48);
  }
}

}  // namespace
}  // namespace ckpt::test
