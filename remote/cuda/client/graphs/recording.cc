// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/graphs/recording.h"

#include <algorithm>
#include <set>

#include "remote/cuda/client/graphs/capture.h"

namespace ckpt::remote::cuda {

void add_edges(std::vector<Edge> &to, const std::vector<Edge> &more) {
  for (const Edge &e : more)
    if (std::ranges::find(to, e.from, &Edge::from) == to.end()) to.push_back(e);
}

u64 thread_number() {
  static std::atomic<u64> last{0};
  thread_local const u64 mine = ++last;
  return mine;
}

CUresult Recording::append(const StreamKey &s, CUgraphNodeType type, WorkPointer work,
                           std::shared_ptr<Graph> child) {
  if (invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  Part &part = parts[s];
  Node *node = graph->add(type, std::move(work), std::move(child));
  for (const Edge &e : part.last) Graph::connect(e.from, node, e.data);
  part.last = {{node, {}}};
  live().publish(node);
  return CUDA_SUCCESS;
}

// A node that others depend on was joined where they were: the last of these is judged itself.
bool Recording::unjoined() const {
  const Part &first = parts.at(origin);
  auto joined = [&](const Edge &e) {
    return !e.from->before.empty() ||
           std::ranges::find(first.last, e.from, &Edge::from) != first.last.end();
  };
  return !std::ranges::all_of(
      parts, [&](const auto &p) { return std::ranges::all_of(p.second.last, joined); });
}

StreamKey Recordings::key(u64 stream) const {
  if (stream != number_of(CU_STREAM_PER_THREAD)) return {stream, 0, 0};
  return {stream, current_context(), thread_number()};
}

std::shared_ptr<Recording> Recordings::of(const StreamKey &s) const {
  auto found = streams_.find(s);
  return found == streams_.end() ? nullptr : found->second;
}

CapturedEvent *Recordings::event(CUevent e) {
  auto found = events_.find(e);
  return found == events_.end() ? nullptr : &found->second;
}

std::vector<std::shared_ptr<Recording>> Recordings::all() const {
  std::set<std::shared_ptr<Recording>> found;
  for (const auto &[key, r] : streams_) found.insert(r);
  return {found.begin(), found.end()};
}

void Recordings::join(const std::shared_ptr<Recording> &r, const StreamKey &s, u64 context,
                      const std::vector<Edge> &last) {
  streams_[s] = r;
  Recording::Part &part = r->parts[s];
  part.context = context;
  add_edges(part.last, last);
  note_existence();
}

void Recordings::leave(const StreamKey &s) {
  streams_.erase(s);
  note_existence();
}

void Recordings::note_event(CUevent e, CapturedEvent what) {
  events_[e] = std::move(what);
  note_existence();
}

void Recordings::forget_event(CUevent e) {
  events_.erase(e);
  note_existence();
}

void Recordings::end(Recording &r) {
  r.ended = true;
  r.graph->capturing = false;
  std::erase_if(streams_, [&](const auto &s) { return s.second.get() == &r; });
  note_existence();
}

void Recordings::abandon(Live &all, Recording &r) {
  end(r);
  if (r.own_graph) all.end(r.graph.get());
}

void Recordings::note_existence() {
  streams_capture.store(!streams_.empty(), std::memory_order_relaxed);
  recorder.store(streams_.empty() ? nullptr : &copy_recorder(), std::memory_order_release);
  events_captured.store(!events_.empty(), std::memory_order_relaxed);
}

Recordings &recordings() {
  static auto *const kRecordings = new Recordings;
  return *kRecordings;
}

}  // namespace ckpt::remote::cuda
