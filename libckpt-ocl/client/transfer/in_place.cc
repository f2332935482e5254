// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/transfer/in_place.h"

#include "libckpt-ocl/client/link/arriving.h"
#include "libckpt-ocl/client/link/owed.h"
#include "libckpt-ocl/client/transfer/map.h"
#include "libckpt-ocl/client/transfer/rows.h"
#include "libckpt-ocl/client/transfer/shared_memory.h"

namespace ckpt::ocl {
namespace {

// A write behind other commands goes through staging, without a wait, unless it is so long that the
// second copy would take longer.
constexpr size_t kWaitToWrite = 1u << 20;

bool nothing_under_way(Queue &q) {
  std::lock_guard lock(q.mutex);
  return !q.untracked && !link().pending(q.last);
}

bool worth_waiting(bool reading, Command &c, const Rect &all, Blocking blocking) {
  return blocking == Blocking::Yes && c.can_send_now() && c.queue().in_order() &&
         (reading || all.region[0] * all.region[1] * all.region[2] >= kWaitToWrite);
}

// Waits until all earlier commands of the queue have finished. May leave the gate meanwhile.
cl_int wait_for_turn(Command &c) {
  Ref<Event> reached(&c.event());
  if (cl_int r = c.run_now(nullptr, send_marker); r != CL_SUCCESS) return r;
  return std::min(0, wait(*reached));
}

void copy(bool reading, const Mem &mem, const Rect &r, std::byte *host) {
  std::byte *there = host_side(const_cast<Mem &>(mem)) + r.buffer_origin[0] +
                     r.buffer_origin[1] * r.buffer_row + r.buffer_origin[2] * r.buffer_slice;
  count_copy(reading, r.region[0] * r.region[1] * r.region[2]);
  if (there == host) return;  // the program names a place of the buffer itself
  if (reading)
    copy_rows(host, r.host_row, r.host_slice, there, r.buffer_row, r.buffer_slice, r.region);
  else
    copy_rows(there, r.buffer_row, r.buffer_slice, host, r.host_row, r.host_slice, r.region);
}

bool copy_in_turn(bool reading, Queue &q, Mem &mem, const Rect &all, std::byte *host) {
  std::lock_guard in_order(q.order);
  if (!shares_pages(mem) || !nothing_under_way(q)) return false;
  copy(reading, mem, all, host);
  if (!reading) edges_to_files();
  return true;
}

}  // namespace

cl_int send_marker(Command &c) {
  return c.send<&::clEnqueueMarkerWithWaitList>(Trip::OneWay, handle<cl_command_queue>(&c.queue()),
                                                c.waits().count, c.waits().list, nullptr);
}

bool runs_at_once(Command &c, const cl_event *out) {
  bool stamps = out && (c.queue().properties & CL_QUEUE_PROFILING_ENABLE);
  if (stamps || c.waits().count > 0 || !c.can_send_now()) return false;
  link().drain();
  return nothing_under_way(c.queue());
}

cl_int hand_out_finished(Command &c, cl_event *out) {
  return c.run_now(out, [out](Command &it) {
    if (out && !it.event().finished()) finish_event(it.event(), CL_COMPLETE);
    return CL_SUCCESS;
  });
}

std::optional<cl_int> copy_in_place(bool reading, cl_command_queue queue, cl_command_type type,
                                    Mem &mem, const Rect &all, std::byte *host, Blocking blocking,
                                    Waits waits, cl_event *out) {
  if (!reading) wait_for_pending_reads(host, host_extent(all));
  Command c(queue, type, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  if (out && (c.queue().properties & CL_QUEUE_PROFILING_ENABLE)) return {};
  if (!runs_at_once(c, out)) {
    if (!worth_waiting(reading, c, all, blocking)) return {};
    if (cl_int r = wait_for_turn(c); r != CL_SUCCESS) return r;
  }
  if (cl_int r = wait_for_contents(mem); r != CL_SUCCESS) return r;
  if (!reading) will_be_written(mem);
  if (!copy_in_turn(reading, c.queue(), mem, all, host)) return {};
  return hand_out_finished(c, out);
}

}  // namespace ckpt::ocl
