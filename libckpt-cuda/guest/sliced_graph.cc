// SPDX-License-Identifier: Apache-2.0
//
// The problem. cuGraphLaunch gives the device all nodes of a graph at once: nothing can happen
// between two of its kernels, and none of them can be cut.
//
// How it works. When the driver has made an executable graph, a copy of the original graph is kept,
// the mirror, and each later change of the executable graph is made to the mirror as well. A launch
// sends the work of the nodes, one after the other in an order that the edges allow, into the
// program's stream, with the calls that do the same outside of a graph. Kernels become slices, as
// in any other launch. A copy from or to pageable memory has no such call, so it stays a graph of
// one node (graph_plan.cc).
//
// Example: copy -> kernel a -> kernel c, copy -> kernel b -> kernel c is launched as
//
//     cuMemcpy3DAsync, the slices of a, the slices of b, the slices of c
//
// What must stay as it was. A launch begins when the last launch of the same executable graph has
// ended, whichever stream that was in (CUDA driver API, cuGraphLaunch): an event at the end of each
// launch sees to it. No other launch comes between two nodes: the thread holds the StreamOrder of
// the stream. A launch into a stream that is captured becomes a child node, so the driver does it.
// While any stream is captured, launches run whole, because the calls that measure slices could
// invalidate the capture (cuThreadExchangeStreamCaptureMode).
//
// What is lost. Branches of the graph do not run side by side, and cuGraphLaunch blocks as a launch
// of a long kernel does (sliced_launch.cc).
//
// Where a change cannot be followed, the executable graph runs whole from then on, by the driver,
// which is always right.
#include "libckpt-cuda/guest/sliced_graph.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "libckpt-cuda/entry/streams.h"
#include "libckpt-cuda/guest/context_tools.h"
#include "libckpt-cuda/guest/graph_plan.h"
#include "libckpt-cuda/guest/sliced_launch.h"
#include "libckpt-cuda/guest/stream_order.h"

namespace ckpt::cuda::guest {
namespace {

// An executable graph that had a mirror when it was made. Without one it runs whole, but its
// launches still wait for those before.
class SlicedGraph {
 public:
  explicit SlicedGraph(std::unique_ptr<GraphMirror> mirror) : mirror_(std::move(mirror)) {}

  void follow(const std::function<bool(GraphMirror &)> &change) {
    std::lock_guard lock(mutex_);
    plan_.reset();
    if (mirror_ && !change(*mirror_)) run_whole("a change of it cannot be followed");
  }

  // It is not documented whether nodes that were disabled are so afterwards.
  void update(CUgraph graph) {
    std::lock_guard lock(mutex_);
    plan_.reset();
    if (!mirror_) return;
    if (!mirror_->all_enabled()) return run_whole("it was updated while nodes were disabled");
    retire_mirror();
    mirror_ = GraphMirror::make(graph);
  }

  // Null: the next launch is to run whole.
  std::shared_ptr<const GraphPlan> plan(CUcontext context) {
    std::lock_guard lock(mutex_);
    if (!mirror_) return nullptr;
    if (!plan_ && !(plan_ = GraphPlan::of(*mirror_)))
      run_whole("the driver does not say what it does");
    if (!plan_ || plan_->belongs_to(context)) return plan_;
    name_whole_graph("its kernels belong to another context than the stream");
    return nullptr;
  }

  CUresult wait_for_last_launch(CUstream stream) {
    std::lock_guard lock(mutex_);
    if (!end_ && old_.empty()) return CUDA_SUCCESS;
    return driver().cuStreamWaitEvent(stream, (end_ ? *end_ : old_.back().end).get(), 0);
  }

  CUresult note_end(ContextTools &tools, CUstream stream) {
    std::lock_guard lock(mutex_);
    if (tools_ != &tools) end_.reset();
    if (!end_) end_.emplace(tools);
    tools_ = &tools;
    return driver().cuEventRecord(end_->get(), stream);
  }

  // Launches end in their order, so the last one tells.
  bool running() {
    std::lock_guard lock(mutex_);
    if (end_) return is_running(*end_);
    return !old_.empty() && is_running(old_.back().end);
  }

 private:
  // The mirror of launches that may still run. It holds the user objects of its graph, which host
  // functions may use (CUDA programming guide, "CUDA User Objects"), so it must outlive them.
  struct Old {
    std::unique_ptr<GraphMirror> mirror;
    PooledEvent end;
  };

  static bool is_running(const PooledEvent &end) {
    return driver().cuEventQuery(end.get()) == CUDA_ERROR_NOT_READY;
  }

