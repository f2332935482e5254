// SPDX-License-Identifier: Apache-2.0
//
// The problem. A launch of a long kernel becomes many short ones. The program must not notice, and
// a checkpoint must find a moment between two slices.
//
// How it works. The launch is one deferred command (command/deferred.h) that is sent in parts. A
// part is a box of work-groups, in ascending order. So the calling thread does not wait, the feeder
// sends the slices, everything behind the launch waits as behind any deferred command, and what was
// not sent yet is memory of the application, which an image contains.
//
//   deferred   [launch: groups 0…999] [read] …
//   sent       0…249   250…499              the driver has at most two slices
//   deferred   [launch: groups 500…999] [read] …
//
// The last slice has the event of the launch. In an out-of-order queue each slice waits for the one
// before, so that the last one ends last. The size of a slice is found by measuring: the proxy says
// for how long a queue was busy (Completion::busy in wire.h), and the difference between two slices
// in a row is the time of the second one.
//
// A kernel that is shorter than a slice is launched as without slicing, with the program's own
// kernel.
//
// What could go wrong: work-groups that wait for later ones, which only works if all are on the
// device at once. Their slice would never end. Only a kernel that uses volatile or atomic memory
// can contain such a wait; its source tells (slicing::may_wait). Such a kernel is *guarded*: its
// first slice is sent when everything before it has ended, and no slice behind another one. If it
// then makes no progress for `patience`, the rest of the grid is launched beside it, in up to three
// further queues, and nothing is lost. From then on the kernel runs whole
// (slicing/whole_kernels.h).
#include "libckpt-ocl/client/slices/sliced_launch.h"

#include <algorithm>

#include "common/base/log.h"
#include "libckpt-ocl/client/command/deferred.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/client/slices/sliced_kernel.h"
#include "libckpt-ocl/client/slices/turns.h"
#include "slicing/settings.h"
#include "slicing/whole_kernels.h"

