// SPDX-License-Identifier: Apache-2.0
//
// The beginning and the end of stream captures, and what a program can ask of them.
#include <algorithm>

#include "remote/cuda/client/graphs/capture.h"
#include "remote/cuda/client/graphs/nodes.h"
#include "remote/cuda/client/graphs/recording.h"

namespace ckpt::remote::cuda {
namespace {

// `g`: a graph of the program, or nullptr for a new one. The lock is held.
CUresult begin(Live &all, u64 stream, Graph *g, const std::vector<Edge> &last,
               CUstreamCaptureMode mode) {
  static u64 last_id = 0;
  StreamKey key = recordings().key(stream);
  if (recordings().of(key)) return CUDA_ERROR_ILLEGAL_STATE;
  auto r = std::make_shared<Recording>();
  r->own_graph = !g;
  r->graph = g ? g->shared_from_this() : std::make_shared<Graph>();
  r->graph->capturing = true;
  if (!g) all.publish(r->graph);
  r->id = ++last_id;
  r->thread = thread_number();
  r->mode = mode;
  r->origin = key;
  recordings().join(r, key, context_of_stream(stream), last);
  return CUDA_SUCCESS;
}

CUresult check_begin(u64 stream, CUstreamCaptureMode mode) {
  if (CUresult e = check_stream(stream); e != CUDA_SUCCESS) return e;
  if (stream <= number_of(CU_STREAM_LEGACY)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return mode <= CU_STREAM_CAPTURE_MODE_RELAXED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// The recording's streams work again. The graph is the program's, or ends with an error.
CUresult end(Live &all, Recording &r, CUgraph *out) {
  CUresult e = r.invalid      ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
               : r.unjoined() ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                              : CUDA_SUCCESS;
  if (e != CUDA_SUCCESS) {
    recordings().abandon(all, r);
    return e;
  }
  recordings().end(r);
  *out = handle(r.graph.get());
  return e;
}

// f(recording, part) of the stream
template <class F>
CUresult with_recording(CUstream stream, F f) {
  u64 number = number_of(stream);
  if (CUresult e = check_stream(number); e != CUDA_SUCCESS) return e;
  return with_graphs([&](Live &all) {
    StreamKey key = recordings().key(number);
    std::shared_ptr<Recording> r = recordings().of(key);
    return f(all, r.get(), r ? &r->parts[key] : nullptr);
  });
}

struct Info {
  cuuint64_t *id = nullptr;
  CUgraph *graph = nullptr;
  const CUgraphNode **nodes = nullptr;
  const CUgraphEdgeData **data = nullptr;
  size_t *count = nullptr;
};

void write_info(const Recording &r, Recording::Part &p, const Info &out) {
  p.last_nodes.clear();
  p.last_data.clear();
  for (const Edge &e : p.last) {
    p.last_nodes.push_back(handle(e.from));
    p.last_data.push_back(e.data);
  }
  if (out.id) *out.id = r.id;
  if (out.graph) *out.graph = handle(r.graph.get());
  if (out.nodes) *out.nodes = p.last_nodes.data();
  if (out.data) *out.data = p.last_data.data();
  if (out.count) *out.count = p.last.size();
}

CUstreamCaptureStatus status_of(const Recording *r) {
  if (!r) return CU_STREAM_CAPTURE_STATUS_NONE;
  return r->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult get_info(CUstream stream, CUstreamCaptureStatus *status, const Info &out) {
  return with_recording(stream, [&](Live &, Recording *r, Recording::Part *p) {
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    constexpr CUgraphEdgeData kDefault{};
    auto is_default = [&](const Edge &e) {
      return std::memcmp(&e.data, &kDefault, sizeof kDefault) == 0;
    };
    if (r && out.nodes && !out.data && !std::ranges::all_of(p->last, is_default))
      return CUDA_ERROR_LOSSY_QUERY;
    *status = status_of(r);
    if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) write_info(*r, *p, out);
    return CUDA_SUCCESS;
  });
}

CUresult update_last(CUstream stream, const CUgraphNode *nodes, const CUgraphEdgeData *data,
                     size_t n, unsigned flags) {
  return with_recording(stream, [&](Live &all, Recording *r, Recording::Part *p) {
    if (!r) return CUDA_ERROR_ILLEGAL_STATE;
    if (r->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Edge> edges;
    if (CUresult e = edges_from(all, *r->graph, nodes, data, n, edges); e != CUDA_SUCCESS) return e;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) p->last.clear();
    add_edges(p->last, edges);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult entry_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  if (CUresult e = check_begin(number_of(stream), mode); e != CUDA_SUCCESS) return e;
  return with_graphs([&](Live &all) { return begin(all, number_of(stream), nullptr, {}, mode); });
}
CUresult entry_cuStreamBeginCapture(CUstream stream) {
  return entry_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult entry_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                           const CUgraphEdgeData *data, size_t n,
                                           CUstreamCaptureMode mode) {
  if (CUresult e = check_begin(number_of(stream), mode); e != CUDA_SUCCESS) return e;
  return with_graphs([&](Live &all) {
    Graph *g = all.graph(graph);
    if (!g || g->capturing) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Edge> last;
    if (CUresult e = edges_from(all, *g, after, data, n, last); e != CUDA_SUCCESS) return e;
    return begin(all, number_of(stream), g, last, mode);
  });
}

CUresult entry_cuStreamEndCapture(CUstream stream, CUgraph *out) {
  return with_recording(stream, [&](Live &all, Recording *r, Recording::Part *) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    if (!r) return CUDA_ERROR_ILLEGAL_STATE;
    if (r->origin != recordings().key(number_of(stream)))
      return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (r->mode != CU_STREAM_CAPTURE_MODE_RELAXED && r->thread != thread_number())
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return end(all, *r, out);
  });
}

CUresult entry_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  return get_info(stream, status, {});
}
CUresult entry_cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status,
                                      cuuint64_t *id) {
  return get_info(stream, status, {id});
}
CUresult entry_cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                                         cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
                                         size_t *count) {
  return get_info(stream, status, {id, graph, nodes, nullptr, count});
}
CUresult entry_cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status,
                                         cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
                                         const CUgraphEdgeData **data, size_t *count) {
  return get_info(stream, status, {id, graph, nodes, data, count});
}

CUresult entry_cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t n,
                                                 unsigned flags) {
  return update_last(stream, nodes, nullptr, n, flags);
}
CUresult entry_cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes,
                                                    const CUgraphEdgeData *data, size_t n,
                                                    unsigned flags) {
  return update_last(stream, nodes, data, n, flags);
}

// The mode says which calls that are potentially unsafe are refused while a stream captures. None
// is here: all that they do takes effect at once.
CUresult entry_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}

}  // namespace ckpt::remote::cuda
