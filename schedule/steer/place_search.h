// SPDX-License-Identifier: Apache-2.0
//
// The place of a job on a node that is shared already, for one call of steer().
//
// A place must not occupy its node for so long that a job waits that was planned before: the
// calendar of the class must be idle from the end of the node's reservation to the node's new end.
//
// Algorithm. Of all places, the one with the earliest end is wanted, and of these the one on the
// first node. Candidates are stretches of nodes (SharedTree), single nodes, and nodes whose present
// neighbours are counted, each with a time before which the job does not end there. The candidate
// with the earliest time is taken out and looked at more closely: a stretch becomes its halves, a
// node gets a later time. The last look at a node is the contention model itself. The search ends
// when no candidate can be earlier than the best place so far. As no time is too late, the result
// is that of a model of all nodes.
//
// Candidates are dropped that fail what a place must satisfy even in the best case: the calendar
// must be idle from the latest end of a reservation in the stretch to the earliest end of the job,
// and at a node to the end that the node has at least with the job.
//
// Cost: a logarithm of the nodes for each node on which the job could end earlier than on the best
// one if it had no neighbours. These may be many: where jobs slow each other down, all nodes that
// have room are looked at.
#pragma once

#include <optional>
#include <queue>

#include "schedule/plan/cluster.h"
#include "schedule/steer/shared_nodes.h"

namespace ckpt::schedule {

// Where and when a job that may share its node would run.
struct Place {
  size_t node = 0;  // if it begins now, or beside others
  ClassIndex on = 0;
  Ticks begin = 0, end = 0;
  Ticks node_end = 0;  // of all jobs of the node
  bool beside = false;
};

class PlaceSearch {
 public:
  // Both must outlive this object.
  PlaceSearch(Ticks now, const Cluster &cluster, SharedNodes &shared)
      : now_(now), cluster_(cluster), shared_(shared) {}

  // Beside others, with an end by that time.
  std::optional<Place> first_beside(const LiveJob &j, Ticks by) const;
  // The same by a look at each node, for tests.
  std::optional<Place> first_of_all(const LiveJob &j, Ticks by) const;

  // A node that shows that a job could begin now beside others. What is planned later can only make
  // that false.
  struct Witness {
    ClassIndex on = 0;
    size_t node = 0;
    size_t jobs = 0;     // that the node had
    Ticks node_end = 0;  // not before it
  };
  std::optional<Witness> may_begin_now(const LiveJob &j, ClassIndex c) const;
  bool still_holds(const Witness &w) const;

 private:
  const Ticks now_;
  const Cluster &cluster_;
  SharedNodes &shared_;
};

}  // namespace ckpt::schedule
