// SPDX-License-Identifier: Apache-2.0
//
// Images in pipes: the receiver gets exactly what was sent, or an error and no image.
#include <fcntl.h>
#include <signal.h>

#include <thread>

#include "storage/ops/copy.h"
#include "storage/ops/receive.h"
#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

struct Pipe {
  Pipe() {
    ::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  UniqueFd read_end, write_end;
};

NamedBytes some_streams() {
  return {{"raw", random_bytes(3 * kChunkBytes + 60, 1)},
          {"zstd", smooth_bytes(9 * kChunkBytes, 2)},
          {"zero", zeros(100)}};
}

Result<> write_in_pipe(int fd, const ImageWriter::Options &options = {}) {
  CKPT_TRY(auto image, ImageWriter::create_in_pipe(fd, options));
  for (const auto &[name, bytes] : some_streams()) {
    CKPT_TRY(StreamId id, image->stream(name));
    CKPT_CHECK(image->append(id, bytes));
  }
  return image->finish({{"program", "test"}});
}

// The bytes of an image in a pipe.
Bytes sent_bytes() {
  Pipe pipe;
  Bytes out;
  std::thread reader([&] {
    std::byte buffer[65536];
    ssize_t n;
    while ((n = ::read(pipe.read_end.get(), buffer, sizeof buffer)) > 0)
      out.insert(out.end(), buffer, buffer + n);
  });
  must(write_in_pipe(pipe.write_end.get(), {.threads = 4}));
  pipe.write_end.reset();
  reader.join();
  return out;
}

UniqueFd file_of(const TempFolder &tmp, ByteView bytes) {
  write_file(tmp / "sent", bytes);
  return UniqueFd(::open((tmp / "sent").c_str(), O_RDONLY | O_CLOEXEC));
}

TEST_CASE("an image can be written to a pipe and received in a folder") {
  for (bool encrypted : {false, true}) {
    TempFolder tmp;
    Key key = must(Key::from_bytes(random_bytes(Key::kBytes, 1)));
    const Key *used = encrypted ? &key : nullptr;
    Pipe pipe;
    Result<> sent;
    std::thread writer([&] {
      sent = write_in_pipe(pipe.write_end.get(), {.threads = 3, .key = used});
      pipe.write_end.reset();
    });
    Result<> received = receive_image(pipe.read_end.get(), tmp / "image", false, {.key = used});
    writer.join();
    must(sent);
    must(received);
    check_holds(tmp / "image", some_streams(), {.key = used});
    CHECK(tmp.names() == std::vector<std::string>{"image"});
  }
}

TEST_CASE("a spooled image leaves no names and can be read") {
  TempFolder tmp;
  Bytes sent = sent_bytes();
  TempFolder spool;
  auto image = must(spool_image(file_of(tmp, sent).get(), spool.path()));
  CHECK(spool.names().empty());
  for (const auto &[name, bytes] : some_streams()) CHECK(must(read_stream(*image, name)) == bytes);
}

TEST_CASE("a chain is sent as a single image") {
  TempFolder tmp;
  must(write_image(tmp / "one", some_streams()));
  must(write_image(tmp / "two", some_streams(), {.parent = tmp / "one"}));
  Pipe pipe;
  Result<> sent;
  std::thread sender([&] {
    sent = send_image(*open_image(tmp / "two"), pipe.write_end.get(), nullptr);
    pipe.write_end.reset();
  });
  must(receive_image(pipe.read_end.get(), tmp / "three", false));
  sender.join();
  must(sent);
  std::filesystem::remove_all(tmp / "one");
  check_holds(tmp / "three", some_streams());
}

TEST_CASE("a pipe that ends too early, at any byte, leaves no image") {
  TempFolder tmp, spool;
  Bytes sent = sent_bytes();
  for (size_t n = 0; n < sent.size(); n = n < 100 || n + 1000 > sent.size() ? n + 1 : n * 3 / 2) {
    CAPTURE(n);
    UniqueFd fd = file_of(tmp, ByteView(sent).first(std::min(n, sent.size() - 1)));
    Result<> r = receive_image(fd.get(), tmp / "image", false);
    REQUIRE_FALSE(r);
    CHECK(r.error().what.find("ends too early") != std::string::npos);
    CHECK(tmp.names() == std::vector<std::string>{"sent"});
  }
}

TEST_CASE("hostile pipes are refused with a clear error, in bounded memory") {
  TempFolder tmp;
  Bytes head = encode_pipe_header();
  auto refused = [&](const Writer &w, const char *why) {
    Bytes bytes = head;
    bytes.insert(bytes.end(), w.bytes().begin(), w.bytes().end());
    Result<> r = receive_image(file_of(tmp, bytes).get(), tmp / "image", false);
    REQUIRE_FALSE(r);
    CAPTURE(r.error().what);
    CHECK(r.error().what.find(why) != std::string::npos);
    CHECK(tmp.names() == std::vector<std::string>{"sent"});
  };
  refused(Writer().put(~u32{0}), "a piece of 4294967295 bytes");
  refused(Writer().put(u32{0}).put(~u64{0}), "an index of");
  refused(Writer().put(u32{0}).put(u64{kMaxIndexBytes}), "ends too early");
  refused(Writer().put(u32{0}).put(u64{0}), "truncated");
  refused(Writer().put(u32{2}).raw("ab", 2).put(u32{0}).put(u64{2}).raw("xy", 2), "truncated");
  head[8] = std::byte{7};
  refused(Writer(), "version 7");
  head[0] = std::byte{'X'};
  refused(Writer(), "does not contain an image");
  // Flipped bits are found at once or by verify().
  Bytes sent = sent_bytes();
  std::mt19937_64 rng(1);
  for (int i = 0; i < 300; ++i) {
    size_t bit = rng() % (i % 2 ? 8000 : sent.size() * 8);
    sent[bit / 8] ^= std::byte{1} << (bit % 8);
    Result<> r = receive_image(file_of(tmp, sent).get(), tmp / "image", true);
    if (r) CHECK_FALSE(open_image(tmp / "image")->verify(ImageReader::Depth::Full).ok());
    sent[bit / 8] ^= std::byte{1} << (bit % 8);
    std::filesystem::remove_all(tmp / "image");
  }
}

TEST_CASE(
    "a reader that closes the pipe is an error; the writer can stop waiting for one that stalls") {
  {
    Pipe pipe;
    pipe.read_end.reset();
    CHECK_FALSE(write_in_pipe(pipe.write_end.get()));
  }
  {
    Pipe pipe;  // is not read
    auto image = must(ImageWriter::create_in_pipe(pipe.write_end.get(), {.memory_bytes = 1}));
    StreamId id = must(image->stream("a"));
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      image->abandon();
    });
    Result<> r;
    for (u64 i = 0; r; ++i) r = image->append(id, random_bytes(kChunkBytes, i));
    CHECK(r.error().what.find("abandoned") != std::string::npos);
    later.join();
  }
  CHECK_FALSE(ImageWriter::create_in_pipe(1, {.parent = "x"}));
}

}  // namespace
}  // namespace ckpt::test
