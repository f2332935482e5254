// SPDX-License-Identifier: Apache-2.0
//
// The work of a graph's nodes, in an order that the edges allow, as calls for a stream.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "libckpt-cuda/guest/graph_mirror.h"

namespace ckpt::cuda::guest {

class GraphPlan {
 public:
  // Null: the driver does not say what a node does. The mirror must not change while the plan is
  // used. The caller has made the context of the launch current.
  static std::shared_ptr<const GraphPlan> of(const GraphMirror &mirror);

  // Whether all kernels belong to this context: kernels are launched in streams of their own.
  bool belongs_to(CUcontext context) const;
  // The caller has passed the gate and holds the StreamOrder of the stream. A checkpoint may take
  // place meanwhile.
  CUresult launch(CUstream stream) const;

 private:
  using Step = std::function<CUresult(CUstream)>;
  bool append(const GraphMirror &mirror);
  bool append(const GraphMirror &mirror, CUgraphNode node);
  bool append_kernel(CUgraphNode node);
  bool append_copy(CUgraphNode node);
  bool append_fill(CUgraphNode node);
  bool append_host_function(CUgraphNode node);
  bool append_event(CUgraphNode node, bool record);

  std::vector<Step> steps_;
  std::set<CUcontext> contexts_;  // of the kernels
};

}  // namespace ckpt::cuda::guest
