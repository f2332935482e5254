// SPDX-License-Identifier: Apache-2.0
//
// Stream capture: streams that record a graph instead of working. A call that takes a stream asks
// is_capturing(), which costs a program that never captures one atomic load. If so, it calls one of
// the functions below in place of its own work.
#pragma once

#include <atomic>
#include <optional>

#include "remote/cuda/client/copies/recorder.h"

namespace ckpt::remote::cuda {

struct Graph;

// Some stream records.
inline std::atomic<bool> streams_capture{false};
// Some event was last recorded in a stream that did.
inline std::atomic<bool> events_captured{false};

bool stream_captures(u64 stream);
inline bool is_capturing(u64 stream) {
  return streams_capture.load(std::memory_order_relaxed) && stream_captures(stream);
}
inline bool may_be_captured() {
  return streams_capture.load(std::memory_order_relaxed) ||
         events_captured.load(std::memory_order_relaxed);
}
inline bool is_capturing(CUstream stream) { return is_capturing(number_of(stream)); }

// The call is not permitted in a stream that captures: the error, after which the recording cannot
// be used (CUDA programming guide, "Prohibited and Unhandled Operations").
CUresult invalidate_capture(CUstream stream);

// Each of these appends a node to what the stream records.
CUresult capture_launch(const CUlaunchConfig &c, CUfunction f, void **parameters, void **extra);
CUresult capture_host(CUstream stream, const CUDA_HOST_NODE_PARAMS_v1 &p);
CUresult capture_child(CUstream stream, const Graph &g);
CUresult capture_allocation(CUstream stream, u64 bytes, CUdeviceptr *out);
CUresult capture_free(CUstream stream, CUdeviceptr p);
// For copies and fills.
Recorder &copy_recorder();

// If the stream or the event is of a capture, these record the call and return its result.
std::optional<CUresult> captured_record(CUevent event, CUstream stream, bool as_node);
std::optional<CUresult> captured_wait(CUstream stream, CUevent event, bool as_node);
// CUDA_ERROR_CAPTURED_EVENT: its last record was in a capture, so there is nothing to ask.
CUresult check_event(CUevent event);
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a stream of the context captures.
CUresult check_context(u64 context);

// These have ended.
void forget_captured_event(CUevent event);
void forget_capturing_stream(CUstream stream);
void forget_captures_of(u64 context);

}  // namespace ckpt::remote::cuda
