// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/completer.h"

#include <cstdio>
#include <thread>

namespace ckpt::ocl {
namespace {

u64 stamp(cl_event e, cl_profiling_info which) {
  cl_ulong v = 0;
  return ::clGetEventProfilingInfo(e, which, sizeof v, &v, nullptr) == CL_SUCCESS ? v : 0;
}

}  // namespace

std::shared_ptr<Completer> Completer::start(Channel &channel, Objects &objects, bool profiling,
                                            bool here) {
  auto c = std::make_shared<Completer>(channel, objects, profiling, here);
  if (!here) std::thread([c] { c->run(); }).detach();
  return c;
}

void Completer::retire() {
  std::lock_guard lock(mutex_);
  stop_ = true;
  changed_.notify_one();
}

void Completer::add(u64 number, cl_event event, Bytes data) {
  objects_.put(Kind::Event, number, event);
  if (here_) return finish({number, event, std::move(data)});
  {
    std::lock_guard lock(mutex_);
    pending_.push_back({number, event, std::move(data)});
  }
  changed_.notify_one();
}

void Completer::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !pending_.empty(); });
    if (pending_.empty()) return;
    Pending p = std::move(pending_.front());
    pending_.pop_front();
    lock.unlock();
    finish(p);
    lock.lock();
  }
}

void Completer::finish(const Pending &p) {
  Completion c{};
  c.event = p.number;
  cl_int waited = ::clWaitForEvents(1, &p.event);
  cl_int status = waited;
  if (::clGetEventInfo(p.event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                       nullptr) != CL_SUCCESS)
    status = waited;
  c.status = waited == CL_SUCCESS || status < 0 ? std::min(status, CL_COMPLETE) : waited;
  if (profiling_) {
    c.queued = stamp(p.event, CL_PROFILING_COMMAND_QUEUED);
    c.submitted = stamp(p.event, CL_PROFILING_COMMAND_SUBMIT);
    c.started = stamp(p.event, CL_PROFILING_COMMAND_START);
    c.ended = stamp(p.event, CL_PROFILING_COMMAND_END);
  }
  // What a kernel printed is out before the application can know that the kernel is over.
  std::fflush(stdout);
  objects_.take(Kind::Event, p.number);
  ::clReleaseEvent(p.event);
  channel_.complete(c);
}

}  // namespace ckpt::ocl
