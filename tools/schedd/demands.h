// SPDX-License-Identifier: Apache-2.0
//
// What a job asks of each of its nodes: sbatch --partition, --exclude and --constraint.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace ckpt::tools {

struct Demands {
  std::vector<std::string> partitions;  // one of them; none: any
  std::vector<std::string> excluded;    // nodes, sorted
  std::string constraint;               // "fast", "fast&(gpu|big)"; "": none

  friend bool operator<(const Demands &a, const Demands &b) {
    return std::tie(a.partitions, a.excluded, a.constraint) <
           std::tie(b.partitions, b.excluded, b.constraint);
  }
};

// Whether a node with these features satisfies the constraint: names, joined by & or | (both only
// with parentheses), and parentheses. No value: the constraint has more than that, such as counts
// ("fast*2"), alternatives that hold for all nodes of a job ("[a|b]"), or commas.
std::optional<bool> satisfies(const std::vector<std::string> &features,
                              std::string_view constraint);

}  // namespace ckpt::tools
