// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/objects/event_times.h"

namespace ckpt::remote::cuda {
namespace {

using Times = std::unordered_map<u64, double>;  // of events, in milliseconds since a base

struct EventTimes {
  std::mutex mutex;                    // guards what follows
  Times times;                         // of events that this server has not recorded
  std::unordered_map<u64, u64> bases;  // by context
  Times noted;                         // what `times` will be on the next server
};
EventTimes &all() {
  static auto *const kAll = new EventTimes;
  return *kAll;
}

CUresult elapsed(u64 context, u64 from, u64 to, double &out) {
  Writer w;
  Bytes reply;
  w.put(u8{1}).put(from).put(to);
  CUresult e = link().ask(line_cuEventElapsedTime, context, {w.bytes()}, &reply);
  float ms = 0;
  if (e == CUDA_SUCCESS && reply.size() != sizeof ms) e = link().malformed();
  if (e == CUDA_SUCCESS) std::memcpy(&ms, reply.data(), sizeof ms);
  out = static_cast<double>(ms);
  return e;
}

// 0: it cannot be made.
u64 record_base(u64 context) {
  u64 wanted = ledger().new_number(Kind::Event);
  Bytes reply;
  Writer create, record, wait;
  create.put(wanted).put(u32{CU_EVENT_DEFAULT});
  record.put(wanted).put(u64{0});
  wait.put(wanted);
  bool made = link().ask(line_cuEventCreate, context, {create.bytes()}, &reply) == CUDA_SUCCESS &&
              Reader(reply).get<u64>() == wanted &&
              link().ask(line_cuEventRecord, context, {record.bytes()}) == CUDA_SUCCESS &&
              link().ask(line_cuEventSynchronize, context, {wait.bytes()}) == CUDA_SUCCESS;
  return made ? wanted : 0;
}

bool has_times(const Ledger::Object &event) {
  Reader r(event.call.arguments);
  r.get<u64>();
  return (r.get<u32>() & CU_EVENT_DISABLE_TIMING) == 0;
}

// Milliseconds since the base of this server.
CUresult time_of(u64 event, u64 context, double &out) {
  EventTimes &t = all();
  auto base = t.bases.find(context);
  CUresult e = CUDA_ERROR_INVALID_HANDLE;
  if (base != t.bases.end()) e = elapsed(context, base->second, event, out);
  auto noted = t.times.find(event);
  if (e != CUDA_ERROR_INVALID_HANDLE || noted == t.times.end()) return e;
  out = noted->second;
  return CUDA_SUCCESS;
}

void note_times_of(u64 context, const std::vector<u64> &events) {
  EventTimes &t = all();
  u64 now = record_base(context);
  if (now == 0) return;
  double since_base = 0;
  if (auto base = t.bases.find(context); base != t.bases.end())
    (void)elapsed(context, base->second, now, since_base);
  for (u64 event : events) {
    double ago = 0;
    auto before = t.times.find(event);
    if (elapsed(context, event, now, ago) == CUDA_SUCCESS)
      t.noted[event] = -ago;
    else if (before != t.times.end())
      t.noted[event] = before->second - since_base;
  }
  Writer w;
  w.put(now);
  link().send(line_cuEventDestroy_v2, context, {w.bytes()});
}

}  // namespace

void note_event_times() {
  std::unordered_map<u64, std::vector<u64>> events;
  for (const Ledger::Object &e : ledger().objects(Kind::Event))
    if (has_times(e)) events[e.call.context].push_back(e.number);
  EventTimes &t = all();
  std::lock_guard lock(t.mutex);
  t.noted.clear();
  for (const auto &[context, some] : events) note_times_of(context, some);
}

void use_event_times() {
  EventTimes &t = all();
  std::lock_guard lock(t.mutex);
  t.times = t.noted;  // another attempt may follow
  t.bases.clear();
  for (const auto &[event, time] : t.times)
    if (std::optional<u64> context = ledger().context_of(event); context && !t.bases[*context])
      t.bases[*context] = record_base(*context);
}

CUresult elapsed_time(float *ms, CUevent from, CUevent to) {
  CUresult e = ask_cuEventElapsedTime(ms, from, to);
  EventTimes &t = all();
  if (e != CUDA_ERROR_INVALID_HANDLE || !ms) return e;
  std::lock_guard lock(t.mutex);
  std::optional<u64> context = ledger().context_of(number_of(from));
  if (t.times.empty() || !context || ledger().context_of(number_of(to)) != context) return e;
  double begin = 0, end = 0;
  if (e = time_of(number_of(from), *context, begin); e != CUDA_SUCCESS) return e;
  if (e = time_of(number_of(to), *context, end); e != CUDA_SUCCESS) return e;
  *ms = static_cast<float>(end - begin);
  return e;
}

}  // namespace ckpt::remote::cuda
