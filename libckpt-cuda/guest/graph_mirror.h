// SPDX-License-Identifier: Apache-2.0
//
// What an executable graph executes. The driver says nothing of the nodes of an executable graph,
// so this is a copy of the graph that it was made from, which gets the same changes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "libckpt-cuda/guest/graph_nodes.h"

namespace ckpt::cuda::guest {

class GraphMirror {
 public:
  // Null: launches of such a graph run whole. Where that concerns kernels that could be cut, a
  // message says why.
  static std::unique_ptr<GraphMirror> make(CUgraph graph);
  GraphMirror(const GraphMirror &) = delete;
  ~GraphMirror();

  // Changes of a node. `original` is the program's: of the graph that this is a copy of, or of a
  // child graph of it. False: the change cannot be followed, so from now on launches run whole.
  bool change(CUgraphNode original, const std::function<CUresult(CUgraphNode)> &set);
  bool set_enabled(CUgraphNode original, bool enabled);
  bool set_child(CUgraphNode original, CUgraph child);

  // A copy, with its own nodes.
  CUgraph graph() const { return graph_; }
  bool enabled(CUgraphNode node) const { return !disabled_.contains(node); }
  // Of a node of type GRAPH.
  const GraphMirror &child(CUgraphNode node) const { return *children_.at(node); }
  bool all_enabled() const;

 private:
  GraphMirror() = default;
  static std::unique_ptr<GraphMirror> copy(CUgraph graph);
  bool copy_children(CUgraph graph);
  struct Place {
    GraphMirror *graph = nullptr;
    CUgraphNode node = nullptr;
  };
  Place find(CUgraphNode original);

  CUgraph graph_ = nullptr;
  std::map<CUgraphNode, std::unique_ptr<GraphMirror>> children_;
  std::set<CUgraphNode> disabled_;
};

// Logs once for each reason that graphs run whole.
void name_whole_graph(std::string_view why);

}  // namespace ckpt::cuda::guest
