// SPDX-License-Identifier: Apache-2.0
//
// increment-bench [MiB [FOLDER]]: a second image of the same program with 1 % of its memory
// changed, against the first: time until durable, and bytes. The change lies in one place, in 16,
// or in pages all over; the memory comes as CRIU's stream of pages (append), or as 100 device
// buffers of which one was written and the others are known to be as they were (reuse). Each the
// best of three.
#include <filesystem>

#include "bench/storage/data.h"
#include "storage/content_cut.h"
#include "storage/image_reader.h"
#include "storage/image_writer.h"

namespace ckpt {
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

std::unique_ptr<ImageWriter> create(const std::string &path, const std::string &parent) {
  auto image = ImageWriter::create(path, {.parent = parent});
  if (!image) require(Failure(image.error()));
  return std::move(*image);
}

Cost write_pages(const std::string &path, const std::string &parent, const Bytes &memory) {
  std::filesystem::remove_all(path);
  Clock::time_point start = Clock::now();
  auto image = create(path, parent);
  StreamId id = *image->stream("criu/pages-1.img", ImageWriter::Cut::Content);
  for (ByteView rest = memory; !rest.empty();) {
    ByteView piece = rest.first(std::min<size_t>(rest.size(), 1u << 20));
    require(image->append(id, piece));
    rest = rest.subspan(piece.size());
  }
  require(image->finish({{"program", "increment-bench"}}));
  return {since(start), bytes_of(path)};
}

// `written`: the buffer that some command wrote; the others are not looked at when there is a
// parent.
Cost write_buffers(const std::string &path, const std::string &parent, const Bytes &memory,
                   size_t written) {
  std::filesystem::remove_all(path);
  Clock::time_point start = Clock::now();
  auto image = create(path, parent);
  size_t size = memory.size() / kBuffers;
  for (size_t i = 0; i < kBuffers; ++i) {
    std::string name = fmt::format("device/0/ocl/mem-{}", i);
    StreamId id = *image->stream(name);
    if (!parent.empty() && i != written)
      require(image->reuse(id, name, size));
    else
      require(image->put(id, 0, ByteView(memory).subspan(i * size, size)));
  }
  require(image->finish({{"program", "increment-bench"}}));
  return {since(start), bytes_of(path)};
}

// 1 % of the pages, in `places` runs.
Bytes changed(const Bytes &memory, size_t places, u64 seed) {
  Bytes out = memory;
  size_t pages = memory.size() / kPageBytes, run = std::max<size_t>(pages / 100 / places, 1);
  std::mt19937_64 rng(seed);
  for (size_t p = 0; p < places; ++p) {
    size_t first = p * (pages / places) + rng() % (pages / places - run + 1);
    for (size_t i = first; i < first + run; ++i) {
      u64 value = rng();
      std::memcpy(out.data() + i * kPageBytes + 64, &value, sizeof value);
    }
  }
  return out;
}

void print(const char *kind, const std::string &what, const Cost &c, const Cost &first) {
  printf("%-7s %-28s %8.3f s %9.2f MB   %5.1f %% of the time, %5.2f %% of the bytes\n", kind,
         what.c_str(), c.seconds, static_cast<double>(c.bytes) / 1e6,
         100 * c.seconds / first.seconds,
         100 * static_cast<double>(c.bytes) / static_cast<double>(first.bytes));
}

void bench(const char *kind, const std::string &folder, const Bytes &memory) {
  const std::string one = folder + "/one", two = folder + "/two";
  Cost first;
  for (int i = 0; i < kRounds; ++i) first.keep_best(write_pages(one, "", memory));
  print(kind, "pages: first", first, first);
  for (size_t places : {size_t{1}, size_t{16}, memory.size() / kPageBytes / 100}) {
    Cost second;
    Bytes next = changed(memory, places, places);
    for (int i = 0; i < kRounds; ++i) second.keep_best(write_pages(two, one, next));
    print(kind, fmt::format("pages: 1 % in {} places", places), second, first);
  }
  Cost buffers, again;
  for (int i = 0; i < kRounds; ++i) buffers.keep_best(write_buffers(one, "", memory, kBuffers));
  print(kind, "buffers: first", buffers, buffers);
  Bytes next = memory;
  for (size_t i = 0; i < memory.size() / kBuffers; ++i) next[i] ^= std::byte{1};
  for (int i = 0; i < kRounds; ++i) again.keep_best(write_buffers(two, one, next, 0));
  print(kind, "buffers: 1 of 100 written", again, buffers);
}

int run(int argc, char **argv) {
  size_t bytes = static_cast<size_t>(argc > 1 ? atol(argv[1]) : 1024) << 20;
  std::string folder = std::string(argc > 2 ? argv[2] : "/tmp") + "/increment-bench-XXXXXX";
  if (bytes < (64u << 20) || !::mkdtemp(folder.data())) return 1;
  bench("smooth", folder, smooth_floats(bytes));
  bench("random", folder, random_bytes(bytes));
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace ckpt

int main(int argc, char **argv) { return ckpt::run(argc, argv); }