namespace ckpt::ocl {
namespace {

using slicing::blocks_of;
using slicing::Box;
using slicing::settings;

// Work-items of a group where the program leaves the choice to the driver.
constexpr u64 kChosenItems = 256;

// The answer, or the first number of it.
size_t work_group_info(const Kernel &k, const Device &d, cl_kernel_work_group_info param) {
  Bytes value;
  size_t size = 0;
  if (remote_info(InfoOf::KernelWorkGroup, k, d.number, param, value) != CL_SUCCESS) return 0;
  std::memcpy(&size, value.data(), std::min(value.size(), sizeof size));
  return size;
}

size_t largest_divisor(size_t of, u64 most) {
  size_t d = static_cast<size_t>(std::min<u64>(of, std::max<u64>(most, 1)));
  while (of % d != 0) --d;
  return d;
}

// All slices must have groups of one size, so it is chosen here where the program leaves it open.
Sizes chosen_local(const Kernel &k, const Device &d, const LaunchShape &shape) {
  Sizes local{1, 1, 1};
  u64 room = std::min<u64>(kChosenItems, work_group_info(k, d, CL_KERNEL_WORK_GROUP_SIZE));
  for (cl_uint i = 0; i < shape.dims; i++) {
    local[i] = largest_divisor((*shape.global)[i], room);
    room /= local[i];
  }
  return local;
}

// The groups are still open.
slicing::NdRange range_of(const LaunchShape &shape) {
  slicing::NdRange range{shape.dims};
  for (cl_uint i = 0; i < shape.dims; i++) {
    range.items[i] = (*shape.global)[i];
    if (shape.offset) range.offset[i] = (*shape.offset)[i];
  }
  return range;
}

bool has_unequal_groups(const LaunchShape &shape) {
  for (cl_uint i = 0; shape.local && i < shape.dims; i++)
    if ((*shape.local)[i] == 0 || (*shape.global)[i] % (*shape.local)[i] != 0) return true;
  return false;
}

// More than one work-group, or an unknown number. A launch without work-items is an error.
bool has_groups(const LaunchShape &shape) {
  bool several = false;
  for (cl_uint i = 0; i < shape.dims; i++) {
    size_t items = (*shape.global)[i];
    if (items == 0) return false;
    several = several || items > (shape.local ? (*shape.local)[i] : 1);
  }
  return several;
}

// Why a launch runs whole; empty: it can be divided, if there is a form of the kernel for it.
std::string reason_for_whole(const SlicedKernel &sliced, const LaunchShape &shape, Device &d) {
  if (!sliced.whole.empty()) return sliced.whole;
  if (slicing::is_remembered_whole(sliced.hash)) return "its work-groups wait for later ones";
  if (has_unequal_groups(shape)) return "its last work-groups are smaller than the others";
  return reason_against_slices(*d.root());
}

std::string reason_in_form(const SlicedForm &form, const slicing::NdRange &range) {
  if (!form.whole.empty()) return form.whole;
  if (form.refused) return "the driver refuses its slices";
  if (!slicing::fits(range))
    return slicing::form_of(range) == 0
               ? "it has too many work-items"
               : "it has too many work-items, or its global offset is too large";
  return {};
}

// A queue beside `q`; the n-th of three.
Ref<Queue> side_queue(Queue &q, size_t n) {
  if (q.beside.size() <= n) q.beside.resize(n + 1);
  if (q.beside[n]) return q.beside[n];
  cl_command_queue made = entry::clCreateCommandQueue(handle<cl_context>(q.context.get()),
                                                      handle<cl_device_id>(q.device), 0, nullptr);
  Ref<Queue> side(object<Queue>(made));
  if (made != nullptr) entry::clReleaseCommandQueue(made);
  return q.beside[n] = side;
}

}  // namespace

SlicedLaunch::SlicedLaunch(Kernel &k, std::shared_ptr<SlicedKernel> sliced,
                           const LaunchShape &shape, const ArgumentMemory &memory,
                           const slicing::NdRange &range)
    : kernel_(&k),
      sliced_(std::move(sliced)),
      form_(&sliced_->forms[slicing::form_of(range)]),
      values_(k.values),
      memory_(memory),
      shape_(shape),
      range_(range) {
  for (size_t d = 0; d < grid_.size(); d++)
    grid_[d] = static_cast<u32>(range.items[d] / range.group[d]);
}

SlicedLaunch::~SlicedLaunch() {
  if (device_ != nullptr) device_->launches_in_slices.fetch_sub(1);
}

LaunchShape SlicedLaunch::part(const Box &box) const {
  LaunchShape p{slicing::slice_dims(range_), slicing::slice_offset(range_, box.base), Sizes{},
                range_.group, true};
  for (size_t d = 0; d < box.extent.size(); d++) (*p.global)[d] = box.extent[d] * range_.group[d];
  return p;
}

Trip SlicedLaunch::trip(const Queue &q) const {
  return trip_of(*form_->kernel, values_, part({{0, 0, 0}, grid_}), q);
}

u64 SlicedLaunch::slice_blocks() const {
  if (u64 fixed = settings().fixed_blocks(blocks_of(grid_)); fixed != 0) return fixed;
  std::lock_guard lock(sliced_->mutex);
  return sliced_->size.next(blocks_of(grid_));
}

u64 SlicedLaunch::expected_ns(u64 blocks) const {
  std::lock_guard lock(sliced_->mutex);
  return static_cast<u64>(sliced_->size.expected_ns(blocks));
}

// A whole launch that took too long makes the slices shorter. Its time is then forgotten: it may
// have been measured while other programs used the device, and the slices show what is true.
bool SlicedLaunch::is_one_slice(WorkTimes &times) {
  u64 blocks = blocks_of(grid_);
  if (blocks == 1) return true;
  if (u64 fixed = settings().fixed_blocks(blocks); fixed != 0) return fixed >= blocks;
  Work whole = shape_.work(*kernel_);
  if (auto known = static_cast<double>(times.known(whole)); known > 0) {
    if (known <= target_ns()) return true;
    times.forget(whole);
    std::lock_guard lock(sliced_->mutex);
    sliced_->size.took(blocks, known, target_ns());
  }
  return expected_ns(blocks) != 0 && slice_blocks() >= blocks;
}

bool SlicedLaunch::is_guarded() const { return sliced_->may_wait; }

bool SlicedLaunch::may_send(Queue &q) {
  settle();
  if (earlier_ && !earlier_->finished()) return false;
  size_t allowed = is_guarded() || settings().guest ? 0 : 1;
  if (flights_.size() > allowed) return stands_still();
  return failure_ != CL_SUCCESS || (has_room(q) && turn_has_room(expected_ns(slice_blocks())));
}

cl_int SlicedLaunch::send_next(Command &it) {
  settle();
  if (failure_ != CL_SUCCESS) return failure_;
  // It may have been measured since it was enqueued.
  if (done_ == 0 && is_one_slice(it.queue().device->work_times))
    return send_launch(it, *kernel_, values_, memory_, shape_);
  if (is_guarded() && !earlier_) return wait_for_earlier(it);
  if (stands_still()) return send_rest(it);
  return send_slice(it, slicing::next_box(grid_, done_, slice_blocks()));
}

// A slice that has not started must not count as one that waits.
cl_int SlicedLaunch::wait_for_earlier(Command &it) {
  Command marker(it.queue(), CL_COMMAND_MARKER, nullptr);
  marker.with_waits_of(it);
  earlier_ = Ref<Event>(&marker.event());
  it.goes_on(/*judged=*/false);
  return marker.send<&::clEnqueueMarkerWithWaitList>(
      Trip::OneWay, handle<cl_command_queue>(&it.queue()), marker.waits().count,
      marker.waits().list, nullptr);
}

cl_int SlicedLaunch::send_slice(Command &it, const Box &box) {
  u64 blocks = blocks_of(box.extent);
  bool last = done_ + blocks == blocks_of(grid_);
  Command slice(it.queue(), it.type(), nullptr);
  Command &c = last ? it : slice;
  if (!last) c.with_waits_of(it);
  if (newest_ && !it.queue().in_order()) c.wait_for(newest_.get());
  newest_ = Ref<Event>(&c.event());
  if (!first_) first_ = newest_;
  if (last && first_.get() != newest_.get()) newest_->first = first_;
  if (cl_int r = send_launch(c, *form_->kernel, values_, memory_, part(box)); r != CL_SUCCESS)
    return done_ == 0 && !last ? send_whole(it) : r;
  if (device_ == nullptr) {
    device_ = it.queue().device->root();
    device_->launches_in_slices.fetch_add(1);
  }
  done_ += blocks;
  if (flights_.empty()) since_ = Clock::now();
  flights_.push_back({blocks, newest_});
  ++slices_;
  if (last)
    log::debug("kernel {}: {} blocks in {} slices", kernel_->name, done_, slices_);
  else
    it.goes_on(/*judged=*/true);
  return CL_SUCCESS;
}

// The driver may accept the program's own kernel, which needs less, or report its own error.
cl_int SlicedLaunch::send_whole(Command &it) {
  cl_int r = send_launch(it, *kernel_, values_, memory_, shape_);
  if (r == CL_SUCCESS) form_->refused = true;
  return r;
}

void SlicedLaunch::settle() {
  for (; !flights_.empty() && flights_.front().event->finished(); flights_.pop_front()) {
    cl_int status = flights_.front().event->status.load();
    if (status < 0) failure_ = status;
    measure(flights_.front());
    since_ = Clock::now();
  }
}

// The first slice has no predecessor, and after a restore another proxy counts from 0.
void SlicedLaunch::measure(const Flight &flight) {
  u32 busy = flight.event->busy;
  u32 before = std::exchange(busy_, busy);
  auto us = static_cast<i32>(busy - before);
  if (busy == 0 || before == 0 || us <= 0) return;
  std::lock_guard lock(sliced_->mutex);
  sliced_->size.took(flight.blocks, us * 1e3, target_ns());
}

bool SlicedLaunch::stands_still() const {
  auto patience = std::chrono::duration<double, std::nano>(settings().patience_ns);
  return is_guarded() && !flights_.empty() && Clock::now() - since_ > patience;
}

// In a queue of its own each box starts at once, and `it` becomes a barrier that waits for all.
cl_int SlicedLaunch::send_rest(Command &it) {
  slicing::remember_whole(sliced_->hash, kernel_->name);
  name_whole(*kernel_, *sliced_, "its work-groups wait for later ones");
  std::vector<Ref<Event>> parts{newest_};
  for (const Box &box : slicing::rest_of(grid_, done_)) {
    Ref<Queue> side = side_queue(it.queue(), parts.size() - 1);
    Command c(side ? *side : it.queue(), it.type(), nullptr);
    parts.emplace_back(&c.event());
    if (cl_int r = send_launch(c, *form_->kernel, values_, memory_, part(box)); r != CL_SUCCESS)
      return r;
  }
  it.wait_for(parts);
  return it.send<&::clEnqueueBarrierWithWaitList>(Trip::OneWay,
                                                  handle<cl_command_queue>(&it.queue()),
                                                  it.waits().count, it.waits().list, nullptr);
}

std::shared_ptr<SlicedLaunch> divide(Kernel &k, Queue &q, const LaunchShape &shape,
                                     const ArgumentMemory &memory) {
  if (!settings().sliced || !has_groups(shape) || !deferred_commands().can_feed()) return {};
  std::shared_ptr<SlicedKernel> sliced = sliced_kernel(k);
  if (std::string why = reason_for_whole(*sliced, shape, *q.device); !why.empty()) {
    name_whole(k, *sliced, why);
    return {};
  }
  // A launch without the groups that the kernel requires is an error, which the driver reports.
  if (!shape.local && work_group_info(k, *q.device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE) != 0)
    return {};
  slicing::NdRange range = range_of(shape);
  SlicedForm &form = sliced_form(k, *sliced, slicing::form_of(range));
  if (form.kernel) {
    Sizes local = shape.local ? *shape.local : chosen_local(*form.kernel, *q.device, shape);
    std::copy_n(local.begin(), shape.dims, range.group.begin());
  }
  if (std::string why = reason_in_form(form, range); !why.empty()) {
    name_whole(k, *sliced, why);
    return {};
  }
  auto launch = std::make_shared<SlicedLaunch>(k, std::move(sliced), shape, memory, range);
  return launch->is_one_slice(q.device->work_times) ? nullptr : launch;
}

}  // namespace ckpt::ocl
