// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tools/schedd/node_kinds.h"

using namespace ckpt;
using namespace ckpt::tools;

namespace {

using Names = std::vector<std::string>;

std::string said(const Names &features, std::string_view constraint) {
  std::optional<bool> s = satisfies(features, constraint);
  return !s ? "not understood" : *s ? "yes" : "no";
}

QueueNode node(std::string name, Names features, Names partitions) {
  return {std::move(name), std::move(features), std::move(partitions), true, false, {}};
}

// By the first feature: "fast" is class 0, "slow" class 1.
std::optional<schedule::ClassIndex> class_of(const QueueNode &n) {
  if (n.features.empty()) return {};
  return n.features[0] == "fast" ? 0 : 1;
}

}  // namespace

TEST_CASE("constraints") {
  const Names node{"fast", "gpu", "rack1"};
  for (auto [text, answer] : {std::pair("", "yes"),
                              {"fast", "yes"},
                              {"slow", "no"},
                              {"fast&gpu", "yes"},
                              {"fast&gpu&big", "no"},
                              {"slow|gpu", "yes"},
                              {"slow|big", "no"},
                              {"(slow|fast)&gpu", "yes"},
                              {"fast&(big|(rack1&gpu))", "yes"},
                              {"fast&(big|(rack2&gpu))", "no"}}) {
    const std::string constraint = text, expected = answer;
    CAPTURE(constraint);
    CHECK(said(node, constraint) == expected);
  }
}

TEST_CASE("what a constraint may have beyond that is not understood") {
  for (const char *constraint :
       {"fast*2", "[rack1|rack2]", "fast,gpu", "fast&gpu|big", "fast|gpu&big", "(fast", "fast)",
        "fast&", "&fast", "()", "fast&[rack1*2&rack2*4]"}) {
    CAPTURE(constraint);
    CHECK(said({"fast", "gpu"}, constraint) == "not understood");
  }
  CHECK(said({"a"}, std::string(100'000, '(') + "a") == "not understood");
}

TEST_CASE("nodes of one kind may be used by the same jobs") {
  const std::vector<QueueNode> nodes{node("n1", {"fast"}, {"low", "high"}),
                                     node("n2", {"fast", "gpu"}, {"low"}),
                                     node("n3", {"slow"}, {"low"}),
                                     node("n4", {"slow"}, {}),
                                     node("n5", {}, {"low"}),
                                     node("n6", {"fast"}, {"high", "low"})};
  const Demands any{}, low{{"low"}, {}, ""}, high{{"other", "high"}, {}, ""},
      not_n6{{}, {"n6"}, ""}, gpu{{"low"}, {}, "gpu"}, counted{{}, {}, "fast*2"};
  const NodeKinds kinds(nodes, class_of, {any, low, high, not_n6, gpu, counted});
  auto kind = [&](const char *name) {
    std::optional<Kind> k = kinds.of(name);
    REQUIRE(k);
    return *k;
  };
  CHECK(kinds.count() == 5);  // n6 differs from n1 only for the job that excludes it
  CHECK_FALSE(kinds.of("n5"));
  CHECK_FALSE(kinds.of("n7"));
  CHECK(kinds.class_of(kind("n1")) == 0);
  CHECK(kinds.class_of(kind("n3")) == 1);
  auto may = [&](const Demands &d) {
    std::string names;
    for (const QueueNode &n : nodes)
      if (std::optional<Kind> k = kinds.of(n.name); k && kinds.allowed(kinds.number_of(d), *k))
        names += n.name;
    return names;
  };
  CHECK(may(any) == "n1n2n3n4n6");
  CHECK(may(low) == "n1n2n3n6");
  CHECK(may(high) == "n1n6");
  CHECK(may(not_n6) == "n1n2n3n4");
  CHECK(may(gpu) == "n2");
  CHECK(may(counted) == "");
  CHECK(kinds.has_place_for(kinds.number_of(any), 1));
  CHECK_FALSE(kinds.has_place_for(kinds.number_of(any), 2));  // of no kind are there two
  CHECK_FALSE(kinds.has_place_for(kinds.number_of(counted), 1));
}

TEST_CASE("without demands, a class is one kind") {
  const NodeKinds kinds(
      {node("n1", {"fast"}, {"a"}), node("n2", {"fast"}, {"b"}), node("n3", {"slow"}, {})},
      class_of, {Demands{}});
  CHECK(kinds.count() == 2);
  CHECK(kinds.has_place_for({}, 2));
  CHECK_FALSE(kinds.has_place_for({}, 3));
}

// Each user can exclude other nodes, and each kind costs memory for each job.
TEST_CASE("exclusions make a bounded number of kinds") {
  std::vector<QueueNode> nodes;
  std::set<Demands> demands{Demands{}};
  for (size_t i = 0; i < 2 * NodeKinds::kMost; i++) {
    const std::string name = "n" + std::to_string(i);
    nodes.push_back(node(name, {"fast"}, {}));
    if (i + 1 < NodeKinds::kMost) demands.insert({{}, {name}, ""});
  }
  NodeKinds kinds(nodes, class_of, demands);
  CHECK(kinds.count() == NodeKinds::kMost);
  CHECK_FALSE(kinds.are_too_many());
  for (const QueueNode &n : nodes) demands.insert({{}, {n.name}, ""});
  kinds = NodeKinds(nodes, class_of, demands);
  CHECK(kinds.are_too_many());
  CHECK(kinds.count() <= NodeKinds::kMost + 1);
}
