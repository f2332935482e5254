// SPDX-License-Identifier: Apache-2.0
#include "tools/top/graph.h"

#include <doctest/doctest.h>

using namespace ckpt::tools;
using nlohmann::json;

namespace {

json gpu(const char *uuid, unsigned total, unsigned free) {
  return {{"uuid", uuid}, {"total_bytes", total}, {"free_bytes", free}};
}

json status(const std::vector<json> &gpus) { return {{"gpus", gpus}}; }

}  // namespace

TEST_CASE("each refresh is a bar, the newest at the right") {
  MemoryGraph graph(true), plain(false);
  for (unsigned used : {0u, 50u, 100u}) {
    graph.add(status({gpu("A", 100, 100 - used), gpu("B", 100, 100)}));
    plain.add(status({gpu("A", 100, 100 - used)}));
  }
  CHECK(graph.line("A", 80) == "▁▅█");
  CHECK(graph.line("B", 80) == "▁▁▁");
  CHECK(graph.line("A", 2) == "▅█");
  CHECK(plain.line("A", 80) == "_=#");
  CHECK(graph.line("C", 80).empty());
}

TEST_CASE("a GPU that has gone is forgotten") {
  MemoryGraph graph(false);
  graph.add(status({gpu("A", 100, 0)}));
  graph.add(status({}));
  graph.add(status({gpu("A", 100, 100)}));
  CHECK(graph.line("A", 80) == "_");
}

TEST_CASE("a status of any content makes a bounded graph") {
  MemoryGraph graph(false);
  graph.add(json(3));
  graph.add({{"gpus", {3, nullptr, json::object(), {{"uuid", "A"}, {"total_bytes", -1}}}}});
  CHECK(graph.line("A", 80) == "_");
  for (int i = 0; i < 3000; i++) graph.add(status({gpu("A", 100, 200), gpu("A", 100, 0)}));
  CHECK(graph.line("A", 5000).size() == 1000);
  CHECK(graph.line("A", 3) == "___");
}
