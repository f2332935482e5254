// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/graphs/capture.h"

#include <algorithm>

#include "remote/cuda/client/graphs/graph_memory.h"
#include "remote/cuda/client/graphs/recording.h"
#include "remote/cuda/client/graphs/works.h"

namespace ckpt::remote::cuda {
namespace {

CUresult append(u64 stream, CUgraphNodeType type, WorkPointer work,
                std::shared_ptr<Graph> child = nullptr) {
  return with_graphs([&](Live &) {
    StreamKey key = recordings().key(stream);
    std::shared_ptr<Recording> r = recordings().of(key);
    if (!r) return CUDA_ERROR_ILLEGAL_STATE;
    return r->append(key, type, std::move(work), std::move(child));
  });
}

CUresult invalidate(Recording &r, CUresult e) {
  r.invalid = true;
  return e;
}

bool takes_part(const Recording &r, u64 context) {
  return std::ranges::any_of(r.parts, [&](const auto &p) { return p.second.context == context; });
}

template <class Parameters>
CUresult append_made(u64 stream, CUgraphNodeType type, const Parameters &p) {
  NewWork work;
  CUresult e = make_work(p, work);
  return e == CUDA_SUCCESS ? append(stream, type, std::move(work)) : e;
}

}  // namespace

bool stream_captures(u64 stream) {
  bool found = false;
  (void)with_graphs([&](Live &) {
    found = recordings().of(recordings().key(stream)) != nullptr;
    return CUDA_SUCCESS;
  });
  return found;
}

CUresult invalidate_capture(CUstream stream) {
  return with_graphs([&](Live &) {
    std::shared_ptr<Recording> r = recordings().of(recordings().key(number_of(stream)));
    if (r) r->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  });
}

CUresult capture_launch(const CUlaunchConfig &c, CUfunction f, void **parameters, void **extra) {
  NewWork work;
  if (CUresult e = make_work(c, f, parameters, extra, work); e != CUDA_SUCCESS) return e;
  return append(number_of(c.hStream), CU_GRAPH_NODE_TYPE_KERNEL, std::move(work));
}

CUresult capture_host(CUstream stream, const CUDA_HOST_NODE_PARAMS_v1 &p) {
  return append_made(number_of(stream), CU_GRAPH_NODE_TYPE_HOST, p);
}

CUresult capture_child(CUstream stream, const Graph &g) {
  return append(number_of(stream), CU_GRAPH_NODE_TYPE_GRAPH, nullptr, g.copy());
}

CUresult capture_allocation(CUstream stream, u64 bytes, CUdeviceptr *out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<GraphMemory> m;
  CUresult e = allocate_for_graph(context_of_stream(number_of(stream)), bytes, m);
  if (e != CUDA_SUCCESS) return e;
  CUdeviceptr address = address_of(*m);
  e = append(number_of(stream), CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::make_shared<Work>(std::move(m)));
  if (e == CUDA_SUCCESS) *out = address;
  return e;
}

CUresult capture_free(CUstream stream, CUdeviceptr p) {
  if (!is_graph_memory(p)) return CUDA_ERROR_INVALID_VALUE;
  return append(number_of(stream), CU_GRAPH_NODE_TYPE_MEM_FREE,
                std::make_shared<Work>(FreeWork{p}));
}

namespace {

class CopyRecorder final : public Recorder {
 public:
  bool records(u64 stream) override { return stream_captures(stream); }
  CUresult copy(u64 stream, bool waits, u64 to, u64 from, u64 bytes) override {
    return copy_box(stream, waits, linear_copy(to, from, bytes));
  }
  CUresult copy_box(u64 stream, bool waits, const CUDA_MEMCPY3D &p) override {
    if (waits) return invalidate_capture(reinterpret_cast<CUstream>(stream));
    return append_made(stream, CU_GRAPH_NODE_TYPE_MEMCPY, p);
  }
  CUresult fill(u64 stream, bool waits, const CUDA_MEMSET_NODE_PARAMS_v1 &p) override {
    if (waits) return invalidate_capture(reinterpret_cast<CUstream>(stream));
    return append_made(stream, CU_GRAPH_NODE_TYPE_MEMSET, p);
  }
};

}  // namespace

Recorder &copy_recorder() {
  static CopyRecorder recorder;
  return recorder;
}

// Without a capture, the event's record of an earlier one is replaced.
std::optional<CUresult> captured_record(CUevent event, CUstream stream, bool as_node) {
  NewWork work;
  if (CUresult e = make_work(event, work); e != CUDA_SUCCESS) return e;
  std::optional<CUresult> result;
  CUresult failed = with_graphs([&](Live &) {
    StreamKey key = recordings().key(number_of(stream));
    std::shared_ptr<Recording> r = recordings().of(key);
    if (!r)
      recordings().forget_event(event);
    else if (r->invalid)
      result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (r->parts[key].context != ledger().context_of(number_of(event)))
      result = CUDA_ERROR_INVALID_HANDLE;
    else if (as_node)
      result = r->append(key, CU_GRAPH_NODE_TYPE_EVENT_RECORD, std::move(work), nullptr);
    else
      recordings().note_event(event, {r, r->parts[key].last}), result = CUDA_SUCCESS;
    return CUDA_SUCCESS;
  });
  return failed != CUDA_SUCCESS ? failed : result;
}

namespace {

// The stream takes part from now on.
CUresult join(const StreamKey &key, const CapturedEvent &event) {
  const std::shared_ptr<Recording> &r = event.recording;
  std::shared_ptr<Recording> other = recordings().of(key);
  if (r->ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (r->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (key.number <= number_of(CU_STREAM_LEGACY))
    return invalidate(*r, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  if (other && other != r) {
    other->invalid = true;
    return invalidate(*r, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  recordings().join(r, key, context_of_stream(key.number), event.last);
  return CUDA_SUCCESS;
}

}  // namespace

std::optional<CUresult> captured_wait(CUstream stream, CUevent event, bool as_node) {
  NewWork work;
  if (CUresult e = check_stream(number_of(stream)); e != CUDA_SUCCESS) return e;
  if (CUresult e = make_work(event, work); e != CUDA_SUCCESS) return e;
  std::optional<CUresult> result;
  CUresult failed = with_graphs([&](Live &) {
    StreamKey key = recordings().key(number_of(stream));
    std::shared_ptr<Recording> r = recordings().of(key);
    if (r && as_node)
      result = r->append(key, CU_GRAPH_NODE_TYPE_WAIT_EVENT, std::move(work), nullptr);
    else if (const CapturedEvent *e = recordings().event(event))
      result = join(key, *e);
    else if (r)
      result = invalidate(*r, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    return CUDA_SUCCESS;
  });
  return failed != CUDA_SUCCESS ? failed : result;
}

CUresult check_event(CUevent event) {
  if (!events_captured.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  return with_graphs([&](Live &) {
    const CapturedEvent *e = recordings().event(event);
    return e ? invalidate(*e->recording, CUDA_ERROR_CAPTURED_EVENT) : CUDA_SUCCESS;
  });
}

CUresult check_context(u64 context) {
  if (!streams_capture.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  return with_graphs([&](Live &) {
    CUresult result = CUDA_SUCCESS;
    for (const std::shared_ptr<Recording> &r : recordings().all())
      if (takes_part(*r, context)) result = invalidate(*r, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return result;
  });
}

void forget_captured_event(CUevent event) {
  if (!events_captured.load(std::memory_order_relaxed)) return;
  (void)with_graphs([&](Live &) {
    recordings().forget_event(event);
    return CUDA_SUCCESS;
  });
}

// Without its first stream a recording cannot be ended by the program. What another stream has
// recorded stays: by CUDA, a stream may be destroyed once it was joined again, and the end of the
// capture says whether it was.
void forget_capturing_stream(CUstream stream) {
  if (!streams_capture.load(std::memory_order_relaxed)) return;
  (void)with_graphs([&](Live &all) {
    StreamKey key = recordings().key(number_of(stream));
    std::shared_ptr<Recording> r = recordings().of(key);
    if (!r) return CUDA_SUCCESS;
    if (r->origin == key)
      recordings().abandon(all, *r);
    else
      recordings().leave(key);
    return CUDA_SUCCESS;
  });
}

void forget_captures_of(u64 context) {
  if (!streams_capture.load(std::memory_order_relaxed)) return;
  (void)with_graphs([&](Live &all) {
    for (const std::shared_ptr<Recording> &r : recordings().all())
      if (takes_part(*r, context)) recordings().abandon(all, *r);
    return CUDA_SUCCESS;
  });
}

}  // namespace ckpt::remote::cuda
