// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/copies/read_ahead.h"

#include <doctest/doctest.h>

#include "remote/cuda/protocol.h"

using namespace ckpt;
using namespace ckpt::remote::cuda;

namespace {

constexpr DeviceRange kEnergy{0x1000, 4}, kPositions{0x2000, 8}, kOther{0x3000, 16};

// A program that reads, and its server. The bytes of a range at a time are `contents`, 'x' at
// first.
struct Reading {
  ReadAhead ahead;
  u64 calls = 0;
  char contents = 'x';
  int trips = 0;

  void launch(char change) {
    calls++;
    contents = change;
  }
  // What the program then has.
  std::string read(const DeviceRange &r, bool idle = true) {
    std::string to(r.bytes, '?');
    if (ahead.take(r, calls, to.data())) return to;
    trips++;
    calls++;
    std::vector<DeviceRange> along = ahead.behind(r);
    u64 bytes = 0;
    for (const DeviceRange &a : along) bytes += a.bytes;
    ahead.keep(calls, along, Bytes(idle ? bytes : 0, std::byte(contents)));
    return std::string(r.bytes, contents);
  }
  std::string step(char change) {
    launch(change);
    std::string all;
    for (const DeviceRange &r : {kEnergy, kPositions, kOther}) all += read(r);
    return all;
  }
};

}  // namespace

TEST_CASE("reads that were made twice one behind the other come with one call") {
  Reading p;
  for (char c = 'a'; c < 'c'; c++) CHECK(p.step(c) == std::string(28, c));
  CHECK(p.trips == 6);
  for (char c = 'c'; c < 'g'; c++) CHECK(p.step(c) == std::string(28, c));
  CHECK(p.trips == 6 + 4);
}

TEST_CASE("what came along is forgotten with the next call") {
  Reading p;
  for (char c = 'a'; c < 'f'; c++) p.step(c);
  p.launch('1');
  CHECK(p.read(kEnergy) == "1111");
  p.launch('2');
  CHECK(p.read(kPositions) == "22222222");
}

TEST_CASE("a device that has something to do gives nothing along") {
  Reading p;
  for (char c = 'a'; c < 'f'; c++) p.step(c);
  p.launch('1');
  CHECK(p.read(kEnergy, false) == "1111");
  p.contents = '2';
  CHECK(p.read(kPositions) == "22222222");
}

TEST_CASE("a read that no longer follows is not asked for") {
  Reading p;
  for (char c = 'a'; c < 'f'; c++) p.step(c);
  CHECK(p.ahead.behind(kEnergy) == std::vector<DeviceRange>{kPositions, kOther});
  p.launch('1');
  p.read(kEnergy);
  p.launch('2');
  p.read(kEnergy);
  CHECK(p.ahead.behind(kEnergy).empty());
}

TEST_CASE("a read that is repeated, and reads that are large, do not come along") {
  Reading p;
  constexpr DeviceRange kLarge{0x100000, kMostAlongBytes + 1};
  for (int i = 0; i < 6; i++) p.read(kEnergy);
  CHECK(p.ahead.behind(kEnergy).empty());
  for (int i = 0; i < 6; i++) p.launch('a'), p.read(kPositions), p.read(kLarge);
  CHECK(p.ahead.behind(kPositions).empty());
}

TEST_CASE("the reads that come along are bounded, and so is what is known of a program") {
  Reading p;
  for (int i = 0; i < 4; i++) {
    p.launch('a');
    for (u64 n = 0; n < 20; n++) p.read({n << 8, 8});
  }
  CHECK(p.ahead.behind({0, 8}).size() == kMostAlong);
  for (u64 n = 0; n < 3000; n++) p.read({n << 8, 4});
  CHECK(p.ahead.behind({0, 8}).empty());
}