  void run_whole(const char *why) {
    name_whole_graph(why);
    retire_mirror();
  }

  void retire_mirror() {
    while (!capturing() && !old_.empty() && !is_running(old_.front().end)) old_.pop_front();
    if (end_) old_.push_back({std::move(mirror_), std::move(*end_)});
    end_.reset();
    mirror_.reset();
  }

  std::mutex mutex_;
  std::unique_ptr<GraphMirror> mirror_;    // once null, it stays so, as it has missed changes
  std::shared_ptr<const GraphPlan> plan_;  // null after a change
  ContextTools *tools_ = nullptr;
  std::optional<PooledEvent> end_;  // of the last launch, in the context of tools_
  std::deque<Old> old_;
};

using GraphPointer = std::shared_ptr<SlicedGraph>;

// Never destroyed, as the tables of kernels.cc.
struct Executables {
  std::mutex mutex;
  std::unordered_map<CUgraphExec, GraphPointer> live;
  std::vector<GraphPointer> ending;  // destroyed by the program while the last launch runs
};
Executables &executables() {
  static auto *const kExecutables = new Executables;
  return *kExecutables;
}

GraphPointer find(CUgraphExec exec) {
  Executables &all = executables();
  std::lock_guard lock(all.mutex);
  auto it = all.live.find(exec);
  return it == all.live.end() ? nullptr : it->second;
}

// The caller drops what is returned when it has left the mutex, because that may call functions of
// the program: the destructors of user objects.
std::vector<GraphPointer> take_ended(Executables &all) {
  if (capturing()) return {};
  auto running = std::partition(all.ending.begin(), all.ending.end(),
                                [](const GraphPointer &g) { return !g->running(); });
  std::vector<GraphPointer> ended(std::make_move_iterator(all.ending.begin()),
                                  std::make_move_iterator(running));
  all.ending.erase(all.ending.begin(), running);
  return ended;
}

CUresult launch_nodes(SlicedGraph &graph, CUcontext context, CUstream stream,
                      const std::function<CUresult()> &whole) {
  if (capturing()) return whole();
  std::shared_ptr<const GraphPlan> plan = graph.plan(context);
  return plan ? plan->launch(stream) : whole();
}

CUresult launch_ordered(SlicedGraph &graph, CUcontext context, CUstream stream,
                        const std::function<CUresult()> &whole) {
  CurrentContext in(context);
  ContextTools *tools = context_tools();
  if (in.status() != CUDA_SUCCESS || tools == nullptr) return whole();
  StreamOrder order(*tools, stream);
  if (CUresult e = graph.wait_for_last_launch(stream); e != CUDA_SUCCESS) return e;
  if (CUresult e = launch_nodes(graph, context, stream, whole); e != CUDA_SUCCESS) return e;
  return graph.note_end(*tools, stream);
}

}  // namespace

void note_executable(CUgraphExec exec, CUgraph graph, unsigned long long flags) {
  std::unique_ptr<GraphMirror> mirror = GraphMirror::make(graph);
  if (mirror && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
    name_whole_graph("kernels may launch it");
    mirror.reset();
  }
  std::vector<GraphPointer> ended;
  Executables &all = executables();
  std::lock_guard lock(all.mutex);
  ended = take_ended(all);
  all.live.erase(exec);  // ended with its context, and the handle is used again
  if (mirror) all.live[exec] = std::make_shared<SlicedGraph>(std::move(mirror));
}

void note_update(CUgraphExec exec, CUgraph graph) {
  if (GraphPointer g = find(exec)) g->update(graph);
}

void forget_executable(CUgraphExec exec) {
  std::vector<GraphPointer> ended;
  Executables &all = executables();
  std::lock_guard lock(all.mutex);
  auto it = all.live.find(exec);
  if (it != all.live.end()) {
    all.ending.push_back(std::move(it->second));
    all.live.erase(it);
  }
  ended = take_ended(all);
}

void follow(CUgraphExec exec, const std::function<bool(GraphMirror &)> &change) {
  if (GraphPointer g = find(exec)) g->follow(change);
}

CUresult launch_graph(CUgraphExec exec, CUstream stream, const std::function<CUresult()> &whole) {
  GraphPointer graph = find(exec);
  if (!graph || is_capturing(stream)) return whole();
  CUcontext context = nullptr;
  if (graph_calls().cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) return whole();
  return launch_ordered(*graph, context, stream, whole);
}

}  // namespace ckpt::cuda::guest
