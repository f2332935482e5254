// SPDX-License-Identifier: Apache-2.0
//
// increment-bench [MiB [FOLDER]]: a second image of a program after 1 % of its memory changed,
// compared with the first: time until durable, and bytes. The change is in one place, in 16 places,
// or in single pages everywhere. The memory is stored in three ways: as CRIU's stream of pages
// (append), as one device buffer (put), and as 100 buffers of which one is known to have been
// written (reuse for the others). Times are the best of five pairs, ratios the median.
#include <filesystem>

#include "bench/storage/data.h"
#include "common/base/cores.h"
#include "common/base/parallel.h"
#include "storage/chunk/chunk_codec.h"
#include "storage/chunk/content_cut.h"
#include "storage/read/image_reader.h"
#include "storage/write/image_writer.h"

namespace ckpt::bench {
namespace {

constexpr size_t kBuffers = 100;

struct Cost {
  double seconds = 1e9;
  u64 bytes = 0;
  void keep_best(const Cost &o) {
    seconds = std::min(seconds, o.seconds);
    bytes = o.bytes;
  }
};

u64 bytes_of(const std::string &image) {
  return std::filesystem::file_size(image + "/index.ckpt") +
         std::filesystem::file_size(image + "/chunks.ckpt");
}

std::unique_ptr<storage::ImageWriter> create(const std::string &path, const std::string &parent) {
  auto image = storage::ImageWriter::create(path, {.parent = parent});
  if (!image) require(Failure(image.error()));
  return std::move(*image);
}

Cost write_pages(const std::string &path, const std::string &parent, const Bytes &memory) {
  std::filesystem::remove_all(path);
  Clock::time_point start = Clock::now();
  auto image = create(path, parent);
  storage::StreamId id = *image->stream("criu/pages-1.img", storage::Cut::Content);
  for (ByteView rest = memory; !rest.empty();) {
    ByteView piece = rest.first(std::min<size_t>(rest.size(), 1u << 20));
    require(image->append(id, piece));
    rest = rest.subspan(piece.size());
  }
  require(image->finish({{"program", "increment-bench"}}));
  return {since(start), bytes_of(path)};
}

// One buffer, without knowledge of what was written.
Cost write_device(const std::string &path, const std::string &parent, const Bytes &memory) {
  std::filesystem::remove_all(path);
  Clock::time_point start = Clock::now();
  auto image = create(path, parent);
  storage::StreamId id = *image->stream("device/0/ocl/mem-1");
  require(image->put(id, 0, memory));
  require(image->finish({{"program", "increment-bench"}}));
  return {since(start), bytes_of(path)};
}

// `written`: the index of the changed buffer. With a parent, the others are not read.
Cost write_buffers(const std::string &path, const std::string &parent, const Bytes &memory,
                   size_t written) {
  std::filesystem::remove_all(path);
  Clock::time_point start = Clock::now();
  auto image = create(path, parent);
  size_t size = memory.size() / kBuffers;
  for (size_t i = 0; i < kBuffers; ++i) {
    std::string name = fmt::format("device/0/ocl/mem-{}", i);
    storage::StreamId id = *image->stream(name);
    if (!parent.empty() && i != written)
      require(image->reuse(id, name, size));
    else
      require(image->put(id, 0, ByteView(memory).subspan(i * size, size)));
  }
  require(image->finish({{"program", "increment-bench"}}));
  return {since(start), bytes_of(path)};
}

// Changes 1 % of the pages, in `places` runs: the lower bits of an eighth of the numbers in each
// page.
Bytes changed(const Bytes &memory, size_t places, u64 seed) {
  Bytes out = memory;
  size_t pages = memory.size() / storage::kPageBytes,
         run = std::max<size_t>(pages / 100 / places, 1);
  std::mt19937_64 rng(seed);
  for (size_t p = 0; p < places; ++p) {
    size_t first = p * (pages / places) + rng() % (pages / places - run + 1);
    for (size_t at = first * storage::kPageBytes; at < (first + run) * storage::kPageBytes;
         at += 32)
      out[at] ^= static_cast<std::byte>(rng() | 1);
  }
  return out;
}

// `part`: this time as a fraction of the first image's.
void print(const char *kind, const std::string &what, const Cost &c, const Cost &first,
           double part) {
  printf("%-7s %-28s %8.3f s %9.2f MB   %5.1f %% of the time, %5.2f %% of the bytes\n", kind,
         what.c_str(), c.seconds, static_cast<double>(c.bytes) / 1e6, 100 * part,
         100 * static_cast<double>(c.bytes) / static_cast<double>(first.bytes));
}

using WriteMemory = Cost (*)(const std::string &path, const std::string &parent,
                             const Bytes &memory);

// Measures pairs of images directly after each other, so that other load affects both.
void bench_places(const char *kind, const char *way, const Scratch &folder, const Bytes &memory,
                  WriteMemory write) {
  const std::string one = folder / "one", two = folder / "two";
  for (size_t places : {size_t{1}, size_t{16}, memory.size() / storage::kPageBytes / 100}) {
    Bytes next = changed(memory, places, places);
    Cost first, second;
    std::vector<double> parts;
    for (int i = 0; i < kRounds; ++i) {
      std::filesystem::remove_all(two);
      Cost a = write(one, "", memory), b = write(two, one, next);
      first.keep_best(a);
      second.keep_best(b);
      parts.push_back(b.seconds / a.seconds);
    }
    if (places == 1) print(kind, fmt::format("{}: first", way), first, first, 1);
    print(kind, fmt::format("{}: 1 % in {} places", way, places), second, first, median(parts));
  }
}

void bench_known(const char *kind, const Scratch &folder, const Bytes &memory) {
  const std::string one = folder / "one", two = folder / "two";
  Bytes next = memory;
  for (size_t i = 0; i < memory.size() / kBuffers; ++i) next[i] ^= std::byte{1};
  Cost first, second;
  std::vector<double> parts;
  for (int i = 0; i < kRounds; ++i) {
    std::filesystem::remove_all(two);
    Cost a = write_buffers(one, "", memory, kBuffers), b = write_buffers(two, one, next, 0);
    first.keep_best(a);
    second.keep_best(b);
    parts.push_back(b.seconds / a.seconds);
  }
  print(kind, "buffers: first", first, first, 1);
  print(kind, "buffers: 1 of 100 written", second, first, median(parts));
}

void bench(const char *kind, const Scratch &folder, const Bytes &memory) {
  bench_places(kind, "pages", folder, memory, write_pages);
  bench_places(kind, "device", folder, memory, write_device);
  bench_known(kind, folder, memory);
}

// The lower bound for an increment without knowledge of what was written: hashing every byte once.
void bench_reading(const Bytes &memory) {
  double best = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    Clock::time_point start = Clock::now();
    unsigned threads = usable_cores();
    size_t part = memory.size() / threads;
    run_parallel(threads, [&](unsigned t) {
      volatile u64 low = storage::chunk_address(ByteView(memory).subspan(t * part, part), t).low;
      (void)low;
    });
    best = std::min(best, since(start));
  }
  printf("every byte hashed once, on all cores: %.3f s\n", best);
}

int run(int argc, char **argv) {
  size_t bytes = size_argument(argc, argv, 1024);
  Scratch folder(argc, argv, "increment-bench");
  for (const char *kind : {"smooth", "random"}) {
    Bytes memory = *kind == 's' ? smooth_floats(bytes) : random_bytes(bytes);
    bench_reading(memory);
    bench(kind, folder, memory);
  }
  return 0;
}

}  // namespace
}  // namespace ckpt::bench

int main(int argc, char **argv) { return ckpt::bench::run(argc, argv); }
