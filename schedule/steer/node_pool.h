// SPDX-License-Identifier: Apache-2.0
//
// Which nodes are occupied, for one call of steer(). A node that is occupied stays so.
//
// Nodes of one class that have the same resources are looked at together, so that the cost of a
// search does not grow with the number of nodes.
#pragma once

#include <unordered_map>

#include "schedule/steer/steer.h"

namespace ckpt::schedule {

class NodePool {
 public:
  // `nodes` must outlive this object.
  NodePool(const std::vector<LiveNode> &nodes, size_t classes);

  size_t size() const { return nodes_.size(); }
  const LiveNode &operator[](size_t i) const { return nodes_[i]; }
  std::optional<size_t> find(const std::string &name) const;

  bool is_occupied(size_t i) const { return occupied_[i]; }
  void occupy(size_t i);
  bool has_free(ClassIndex c) const { return classes_[c].free > 0; }
  // The first `n` of a class that are not occupied; nothing if they are fewer.
  std::vector<size_t> first_free(ClassIndex c, unsigned n);
  // The first one that is not occupied and is large enough.
  std::optional<size_t> first_free(ClassIndex c, const Resources &needs);
  // Whether any node of the class is large enough, occupied or not.
  bool has_room(ClassIndex c, const Resources &needs) const;

 private:
  struct Nodes {
    std::vector<size_t> all;  // in order
    size_t begin = 0;         // none before it is free
  };
  struct Alike {
    Resources has;
    Nodes nodes;
  };
  struct Class {
    Nodes nodes;
    std::vector<Alike> alike;
    size_t free = 0;
  };
  void skip_occupied(Nodes &n) const;

  const std::vector<LiveNode> &nodes_;
  std::unordered_map<std::string_view, size_t> index_;
  std::vector<bool> occupied_;
  std::vector<Class> classes_;
};

}  // namespace ckpt::schedule
