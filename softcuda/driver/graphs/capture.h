// SPDX-License-Identifier: Apache-2.0
//
// Stream capture: streams that record a graph instead of working.
#pragma once

#include "softcuda/driver/work/launch.h"
#include "softcuda/driver/work/transfer.h"
#include "softcuda/driver/work/value_operations.h"

namespace ckpt::softcuda::driver {

CUresult begin_capture(Stream &s, CUstreamCaptureMode mode);
// Into an existing graph; the first node depends on the nodes `after`.
CUresult begin_capture_to(Stream &s, CUgraph graph, const CUgraphNode *after, size_t n,
                          CUstreamCaptureMode mode);
// Adds to the nodes that the next one depends on, or replaces them (`flags` as of
// cuStreamUpdateCaptureDependencies).
CUresult update_dependencies(Stream &s, const CUgraphNode *nodes, size_t n, unsigned flags);
CUresult end_capture(Stream &s, CUgraph *graph);
// The stream is destroyed. Its capture goes on, and what the stream has captured stays in the
// graph.
void leave_capture(Stream &s);
// The capture that a stream takes part in, or nullptr.
std::shared_ptr<Capture> capture_of(Stream &s);
void capture_info(Capture &c, Stream &s, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
                  size_t *count);

// Each of these appends one node to the graph that the stream records.
CUresult capture_box(Capture &c, Stream &s, const Box &b);
CUresult capture_fill(Capture &c, Stream &s, const Fill &f);
CUresult capture_launch(Capture &c, Stream &s, const Launch &l);
CUresult capture_values(Capture &c, Stream &s, std::vector<ValueOperation> all);
CUresult capture_host(Capture &c, Stream &s, CUhostFn f, void *data);

// The event remembers the last nodes of the stream.
CUresult capture_record(const std::shared_ptr<Capture> &c, Stream &s, Event &e);
// A stream that waits for a captured event joins its capture. The event's lock is held.
CUresult capture_wait(Stream &s, Event &e);

}  // namespace ckpt::softcuda::driver
