// SPDX-License-Identifier: Apache-2.0
#include "tools/session/device_shares.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

using namespace ckpt;
using namespace ckpt::tools;
using State = DeviceShares::State;

namespace {

constexpr ShareId kId{1, 2};
const DeviceShares::User kExporter{1, 0, 0}, kImporter{2, 0, 0}, kOther{3, 0, 0};

UniqueFd handle() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

struct Shares {
  std::set<u64> ended;
  DeviceShares all{[this](const DeviceShares::User &u) { return !ended.contains(u.token); }};
  Result<> offer(const DeviceShares::User &user, bool exported = true, bool loaded = true) {
    return all.offer(kId, user, {1 << 21, "GPU-1", exported, loaded}, handle());
  }
  State want(const DeviceShares::User &user, bool had = false) {
    return all.want(kId, user, had).state;
  }
  void leave(const DeviceShares::User &user, bool killed) {
    if (killed)
      ended.insert(user.token);
    else
      all.done(kId, user);
  }
};

}  // namespace

TEST_CASE("a piece can be had from its offer to the end of its last user") {
  Shares s;
  CHECK(s.want(kImporter) == State::Unknown);
  CHECK(s.offer(kExporter).has_value());
  CHECK(s.want(kImporter) == State::There);
  s.all.done(kId, kExporter);
  CHECK(s.want(kOther) == State::Unknown);
  CHECK(s.want(kImporter, true) == State::There);
  s.all.done(kId, kImporter);
  CHECK(s.want(kImporter, true) == State::Unknown);
}

TEST_CASE("the first user that asks owns a piece when its owner has gone or ended") {
  for (bool killed : {false, true}) {
    Shares s;
    CHECK(s.offer(kExporter).has_value());
    CHECK(s.want(kImporter) == State::There);
    CHECK(s.want(kOther) == State::There);
    CHECK(*s.all.own(kId, kExporter));
    CHECK(!*s.all.own(kId, kImporter));
    CHECK(!s.offer(kImporter, false).has_value());
    s.leave(kExporter, killed);
    CHECK(*s.all.own(kId, kOther));
    CHECK(!*s.all.own(kId, kImporter));
    CHECK(!s.all.own(kId, kExporter).has_value());
  }
}

TEST_CASE("memory stays until all users are away, and comes again with its contents") {
  Shares s;
  CHECK(s.offer(kExporter).has_value());
  CHECK(s.want(kImporter) == State::There);
  s.all.away(kId, kExporter);
  CHECK(s.want(kExporter, true) == State::There);
  s.all.away(kId, kExporter);
  s.all.away(kId, kImporter);
  CHECK(s.want(kImporter, true) == State::Pending);
  s.all.loaded(kId, kExporter);  // without memory
  CHECK(s.want(kImporter, true) == State::Pending);
  CHECK(s.offer(kExporter, true, false).has_value());
  CHECK(s.want(kImporter, true) == State::Pending);
  s.all.loaded(kId, kImporter);
  CHECK(s.want(kImporter, true) == State::Pending);
  s.all.loaded(kId, kExporter);
  CHECK(s.want(kImporter, true) == State::There);
}

TEST_CASE("contents are lost with an owner that ends or leaves while no one has the memory") {
  for (bool killed : {false, true}) {
    Shares s;
    CHECK(s.offer(kExporter).has_value());
    CHECK(s.want(kImporter) == State::There);
    s.all.away(kId, kImporter);
    s.all.away(kId, kExporter);
    s.leave(kExporter, killed);
    CHECK(s.want(kImporter, true) == State::Lost);
  }
}

TEST_CASE("a user that was killed does not keep memory from going away") {
  Shares s;
  CHECK(s.offer(kExporter).has_value());
  CHECK(s.want(kImporter) == State::There);
  s.ended.insert(kImporter.token);
  s.all.away(kId, kExporter);
  CHECK(s.want(kExporter, true) == State::Pending);
}

TEST_CASE("an owner that loads the memory and ends leaves it to those that come later") {
  for (bool killed : {false, true}) {
    Shares s;
    CHECK(s.offer(kExporter).has_value());
    CHECK(s.want(kImporter) == State::There);
    s.all.away(kId, kImporter);
    s.all.away(kId, kExporter);
    CHECK(s.offer(kExporter, true, false).has_value());
    s.all.away(kId, kImporter);
    s.all.loaded(kId, kExporter);
    s.leave(kExporter, killed);
    CHECK(s.want(kOther) == State::Unknown);
    CHECK(s.want(kImporter, true) == State::There);
    CHECK(*s.all.own(kId, kImporter));
  }
}

TEST_CASE("a new keeper keeps the memory for processes that wait for it") {
  for (bool offered_first : {false, true}) {
    Shares s;
    if (!offered_first) s.all.away(kId, kImporter);
    CHECK(s.offer(kExporter, true, false).has_value());
    if (offered_first) s.all.away(kId, kImporter);
    s.all.loaded(kId, kExporter);
    s.ended.insert(kExporter.token);
    CHECK(s.want(kImporter, true) == State::There);
  }
  Shares s;
  s.all.away(kId, kImporter);
  CHECK(s.want(kImporter, true) == State::Lost);
}

TEST_CASE("a process that waits for a piece takes bounded memory in the keeper") {
  Shares s;
  for (u64 i = 0; i < 10000; i++) s.all.away({3, i}, kImporter);
  CHECK(!s.offer(kExporter).has_value());
  s.all.ended(kImporter.token);
  CHECK(s.offer(kExporter).has_value());
  s.all.ended(kExporter.token);
  CHECK(s.want(kExporter, true) == State::Unknown);
}

TEST_CASE("memory goes when its last user has gone away, and with all its users") {
  std::mt19937 random(7);
  auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int history = 0; history < 300; history++) {
    Shares s;
    const DeviceShares::User users[] = {kExporter, kImporter, kOther};
    enum class Has { No, Yes, Away } has[3] = {Has::Yes, Has::No, Has::No};
    bool memory = true;
    CHECK(s.offer(kExporter).has_value());
    auto none = [&](Has what) { return std::ranges::find(has, what) == std::end(has); };
    for (int step = 0; step < 30; step++) {
      int i = below(3);
      if (none(Has::Yes) && none(Has::Away)) break;
      switch (below(4)) {
        case 0:
          if (has[i] == Has::No) break;
          CHECK((s.want(users[i], true) == State::There) == memory);
          if (memory) has[i] = Has::Yes;
          break;
        case 1:
          if (s.want(users[i]) == State::There) {
            CHECK(memory);
            has[i] = Has::Yes;
          }
          break;
        case 2:
          if (has[i] == Has::No) break;
          s.all.away(kId, users[i]);
          if (std::exchange(has[i], Has::Away) == Has::Yes && none(Has::Yes)) memory = false;
          break;
        default:
          if (below(2) == 0)
            s.ended.insert(users[i].token);
          else
            s.all.done(kId, users[i]);
          if (s.ended.contains(users[i].token)) step = 30;
          has[i] = Has::No;
      }
    }
  }
}
