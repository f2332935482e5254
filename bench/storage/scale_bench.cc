// SPDX-License-Identifier: Apache-2.0
//
// scale-bench [MiB [FOLDER]]: time and peak memory of writing, verifying and reading images of a
// quarter, half and all of a size (default 4096 MiB), and of many small streams. Each measurement
// has a process of its own, and the input is generated piece by piece, so the memory is that of the
// writer or reader alone.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "bench/storage/data.h"
#include "storage/read/image_reader.h"
#include "storage/write/image_writer.h"

namespace ckpt::bench {
namespace {

constexpr size_t kPieceBytes = 1u << 20;

// Half of the pieces are compressible, and no two pieces are equal.
void fill(Bytes &piece, size_t size, u64 number) {
  static const Bytes random = random_bytes(kPieceBytes), smooth = smooth_floats(kPieceBytes);
  const Bytes &from = number % 2 ? random : smooth;
  piece.assign(from.begin(), from.begin() + static_cast<ptrdiff_t>(size));
  for (size_t at = 0; at < piece.size(); at += 4096)
    std::memcpy(&piece[at], &number, sizeof number);
}

void write(const std::string &path, u64 streams, u64 pieces, size_t piece_bytes) {
  auto image = storage::ImageWriter::create(path, {});
  if (!image) require(Failure(image.error()));
  Bytes piece;
  for (u64 s = 0; s < streams; ++s) {
    storage::StreamId id = *(*image)->stream(fmt::format("s/{}", s));
    for (u64 i = 0; i < pieces; ++i) {
      fill(piece, piece_bytes, s * pieces + i);
      require((*image)->append(id, piece));
    }
    require((*image)->close(id));
  }
  require((*image)->finish({{"program", "scale-bench"}}));
}

void verify(const std::string &path) {
  auto image = storage::ImageReader::open(path);
  if (!image) require(Failure(image.error()));
  require((*image)->verify(storage::ImageReader::Depth::Full).result());
}

void read(const std::string &path) {
  auto image = storage::ImageReader::open(path);
  if (!image) require(Failure(image.error()));
  for (const storage::StreamEntry &s : (*image)->streams())
    require((*image)->for_each_chunk(s, storage::ImageReader::Order::Ascending,
                                     [](u64, ByteView) -> Result<> { return {}; }));
}

// Runs `f` in a child process, to measure its peak memory.
template <class F>
void measure(const std::string &what, u64 bytes, F f) {
  fflush(stdout);
  Clock::time_point start = Clock::now();
  pid_t pid = ::fork();
  if (pid == 0) {
    f();
    ::_exit(0);
  }
  int status = 0;
  struct rusage usage {};
  if (::wait4(pid, &status, 0, &usage) != pid || status != 0) exit(1);
  double seconds = since(start);
  printf("%-34s %8.3f s %7.2f GB/s   peak memory %5.0f MiB\n", what.c_str(), seconds,
         static_cast<double>(bytes) / 1e9 / seconds, static_cast<double>(usage.ru_maxrss) / 1024);
}

void bench(const std::string &image, const std::string &name, u64 streams, u64 pieces,
           size_t piece_bytes) {
  u64 bytes = streams * pieces * piece_bytes;
  measure(name + ": write", bytes, [&] { write(image, streams, pieces, piece_bytes); });
  measure(name + ": verify", bytes, [&] { verify(image); });
  measure(name + ": read", bytes, [&] { read(image); });
  std::filesystem::remove_all(image);
}

int run(int argc, char **argv) {
  u64 mib = size_argument(argc, argv, 4096) >> 20;
  Scratch folder(argc, argv, "scale-bench");
  for (u64 part : {4, 2, 1})
    bench(folder / "image", fmt::format("{} MiB, one stream", mib / part), 1, mib / part,
          kPieceBytes);
  for (u64 count : {10000, 20000, 40000})
    bench(folder / "image", fmt::format("{} streams of 4 KiB", count), count, 1, 4096);
  return 0;
}

}  // namespace
}  // namespace ckpt::bench

int main(int argc, char **argv) { return ckpt::bench::run(argc, argv); }
