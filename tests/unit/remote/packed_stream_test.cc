// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/packed_stream.h"

#include <doctest/doctest.h>
#include <zstd.h>

#include <random>
#include <thread>

#include "common/ipc/unix_socket.h"
#include "remote/transport/connection.h"

using namespace ckpt;
using namespace ckpt::remote;

namespace {

LinkTimes slow_link(int) { return {10, 1}; }
LinkTimes idle_link(int) { return {0, 1}; }
LinkTimes fast_link(int) { return {10, 1e-12}; }

struct Pair {
  std::unique_ptr<Stream> here, there;
};

Pair make_pair_of_sockets() {
  auto pair = socket_pair();
  REQUIRE(pair);
  return {std::make_unique<SocketStream>(std::move(pair->first)),
          std::make_unique<SocketStream>(std::move(pair->second))};
}

enum class Data { Zeros, Words, Random };
Bytes make(Data kind, size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  Bytes out(bytes);
  for (size_t i = 0; i < bytes; i++)
    out[i] = kind == Data::Zeros
                 ? std::byte{}
                 : static_cast<std::byte>(kind == Data::Words ? random() % 5 : random());
  return out;
}

// What arrives below when `data` is written in these parts.
Bytes on_the_wire(ByteView data, size_t part, PackedStream::Measure link) {
  Pair pair = make_pair_of_sockets();
  Bytes all;
  std::thread reader([&] {
    Bytes piece(1u << 20);
    for (;;) {
      auto n = pair.there->read_some(piece);
      if (!n || *n == 0) return;
      all.insert(all.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(*n));
    }
  });
  PackedStream packed(std::move(pair.here), {}, link);
  for (size_t at = 0; at < data.size(); at += part)
    REQUIRE(packed.write(data.subspan(at, std::min(part, data.size() - at))));
  packed.shut_down();
  reader.join();
  return all;
}

// What a reader makes of these bytes, `ahead` of which were read before; `most`: at once.
Result<Bytes> read_back(ByteView wire, size_t ahead, size_t most) {
  Pair pair = make_pair_of_sockets();
  std::thread writer([&] {
    (void)pair.here->write(wire.subspan(ahead));
    pair.here->shut_down();
  });
  PackedStream packed(std::move(pair.there), wire.first(ahead), fast_link);
  Bytes all, piece(most);
  Result<> status;
  for (;;) {
    Result<size_t> n = packed.read_some(piece);
    if (!n) status = Failure(n.error());
    if (!n || *n == 0) break;
    all.insert(all.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(*n));
  }
  packed.shut_down();
  writer.join();
  if (!status) return Failure(status.error());
  return all;
}

}  // namespace

TEST_CASE("what is written is read, on slow and fast links, in parts of any size") {
  std::mt19937 random(3);
  for (Data kind : {Data::Zeros, Data::Words, Data::Random})
    for (auto link : {slow_link, fast_link})
      for (size_t part : {size_t{13}, size_t{40'000}, size_t{3'000'000}}) {
        Bytes data = make(kind, part < 100 ? 1000 : 2'000'000, 7);
        Bytes wire = on_the_wire(data, part, link);
        for (size_t most : {size_t{5}, size_t{65'536}, size_t{1} << 20}) {
          if (most == 5 && data.size() > 1000) continue;
          auto back = read_back(wire, random() % (wire.size() + 1), most);
          REQUIRE(back);
          CHECK((*back == data));
        }
      }
}

TEST_CASE("only a slow and busy link makes it compress, and only what gets shorter") {
  size_t bytes = 4u << 20;
  Bytes words = make(Data::Words, bytes, 1), noise = make(Data::Random, bytes, 1);
  CHECK(on_the_wire(words, bytes, slow_link).size() < bytes / 2);
  CHECK(on_the_wire(words, bytes, fast_link).size() == bytes + bytes / PackedStream::kPiece * 8);
  CHECK(on_the_wire(words, bytes, idle_link).size() == bytes + bytes / PackedStream::kPiece * 8);
  CHECK(on_the_wire(noise, bytes, slow_link).size() == bytes + bytes / PackedStream::kPiece * 8);
  // Below the shortest length.
  CHECK(on_the_wire(ByteView(words).first(8000), 100, slow_link).size() == 8000 + 80 * 8);
}

TEST_CASE("on a slow link that is idle, what has shrunk to half goes on to be compressed") {
  static int asked;
  asked = 0;
  PackedStream::Measure busy_once = [](int) { return LinkTimes{asked++ == 0 ? 10.0 : 0.0, 1}; };
  size_t bytes = 4u << 20;
  CHECK(on_the_wire(make(Data::Words, bytes, 1), bytes, busy_once).size() < bytes / 2);
  asked = 0;
  CHECK(on_the_wire(make(Data::Random, bytes, 1), bytes, busy_once).size() > bytes);
}

TEST_CASE("CKPT_REMOTE_COMPRESSION=no sends everything as it is") {
  Bytes zeros(1u << 20);
  ::setenv("CKPT_REMOTE_COMPRESSION", "no", 1);
  CHECK(on_the_wire(zeros, zeros.size(), slow_link).size() > zeros.size());
  ::unsetenv("CKPT_REMOTE_COMPRESSION");
  CHECK(on_the_wire(zeros, zeros.size(), slow_link).size() < zeros.size() / 100);
}

TEST_CASE("a hostile peer's blocks are errors, whatever they declare") {
  auto block = [](u32 raw, u32 stored, Bytes content) {
    u32 head[2] = {raw, stored};
    Bytes out(sizeof head);
    std::memcpy(out.data(), head, sizeof head);
    out.insert(out.end(), content.begin(), content.end());
    return out;
  };
  auto compressed = [](size_t bytes) {
    Bytes zeros(bytes), out(::ZSTD_compressBound(bytes));
    out.resize(::ZSTD_compress(out.data(), out.size(), zeros.data(), bytes, 1));
    return out;
  };
  Bytes large = compressed(100u << 20), right = compressed(5000);
  auto size_of = [](const Bytes &b) { return static_cast<u32>(b.size()); };
  CHECK_FALSE(read_back(block(0xffffffff, size_of(large), large), 0, 1000));
  CHECK_FALSE(read_back(block(PackedStream::kPiece, size_of(large), large), 0, 1000));
  CHECK_FALSE(read_back(block(5001, size_of(right), right), 0, 100'000));
  CHECK_FALSE(read_back(block(4999, size_of(right), right), 0, 1000));
  CHECK_FALSE(read_back(block(10, 10, Bytes(10)), 0, 1000));
  CHECK(read_back(block(5000, size_of(right), right), 0, 1000));
  // The peer hangs up in the middle of a block.
  CHECK(read_back(ByteView(block(5000, size_of(right), right)).first(12), 0, 1000));
}

TEST_CASE("random bytes are an error or data, and never more memory than a block") {
  std::mt19937 random(5);
  for (int round = 0; round < 500; round++) {
    Bytes noise = make(Data::Random, random() % 300, random());
    for (size_t i = 2; i < noise.size(); i++)
      if (i % 4 > 1 && i < 16) noise[i] = {};  // short blocks
    (void)read_back(noise, 0, 1000);
  }
}
