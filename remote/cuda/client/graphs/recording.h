// SPDX-License-Identifier: Apache-2.0
//
// What a capture has recorded so far: the graph, and for each stream that takes part the nodes that
// its next node depends on.
//
// Example: stream a records a kernel k and the event e, stream b waits for e and records a kernel
// m. Then b takes part, m depends on k, and a's next node depends on k alone, until a waits for an
// event of b.
#pragma once

#include <compare>

#include "remote/cuda/client/graphs/live.h"

namespace ckpt::remote::cuda {

// A stream as a place of work: the per-thread default stream is another one in each thread.
struct StreamKey {
  u64 number, context, thread;
  auto operator<=>(const StreamKey &) const = default;
};

struct Recording {
  // A stream that takes part.
  struct Part {
    u64 context = 0;
    std::vector<Edge> last;
    // As cuStreamGetCaptureInfo returns them.
    std::vector<CUgraphNode> last_nodes;
    std::vector<CUgraphEdgeData> last_data;
  };

  CUresult append(const StreamKey &s, CUgraphNodeType type, WorkPointer work,
                  std::shared_ptr<Graph> child);
  // Streams that were not joined again: no edge leads from their last nodes to the first stream.
  bool unjoined() const;

  std::shared_ptr<Graph> graph;
  bool own_graph = true;  // made for the recording
  u64 id = 0, thread = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  StreamKey origin{};
  bool invalid = false, ended = false;
  std::map<StreamKey, Part> parts;
};

// An event that was last recorded in a capture, and the nodes that were the last ones then.
struct CapturedEvent {
  std::shared_ptr<Recording> recording;
  std::vector<Edge> last;
};

// All of this is guarded by the lock of live().
class Recordings {
 public:
  StreamKey key(u64 stream) const;
  std::shared_ptr<Recording> of(const StreamKey &s) const;
  CapturedEvent *event(CUevent e);
  // In no particular order.
  std::vector<std::shared_ptr<Recording>> all() const;

  void join(const std::shared_ptr<Recording> &r, const StreamKey &s, u64 context,
            const std::vector<Edge> &last);
  // The stream has ended; its part stays.
  void leave(const StreamKey &s);
  void note_event(CUevent e, CapturedEvent what);
  void forget_event(CUevent e);
  // The streams work again; the graph stays.
  void end(Recording &r);
  // The same, without a graph for the program.
  void abandon(Live &all, Recording &r);

 private:
  void note_existence();

  std::map<StreamKey, std::shared_ptr<Recording>> streams_;
  std::unordered_map<const void *, CapturedEvent> events_;
};
Recordings &recordings();

// Those that are not there yet.
void add_edges(std::vector<Edge> &to, const std::vector<Edge> &more);

// The number of this thread; none is used twice.
u64 thread_number();

}  // namespace ckpt::remote::cuda
