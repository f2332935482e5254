// SPDX-License-Identifier: Apache-2.0
#include "common/base/topological_order.h"

namespace ckpt {
namespace {

enum class State : u8 { Unmet, Open, Placed };  // open: on the way to the current item

struct Step {
  u32 item;
  size_t next;  // dependency
};

}  // namespace

// A search in depth, along the dependencies of each item: so an item comes early if its number is
// low. To meet an open item again is a cycle.
std::optional<std::vector<u32>> topological_order(const std::vector<std::vector<u32>> &after) {
  std::vector<u32> order;
  std::vector<State> states(after.size(), State::Unmet);
  std::vector<Step> way;
  auto enter = [&](u32 item) {
    if (states[item] != State::Unmet) return;
    states[item] = State::Open;
    way.push_back({item, 0});
  };
  order.reserve(after.size());
  for (u32 root = 0; root < after.size(); ++root) {
    enter(root);
    while (!way.empty()) {
      Step &s = way.back();
      if (s.next < after[s.item].size()) {
        u32 before = after[s.item][s.next++];
        if (states[before] == State::Open) return std::nullopt;
        enter(before);
        continue;
      }
      order.push_back(s.item);
      states[s.item] = State::Placed;
      way.pop_back();
    }
  }
  return order;
}

}  // namespace ckpt
