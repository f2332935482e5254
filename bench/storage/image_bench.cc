// SPDX-License-Identifier: Apache-2.0
//
// image-bench [MiB [FOLDER]]: writes, reads and verifies images of zeros, smooth floats and random
// bytes, compared with `zstd -1 -T0` and `cp` of the same bytes in the same run. Their input is in
// the page cache, ours in memory. The same again with input from a pipe that another process fills,
// like CRIU's pages.
//
// "durable" means until fsync() returned. Times are the best of five rounds, each of which runs
// everything once. "of zstd" and "of cp" are ratios of the speeds until durable, medians of the
// rounds.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "bench/storage/data.h"
#include "storage/read/image_reader.h"
#include "storage/write/image_writer.h"

namespace ckpt::bench {
namespace {

struct Times {
  double written = 1e9, durable = 1e9;
};

// The times of one method in each round.
struct Rounds {
  std::vector<double> written, durable;
  void add(const Times &t) {
    written.push_back(t.written);
    durable.push_back(t.durable);
  }
  Times best() const {
    return {*std::ranges::min_element(written), *std::ranges::min_element(durable)};
  }
  // Our speed as a fraction of theirs.
  double speed_of(const Rounds &theirs) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < durable.size(); ++i) ratios.push_back(theirs.durable[i] / durable[i]);
    return median(ratios);
  }
};

Times write_put(const std::string &path, ByteView data) {
  std::filesystem::remove_all(path);  // not timed: the cost of removal depends on the disk
  Clock::time_point start = Clock::now();
  auto image = storage::ImageWriter::create(path, {});
  if (!image) require(Failure(image.error()));
  std::atomic<bool> done = false;
  Times t;
  storage::StreamId id = *(*image)->stream("data");
  require((*image)->put(id, 0, data, [&] {
    t.written = since(start);
    done = true;
    done.notify_all();
  }));
  done.wait(false);
  require((*image)->finish({{"program", "image-bench"}}));
  t.durable = since(start);
  return t;
}

Times write_append(const std::string &path, ByteView data, storage::Cut cut) {
  std::filesystem::remove_all(path);  // not timed: the cost of removal depends on the disk
  Clock::time_point start = Clock::now();
  auto image = storage::ImageWriter::create(path, {});
  if (!image) require(Failure(image.error()));
  storage::StreamId id = *(*image)->stream("data", cut);
  constexpr size_t kPiece = 64u << 10;  // a pipe's
  for (size_t at = 0; at < data.size(); at += kPiece)
    require((*image)->append(id, data.subspan(at, std::min(kPiece, data.size() - at))));
  require((*image)->finish({{"program", "image-bench"}}));
  return {since(start), since(start)};
}

// Seconds.
double time_command(const std::string &command) {
  Clock::time_point start = Clock::now();
  if (::system(command.c_str()) != 0) exit(1);
  return since(start);
}

