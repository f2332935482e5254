// SPDX-License-Identifier: Apache-2.0
//
// The launch of an executable graph. "Each launch is ordered behind any previous launches of the
// executable graph" (CUDA driver API, cuGraphLaunch): an event at the end of a launch says so to
// the next one, which may be in another stream.
#include "remote/cuda/client/code/launches.h"
#include "remote/cuda/client/copies/detours.h"
#include "remote/cuda/client/graphs/executable_graph.h"

namespace ckpt::remote::cuda {
namespace {

CUresult launch_kernel(const KernelWork &k, CUstream stream) {
  CUlaunchConfig c{k.grid[0],
                   k.grid[1],
                   k.grid[2],
                   k.block[0],
                   k.block[1],
                   k.block[2],
                   k.shared,
                   stream,
                   const_cast<CUlaunchAttribute *>(k.attributes.data()),
                   static_cast<unsigned>(k.attributes.size())};
  return launch_packed(c, k.function, k.parameters);
}

// A driver launches a kernel only in a stream of its own context. So the default stream of that
// context executes it, and both streams wait for each other here.
CUresult launch_elsewhere(const KernelWork &k, CUstream stream) {
  if (!ledger().lives(k.context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (CUresult e = entry_cuStreamSynchronize(stream); e != CUDA_SUCCESS) return e;
  InContext in(k.context);
  if (CUresult e = launch_kernel(k, nullptr); e != CUDA_SUCCESS) return e;
  return entry_cuStreamSynchronize(nullptr);
}

class Launcher {
 public:
  Launcher(const Plan &plan, CUstream stream) : plan_(plan), stream_(stream) {}

  CUresult run(const Plan::Step &s) {
    type_ = s.type;
    return std::visit([&](const auto &work) { return run(work); }, *s.work);
  }

 private:
  CUresult run(const KernelWork &k) {
    return k.context == current_context() ? launch_kernel(k, stream_)
                                          : launch_elsewhere(k, stream_);
  }
  CUresult run(const CUDA_MEMCPY3D_v2 &c) { return copy_box(c, order()); }
  CUresult run(const CUDA_MEMSET_NODE_PARAMS_v1 &f) {
    return fill(f.dst, f.pitch, f.value, f.elementSize, f.width, f.height, order());
  }
  // The objects that the program has given to the graph live until the function has returned.
  CUresult run(const CUDA_HOST_NODE_PARAMS_v1 &h) {
    return call_host(stream_, [h, objects = plan_.objects] { h.fn(h.userData); });
  }
  CUresult run(const EventWork &e) {
    return type_ == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? entry_cuEventRecord(e.event, stream_)
                                                    : entry_cuStreamWaitEvent(stream_, e.event, 0);
  }
  CUresult run(const std::monostate &) { return CUDA_SUCCESS; }
  CUresult run(const std::shared_ptr<GraphMemory> &) { return CUDA_SUCCESS; }
  CUresult run(const FreeWork &) { return CUDA_SUCCESS; }

  Order order() const { return {number_of(stream_), true}; }

  const Plan &plan_;
  const CUstream stream_;
  CUgraphNodeType type_ = CU_GRAPH_NODE_TYPE_EMPTY;
};

CUresult wait_for_last_launch(const ExecutableGraph &e, CUstream stream) {
  bool same = e.last_stream == number_of(stream) && stream != CU_STREAM_PER_THREAD;
  return e.ended && !same ? wait_for_event(stream, e.ended, 0) : CUDA_SUCCESS;
}

// The event ends with its context.
void forget_end(ExecutableGraph &e) {
  if (!e.ended) return;
  InContext in(e.ended_context);
  if (ledger().lives(number_of(e.ended))) (void)entry_cuEventDestroy_v2(e.ended);
  e.ended = nullptr;
}

CUresult note_end(ExecutableGraph &e, CUstream stream) {
  if (e.ended_context != current_context()) forget_end(e);
  e.last_stream = number_of(stream);
  e.ended_context = current_context();
  if (!e.ended)
    if (CUresult r = entry_cuEventCreate(&e.ended, CU_EVENT_DISABLE_TIMING); r != CUDA_SUCCESS)
      return r;
  return send_cuEventRecord(e.ended, stream);
}

}  // namespace

ExecutableGraph::~ExecutableGraph() { forget_end(*this); }

CUresult launch_plan(ExecutableGraph &e, const Plan &plan, CUstream stream) {
  InContext in(context_of_stream(number_of(stream)));
  bool automatic = (e.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  if (CUresult r = use_graph_memory(plan.memory, automatic); r != CUDA_SUCCESS) return r;
  if (!ledger().lives(number_of(e.ended))) forget_end(e);
  if (CUresult r = wait_for_last_launch(e, stream); r != CUDA_SUCCESS) return r;
  Launcher launcher(plan, stream);
  for (const Plan::Step &s : plan.steps)
    if (CUresult r = launcher.run(s); r != CUDA_SUCCESS) return r;
  return note_end(e, stream);
}

}  // namespace ckpt::remote::cuda
