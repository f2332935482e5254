// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/queues.h"

#include <algorithm>

#include "common/base/clock.h"
#include "libckpt-ocl/proxy/device/quirks.h"

namespace ckpt::ocl {
namespace {

// A continuous stream of commands is handed to the device in batches of this size.
constexpr u32 kFlushEvery = 64;

u64 stamp(cl_event e, cl_profiling_info which) {
  cl_ulong v = 0;
  return ::clGetEventProfilingInfo(e, which, sizeof v, &v, nullptr) == CL_SUCCESS ? v : 0;
}

}  // namespace

u32 Queues::Busy::until_now(Clock::time_point since) {
  std::lock_guard lock(mutex_);
  Clock::time_point now = Clock::now();
  sum_ += now - std::max(since, until_);
  until_ = now;
  auto us = std::chrono::duration_cast<std::chrono::microseconds>(sum_).count();
  return std::max(u32{1}, static_cast<u32>(us));
}

void Queues::add(cl_command_queue queue) {
  cl_command_queue_properties properties = 0;
  cl_device_id device = nullptr;
  ::clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, nullptr);
  ::clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, nullptr);
  Queue &q = queues_[queue] = {};
  q.profiling = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
  q.out_of_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
  q.wait_at_once = single_threaded(device);
}

void Queues::remove(cl_command_queue queue) {
  auto it = queues_.find(queue);
  if (it == queues_.end()) return;
  release_handle(Kind::Event, it->second.last);
  queues_.erase(it);
}

void Queues::enqueued(cl_command_queue queue, u64 number, cl_event event, Bytes data) {
  Queue &q = queues_[queue];
  q.unflushed++;
  if (!q.since) q.since = Clock::now();
  release_handle(Kind::Event, q.last);
  q.last = nullptr;
  if (number != 0 || !data.empty()) {
    watch(q, number, event, std::move(data));
  } else if (q.out_of_order) {
    ::clReleaseEvent(event);
  } else {
    q.last = event;
  }
  if (q.unflushed >= kFlushEvery) flush(queue, q);
}

cl_int Queues::complete_after_all(cl_command_queue queue, u64 number) {
  Queue &q = queues_[queue];
  cl_event event = std::exchange(q.last, nullptr);
  if (!event)
    if (cl_int r = ::clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event); r != CL_SUCCESS)
      return r;
  q.unflushed++;
  watch(q, number, event, {});
  return CL_SUCCESS;
}

void Queues::watch(Queue &q, u64 number, cl_event event, Bytes data) {
  if (number != 0) objects_.put(Kind::Event, number, event);
  Clock::time_point since = q.since.value_or(Clock::now());
  q.since.reset();
  auto *p = new Pending{this, number, q.profiling, std::move(data), q.busy, since};
  if (!q.wait_at_once &&
      ::clSetEventCallback(event, CL_COMPLETE, on_event_finished, p) == CL_SUCCESS)
    return;
  cl_int waited = ::clWaitForEvents(1, &event);
  on_event_finished(event, waited == CL_SUCCESS ? CL_COMPLETE : waited, p);
}

void Queues::release_finished() {
  if (!any_finished_.load(std::memory_order_acquire)) return;
  std::vector<cl_event> now;
  {
    std::lock_guard lock(finished_mutex_);
    now.swap(finished_);
    any_finished_.store(false, std::memory_order_relaxed);
  }
  for (cl_event e : now) ::clReleaseEvent(e);
}

void Queues::flush() {
  for (auto &[handle, q] : queues_)
    if (q.unflushed > 0) flush(handle, q);
}

void Queues::flush(cl_command_queue handle, Queue &q) {
  q.unflushed = 0;
  ::clFlush(handle);
}

void CL_CALLBACK Queues::on_event_finished(cl_event event, cl_int status, void *pending) {
  std::unique_ptr<Pending> p(static_cast<Pending *>(pending));
  p->queues->finish(*p, event, status);
}

void Queues::finish(const Pending &p, cl_event event, cl_int status) {
  Completion c{};
  c.event = p.number;
  c.busy = p.busy->until_now(p.since);
  cl_int reported = status;
  if (status < 0)  // the callback may report only that an event of the wait list failed
    ::clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof reported, &reported, nullptr);
  c.status = reported < 0 ? reported : std::min(status, CL_COMPLETE);
  if (p.profiling) {
    c.queued = stamp(event, CL_PROFILING_COMMAND_QUEUED);
    c.submitted = stamp(event, CL_PROFILING_COMMAND_SUBMIT);
    c.started = stamp(event, CL_PROFILING_COMMAND_START);
    c.ended = stamp(event, CL_PROFILING_COMMAND_END);
  }
  // The output of a kernel's printf must appear before the application learns that it has finished.
  output_.flush();
  if (p.number != 0) objects_.event_ended(p.number, c.status < 0);
  {
    std::lock_guard lock(finished_mutex_);
    finished_.push_back(event);
    any_finished_.store(true, std::memory_order_release);
  }
  if (p.number != 0) channel_.complete(c);
}

}  // namespace ckpt::ocl