// Times a command that writes the file `output`, which is removed before.
Times run_command(const std::string &command, const std::string &output) {
  ::unlink(output.c_str());
  Clock::time_point start = Clock::now();
  Times t;
  t.written = time_command(command);
  int fd = ::open(output.c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(fd);
  ::close(fd);
  t.durable = since(start);
  return t;
}

// A pipe that a child process fills with `data`.
class Feed {
 public:
  explicit Feed(ByteView data) {
    int ends[2];
    if (::pipe(ends) != 0) exit(1);
    ::fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
    child_ = ::fork();
    if (child_ == 0) {
      while (!data.empty()) {
        ssize_t n = ::write(ends[1], data.data(), std::min<size_t>(data.size(), kPipeBytes));
        if (n <= 0) ::_exit(1);
        data = data.subspan(static_cast<size_t>(n));
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    out = ends[0];
  }
  Feed(const Feed &) = delete;
  Feed &operator=(const Feed &) = delete;
  ~Feed() {
    ::close(out);
    ::waitpid(child_, nullptr, 0);
  }
  int out = -1;

 private:
  static constexpr int kPipeBytes = 1 << 20;  // as in tools/criu/streamer.h
  pid_t child_ = -1;
};

Times write_piped(const std::string &path, ByteView data) {
  std::filesystem::remove_all(path);
  Clock::time_point start = Clock::now();
  Feed feed(data);
  auto image = storage::ImageWriter::create(path, {});
  if (!image) require(Failure(image.error()));
  storage::StreamId id = *(*image)->stream("data", storage::Cut::Content);
  for (;;) {
    auto room = (*image)->room(id);
    if (!room) require(Failure(room.error()));
    ssize_t n = ::read(feed.out, room->data(), room->size());
    if (n <= 0) break;
    require((*image)->commit(id, static_cast<size_t>(n)));
  }
  require((*image)->finish({{"program", "image-bench"}}));
  return {since(start), since(start)};
}

Times run_piped(const std::string &command, const std::string &output, ByteView data) {
  Feed feed(data);
  return run_command(fmt::format("{} <&{} >{}", command, feed.out, output), output);
}

double read_image(const std::string &path, size_t bytes) {
  Clock::time_point start = Clock::now();
  auto image = storage::ImageReader::open(path);
  if (!image) require(Failure(image.error()));
  std::atomic<size_t> seen = 0;
  require((*image)->for_each_chunk((*image)->streams()[0], storage::ImageReader::Order::Any,
                                   [&](u64, ByteView b) -> Result<> {
                                     seen += b.size();
                                     return {};
                                   }));
  if (seen != bytes) exit(1);
  return since(start);
}

double verify_image(const std::string &path, storage::ImageReader::Depth depth, unsigned threads) {
  Clock::time_point start = Clock::now();
  auto image = storage::ImageReader::open(path);
  if (!image) require(Failure(image.error()));
  require((*image)->verify(depth, {}, threads).result());
  return since(start);
}

class Table {
 public:
  Table(const char *kind, size_t bytes) : kind_(kind), gb_(static_cast<double>(bytes) / 1e9) {}
  void line(const char *what, const Rounds &r, const Rounds &zstd, const Rounds &cp) {
    Times t = r.best();
    printf("%-7s %-22s %7.3f s %6.2f GB/s   durable %7.3f s   %4.0f %% of zstd %4.0f %% of cp\n",
           kind_, what, t.written, gb_ / t.written, t.durable, 100 * r.speed_of(zstd),
           100 * r.speed_of(cp));
  }
  void line(const char *what, double s) {
    printf("%-7s %-22s %7.3f s %6.2f GB/s\n", kind_, what, s, gb_ / s);
  }

 private:
  const char *kind_;
  double gb_;
};

template <class F>
double best(F f) {
  double t = 1e9;
  for (int i = 0; i < kRounds; ++i) t = std::min(t, f());
  return t;
}

void bench_writing(Table &table, const Scratch &folder, const Bytes &data) {
  const std::string input = folder / "input", output = folder / "output", image = folder / "image";
  Rounds put, append, pages, zstd, cp;
  for (int i = 0; i < kRounds; ++i) {  // in turns, so that other load affects all
    zstd.add(run_command(fmt::format("zstd -q -f -1 -T0 {} -o {}", input, output), output));
    put.add(write_put(image, data));
    append.add(write_append(image, data, storage::Cut::Fixed));
    pages.add(write_append(image, data, storage::Cut::Content));
    cp.add(run_command(fmt::format("cp {} {}", input, output), output));
  }
  table.line("zstd -1 -T0", zstd, zstd, cp);
  table.line("cp", cp, zstd, cp);
  table.line("image put", put, zstd, cp);
  table.line("image append", append, zstd, cp);
  table.line("image append pages", pages, zstd, cp);
}

void bench_pipes(Table &table, const Scratch &folder, const Bytes &data) {
  const std::string output = folder / "output";
  Rounds pages, zstd, cat;
  for (int i = 0; i < kRounds; ++i) {
    zstd.add(run_piped("zstd -q -1 -T0 -c", output, data));
    pages.add(write_piped(folder / "image", data));
    cat.add(run_piped("cat", output, data));
  }
  table.line("| zstd -1 -T0", zstd, zstd, cat);
  table.line("| cat", cat, zstd, cat);
  table.line("| image append pages", pages, zstd, cat);
}

void bench(const char *kind, const Scratch &folder, const Bytes &data) {
  const std::string input = folder / "input", output = folder / "output", image = folder / "image";
  FILE *f = fopen(input.c_str(), "w");
  if (!f || fwrite(data.data(), 1, data.size(), f) != data.size() || fclose(f) != 0) exit(1);
  ::sync();
  Table table(kind, data.size());
  bench_writing(table, folder, data);
  bench_pipes(table, folder, data);
  using Depth = storage::ImageReader::Depth;
  table.line("image read", best([&] { return read_image(image, data.size()); }));
  table.line("verify, all cores", best([&] { return verify_image(image, Depth::Full, 0); }));
  table.line("verify, one core", best([&] { return verify_image(image, Depth::Full, 1); }));
  table.line("check stored", best([&] { return verify_image(image, Depth::Stored, 0); }));
  (void)run_command("zstd -q -f -1 -T0 " + input + " -o " + output, output);
  table.line("zstd -d >/dev/null",
             best([&] { return time_command("zstd -q -d -c " + output + " >/dev/null"); }));
  printf("%-7s %-22s %7.1f MB, zstd %.1f MB, raw %.1f MB\n", kind, "size",
         static_cast<double>(std::filesystem::file_size(image + "/chunks.ckpt")) / 1e6,
         static_cast<double>(std::filesystem::file_size(output)) / 1e6,
         static_cast<double>(data.size()) / 1e6);
}

int run(int argc, char **argv) {
  size_t bytes = size_argument(argc, argv, 1024);
  Scratch folder(argc, argv, "image-bench");
  bench("zeros", folder, Bytes(bytes));
  bench("smooth", folder, smooth_floats(bytes));
  bench("random", folder, random_bytes(bytes));
  struct rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  printf("peak memory %.0f MiB, of which the input has %zu MiB\n",
         static_cast<double>(usage.ru_maxrss) / 1024, bytes >> 20);
  return 0;
}

}  // namespace
}  // namespace ckpt::bench

int main(int argc, char **argv) { return ckpt::bench::run(argc, argv); }
