// SPDX-License-Identifier: Apache-2.0
#include "tools/top/graph.h"

#include <doctest/doctest.h>

using namespace ckpt::tools;
using nlohmann::json;

namespace {

constexpr auto kMemory = UsageGraph::Of::Memory, kKernels = UsageGraph::Of::Kernels;

json gpu(const char *uuid, unsigned total, unsigned free) {
  return {{"uuid", uuid}, {"total_bytes", total}, {"free_bytes", free}};
}

json busy(double utilization) {
  return {{"uuid", "A"}, {"total_bytes", 100}, {"utilization", utilization}};
}

json status(const std::vector<json> &gpus) { return {{"gpus", gpus}}; }

}  // namespace

TEST_CASE("each refresh is a bar, the newest at the right") {
  UsageGraph graph(true), plain(false);
  for (unsigned used : {0u, 50u, 100u}) {
    graph.add(status({gpu("A", 100, 100 - used), gpu("B", 100, 100)}));
    plain.add(status({gpu("A", 100, 100 - used)}));
  }
  CHECK(graph.line("A", kMemory, 80) == "▁▅█");
  CHECK(graph.line("B", kMemory, 80) == "▁▁▁");
  CHECK(graph.line("A", kMemory, 2) == "▅█");
  CHECK(plain.line("A", kMemory, 80) == "_=#");
  CHECK(graph.line("C", kMemory, 80).empty());
}

TEST_CASE("a GPU has bars for kernels where its driver reports how busy it is") {
  UsageGraph graph(false);
  graph.add(status({gpu("A", 100, 100)}));
  CHECK(graph.line("A", kKernels, 80).empty());
  for (double share : {0.0, 0.5, 1.0}) graph.add(status({busy(share)}));
  CHECK(graph.line("A", kKernels, 80) == " _=#");
  graph.add(status({gpu("A", 100, 100)}));
  CHECK(graph.line("A", kKernels, 80) == " _=# ");
  CHECK(graph.line("A", kKernels, 1).empty());
}

TEST_CASE("a GPU that has gone is forgotten") {
  UsageGraph graph(false);
  graph.add(status({gpu("A", 100, 0)}));
  graph.add(status({}));
  graph.add(status({gpu("A", 100, 100)}));
  CHECK(graph.line("A", kMemory, 80) == "_");
}

TEST_CASE("a status of any content makes a bounded graph") {
  UsageGraph graph(false);
  graph.add(json(3));
  graph.add({{"gpus",
              {3,
               nullptr,
               json::object(),
               {{"uuid", "A"}, {"total_bytes", -1}, {"utilization", -1e300}}}}});
  CHECK(graph.line("A", kMemory, 80) == "_");
  CHECK(graph.line("A", kKernels, 80) == "_");
  graph.add(status({busy(1e300)}));
  CHECK(graph.line("A", kKernels, 80) == "_#");
  for (int i = 0; i < 3000; i++) graph.add(status({gpu("A", 100, 200), gpu("A", 100, 0)}));
  CHECK(graph.line("A", kMemory, 5000).size() == 1000);
  CHECK(graph.line("A", kMemory, 3) == "___");
}
