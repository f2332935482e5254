// SPDX-License-Identifier: Apache-2.0
#include "schedule/steer/shared_tree.h"

#include <doctest/doctest.h>

#include <optional>
#include <random>

#include "schedule/steer/shared_nodes.h"

using namespace ckpt;
using namespace ckpt::schedule;

namespace {

struct Chance {
  explicit Chance(u32 seed) : random(seed) {}
  unsigned number(unsigned below) { return static_cast<unsigned>(random() % below); }
  Resources resources() { return {1 + number(8), number(3), static_cast<double>(number(3000))}; }
  std::mt19937 random;
};

// The nodes of a tree as a list.
SharedSummary best_of_all(const SharedTree &tree, size_t place) {
  if (tree.is_node(place)) return tree[place];
  return SharedSummary::best_of(best_of_all(tree, SharedTree::left(place)),
                                best_of_all(tree, SharedTree::right(place)));
}

bool are_equal(const SharedSummary &a, const SharedSummary &b) {
  return a.has.cores == b.has.cores && a.room.gpus == b.room.gpus &&
         a.room.megabytes == b.room.megabytes && a.later == b.later && a.until == b.until;
}

LiveJob sharing_job(u64 id, Chance &chance) {
  LiveJob j;
  j.id = id;
  j.run = {(1 + chance.number(500)) * kTicksPerSecond};
  j.sharing = SharingJob{{.memory_gb = chance.number(3000) / 10.0}, chance.resources()};
  if (!chance.number(9)) j.sharing->task.host_to_device_gb = chance.number(900) / 10.0;
  return j;
}

}  // namespace

TEST_CASE("a place of the tree knows the best of the nodes below it") {
  Chance chance(1);
  for (size_t count : {1, 2, 3, 8, 13}) {
    std::vector<size_t> nodes;
    for (size_t i = 0; i < count; i++) nodes.push_back(10 + 3 * i);
    SharedTree tree(nodes);
    for (unsigned change = 0; change < 100; change++) {
      const size_t node = nodes[chance.number(static_cast<unsigned>(count))];
      tree.set(node, {chance.resources(), chance.resources(),
                      static_cast<double>(chance.number(100)), chance.number(100)});
      for (size_t place = SharedTree::kRoot; !tree.is_node(place); place++)
        REQUIRE(are_equal(tree[place], best_of_all(tree, place)));
    }
    CHECK(tree.first_node(SharedTree::kRoot) == 10);
  }
}

// What the search for a place relies on.
TEST_CASE("no job ends on a shared node before the times that are counted in a cheaper way") {
  size_t later = 0, now = 0, longer = 0;
  for (u32 seed = 1; seed <= 2000; seed++) {
    Chance chance(seed);
    const std::vector<LiveNode> nodes = {{"n", 0, 0, {24, 6, 9000}}};
    SteerOptions options;
    options.shared = {Bandwidths{}};
    SharedNodes shared(nodes, 1, options);
    Resources used{0, 0, 0};
    bool runs = true;
    for (u64 id = 1 + chance.number(5); id > 0; id--) {
      const LiveJob j = sharing_job(id, chance);
      const Resources &n = j.sharing->needs;
      used = {used.cores + n.cores, used.gpus + n.gpus, used.megabytes + n.megabytes};
      runs = runs && used.fits_in(nodes[0].has) && chance.number(5);
      shared.add(0, id, *shared.sharer(j, 0, seconds_of(j.run[0]), runs));
    }
    const LiveJob j = sharing_job(100, chance);
    const Sharer s = *shared.sharer(j, 0, seconds_of(j.run[0]), false);
    const SharedSummary &summary = shared.tree(0)[SharedTree::kRoot];
    const bool fits = s.needs.fits_in(summary.room);
    const double first = ((fits ? 0 : summary.later) + s.seconds) * (1 - SharedNodes::kRounding);
    const double second = shared.earliest_end(0, s);
    CAPTURE(seed);
    REQUIRE(first <= second * (1 + SharedNodes::kRounding));
    const SharedNodes::Joined joined = shared.joined(0, s);
    REQUIRE(second <= joined.span.end);
    REQUIRE(shared.earliest_node_end(0, s) <= joined.node_end);
    longer += shared.earliest_node_end(0, s) > shared.end_of(0);
    later += !fits;
    now += fits;
  }
  CHECK(later > 100);
  CHECK(now > 100);
  CHECK(longer > 100);
}
