// SPDX-License-Identifier: Apache-2.0
//
// Transfers, kernel arguments and releases: the commands with a wire format of their own.
#include <algorithm>

#include "common/base/fields.h"
#include "common/base/log.h"
#include "libckpt-ocl/proxy/device/quirks.h"
#include "libckpt-ocl/proxy/serve/images.h"
#include "libckpt-ocl/svm_addresses.h"

namespace ckpt::ocl {
namespace {

// The wait list at the end of a transfer. Finished events are no longer known, and are left out;
// of failed ones Objects::found_failed() tells.
std::vector<cl_event> read_waits(Server &s, Reader &r) {
  std::vector<cl_event> out;
  u32 n = r.get<u32>();
  for (u32 i = 0; i < n && r.ok(); i++)
    if (auto e = s.objects.get<cl_event>(Kind::Event, r.get<u64>())) out.push_back(e);
  return out;
}

const cl_event *list_or_null(const std::vector<cl_event> &v) {
  return v.empty() ? nullptr : v.data();
}

cl_int set_argument(Server &s, u64 number, cl_kernel kernel, Reader &r) {
  u32 index = r.get<u32>();
  u64 size = r.get<u64>();
  ArgKind kind = r.get<ArgKind>();
  if (kind == ArgKind::Mem) {
    u64 number = r.get<u64>();
    cl_mem mem = s.objects.get<cl_mem>(Kind::Mem, number);
    if (number != 0 && !mem) return CL_INVALID_MEM_OBJECT;
    return ::clSetKernelArg(kernel, index, sizeof mem, number ? &mem : nullptr);
  }
  if (kind == ArgKind::Sampler) {
    cl_sampler sampler = s.objects.get<cl_sampler>(Kind::Sampler, r.get<u64>());
    return sampler ? ::clSetKernelArg(kernel, index, sizeof sampler, &sampler) : CL_INVALID_SAMPLER;
  }
  if (kind == ArgKind::Pointer) {
    u64 block = r.get<u64>(), offset = r.get<u64>();
    return s.pointer_arguments.set(number, kernel, index,
                                   s.buffer_files.contents_from(block, offset));
  }
  ByteView value = r.blob();
  if (!r.ok() || (kind == ArgKind::Bytes && value.size() != size)) return CL_INVALID_ARG_VALUE;
  if (kind == ArgKind::Local) return ::clSetKernelArg(kernel, index, size, nullptr);
  // The driver may read the value as its type, so it gets the largest alignment of any type.
  alignas(128) std::byte aligned[4096];
  if (value.size() > sizeof aligned) return CL_INVALID_ARG_SIZE;
  std::memcpy(aligned, value.data(), value.size());
  return ::clSetKernelArg(kernel, index, size, aligned);
}

}  // namespace

Place find_place(Server &s, Reader &r, u64 staging, u64 bytes, std::vector<cl_event> &waits) {
  Place p;
  waits = read_waits(s, r);
  if (staging != kInline) {
    p.data = s.channel.staging(staging, bytes);
    return p;
  }
  ByteView b = r.blob();
  if (b.size() != bytes) return p;
  p.own.assign(b.begin(), b.end());
  p.data = p.own.data();
  return p;
}

void release_object(Server &s, Reader r) {
  Kind kind = r.get<Kind>();
  u64 number = r.get<u64>();
  void *handle = s.objects.take(kind, number);
  if (kind == Kind::Queue && handle) s.queues.remove(static_cast<cl_command_queue>(handle));
  if (kind == Kind::Context && handle) s.remove_context(static_cast<cl_context>(handle));
  if (kind == Kind::Mem && handle) s.buffer_files.forget(number);
  if (kind == Kind::Mem) s.arriving.forget(number);
  if (kind == Kind::Kernel) s.pointer_arguments.forget(number);
  if (kind == Kind::Program) s.header_folders.erase(static_cast<cl_program>(handle));
  release_handle(kind, handle);
}

void kernel_parameters(Server &s, const CommandHeader &h, Reader r) {
  auto kernel = s.objects.get<cl_kernel>(Kind::Kernel, r.get<u64>());
  cl_uint n = 0;
  if (!kernel || ::clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof n, &n, nullptr) != CL_SUCCESS)
    return s.reply(h, CL_INVALID_KERNEL);
  Writer w;
  w.put(u32{n});
  for (cl_uint i = 0; i < n; i++) {
    cl_kernel_arg_address_qualifier q = 0;
    char type[256] = "";
    if (::clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof q, &q, nullptr) !=
        CL_SUCCESS)
      q = 0;
    if (::clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof type - 1, type, nullptr) !=
        CL_SUCCESS)
      type[0] = '\0';
    w.put(u32{q}).str(type);
  }
  s.reply(h, CL_SUCCESS, w.bytes());
}

void kernel_args(Server &s, const CommandHeader &h, Reader r) {
  u64 number = r.get<u64>();
  auto kernel = s.objects.get<cl_kernel>(Kind::Kernel, number);
  u32 n = r.get<u32>();
  cl_int status = kernel ? CL_SUCCESS : CL_INVALID_KERNEL;
  for (u32 i = 0; i < n && r.ok() && status == CL_SUCCESS; i++)
    status = set_argument(s, number, kernel, r);
  s.reply(h, status);
}

void transfer(Server &s, const CommandHeader &h, Reader r) {
  auto queue = s.objects.get<cl_command_queue>(Kind::Queue, r.get<u64>());
  auto mem = s.objects.get<cl_mem>(Kind::Mem, r.get<u64>());
  u64 offset = r.get<u64>(), size = r.get<u64>(), staging = r.get<u64>();
  std::vector<cl_event> waits;
  Place p = find_place(s, r, staging, size, waits);
  cl_event event = nullptr;
  cl_int status = CL_INVALID_VALUE;
  cl_uint n = static_cast<cl_uint>(waits.size());
  if (!queue || !mem || !r.ok() || !p.data) {
    // status stays CL_INVALID_VALUE
  } else if (s.objects.found_failed()) {
    status = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  } else if (static_cast<Op>(h.op) == Op::Read) {
    status = ::clEnqueueReadBuffer(queue, mem, CL_FALSE, offset, size, p.data, n,
                                   list_or_null(waits), &event);
  } else {
    status = ::clEnqueueWriteBuffer(queue, mem, CL_FALSE, offset, size, p.data, n,
                                    list_or_null(waits), &event);
  }
  s.enqueued(h, queue, event, status, std::move(p.own));
}

void transfer_rect(Server &s, const CommandHeader &h, Reader r) {
  auto queue = s.objects.get<cl_command_queue>(Kind::Queue, r.get<u64>());
  auto mem = s.objects.get<cl_mem>(Kind::Mem, r.get<u64>());
  size_t origin[3], region[3], zero[3] = {0, 0, 0};
  for (size_t &v : origin) v = r.get<u64>();
  for (size_t &v : region) v = r.get<u64>();
  u64 row = r.get<u64>(), slice = r.get<u64>(), staging = r.get<u64>();
  std::vector<cl_event> waits;
  u64 bytes = 0;
  bool sane = !__builtin_mul_overflow(region[0], region[1], &bytes) &&
              !__builtin_mul_overflow(bytes, region[2], &bytes);
  Place p = find_place(s, r, staging, bytes, waits);
  cl_event event = nullptr;
  cl_int status = CL_INVALID_VALUE;
  cl_uint n = static_cast<cl_uint>(waits.size());
  if (!queue || !mem || !r.ok() || !sane || !p.data) {
    // status stays CL_INVALID_VALUE
  } else if (s.objects.found_failed()) {
    status = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  } else if (static_cast<Op>(h.op) == Op::ReadRect) {
    status = ::clEnqueueReadBufferRect(queue, mem, CL_FALSE, origin, zero, region, row, slice, 0, 0,
                                       p.data, n, list_or_null(waits), &event);
  } else {
    status = ::clEnqueueWriteBufferRect(queue, mem, CL_FALSE, origin, zero, region, row, slice, 0,
                                        0, p.data, n, list_or_null(waits), &event);
  }
  s.enqueued(h, queue, event, status, std::move(p.own));
}

void share_memory(Server &s, const CommandHeader &h, Reader r, int file) {
  u64 number = r.get<u64>(), offset = r.get<u64>(), size = r.get<u64>();
  s.reply(h, r.ok() ? s.buffer_files.share(s.objects, {number, offset, size, 0}, file)
                    : CL_INVALID_VALUE);
}

void share_block(Server &s, const CommandHeader &h, Reader r, int file) {
  u64 number = r.get<u64>(), address = r.get<u64>(), size = r.get<u64>();
  bool sane = r.ok() && is_for_svm(address, size);
  s.reply(h, sane ? s.buffer_files.share(s.objects, {number, 0, size, address}, file)
                  : CL_INVALID_VALUE);
}

void share_in_block(Server &s, const CommandHeader &h, Reader r) {
  u64 number = r.get<u64>(), block = r.get<u64>(), offset = r.get<u64>(), size = r.get<u64>();
  s.reply(h, r.ok() ? s.buffer_files.share_in_block(s.objects, number, block, offset, size)
                    : CL_INVALID_VALUE);
}

namespace {

cl_int owe(Server &s, Reader &r) {
  OwedContents::Piece p;
  p.number = r.get<u64>();
  p.offset = r.get<u64>();
  p.bytes = r.get<u64>();
  p.at = r.get<u64>();
  p.mem = s.objects.get<cl_mem>(Kind::Mem, p.number);
  if (!r.ok() || !p.mem) return CL_INVALID_MEM_OBJECT;
  p.queue = s.transfer_queue(p.mem);
  p.pages = s.buffer_files.contents(p.number, p.offset, p.bytes);
  return s.owed.add(p);
}

void settle(Server &s, u64 number) { number ? s.owed.settle(number) : s.owed.settle_all(); }

}  // namespace

void owed_contents(Server &s, const CommandHeader &h, Reader r, int fd) {
  cl_int status = CL_SUCCESS;
  switch (static_cast<Op>(h.op)) {
    case Op::OwedFile: status = s.owed.open(fd, r.get<u64>()); break;
    case Op::Owed: status = owe(s, r); break;
    case Op::OwedBegin: status = s.owed.begin(fd); break;
    default: settle(s, r.get<u64>());
  }
  if (status != CL_SUCCESS)
    log::error("the contents of buffers are not copied: OpenCL error {}", status);
  s.reply(h, status);
}

namespace {

// A second thread writes to it.
bool may_load_beside(cl_mem mem, u64 bytes) {
  size_t size = 0;
  cl_context context = nullptr;
  ::clGetMemObjectInfo(mem, CL_MEM_SIZE, sizeof size, &size, nullptr);
  ::clGetMemObjectInfo(mem, CL_MEM_CONTEXT, sizeof context, &context, nullptr);
  return size == bytes && std::ranges::none_of(devices_in(context), single_threaded);
}

cl_int announce_arrival(Server &s, Reader &r) {
  ArrivingContents::Buffer b;
  b.number = r.get<u64>();
  b.bytes = r.get<u64>();
  for (u32 n = read_count(r, sizeof(u64)); n > 0 && r.ok(); n--) b.others.push_back(r.get<u64>());
  b.mem = s.objects.get<cl_mem>(Kind::Mem, b.number);
  if (!r.ok() || !b.mem || !may_load_beside(b.mem, b.bytes)) return s.arriving.add({});
  b.pages = s.buffer_files.contents(b.number, 0, b.bytes);
  b.queue = s.transfer_queue(b.mem);
  return s.arriving.add(std::move(b));
}

}  // namespace

void arriving_contents(Server &s, const CommandHeader &h, Reader r, int fd) {
  cl_int status = CL_SUCCESS;
  switch (static_cast<Op>(h.op)) {
    case Op::ArrivesLater: status = announce_arrival(s, r); break;
    case Op::ArrivalBegin: status = s.arriving.begin(fd); break;
    default: s.wait_for_contents(r.get<u64>());
  }
  s.reply(h, status);
}

void buffer_file(Server &s, const CommandHeader &h, Reader r) {
  int file = s.buffer_files.file(r.get<u64>());
  if (file < 0 || !(h.flags & kSync)) return s.reply(h, CL_INVALID_MEM_OBJECT);
  s.reply(h, CL_SUCCESS);
  // After the reply, because the client reads the socket only when that is ready.
  if (auto r = send_message(s.channel.socket(), kBufferFile, {}, std::span(&file, 1)); !r)
    log::error(r.error());
}

namespace {

// A restore or checkpoint copies to or from a buffer with a buffer file without the driver.
bool move_in_file(Server &s, const CommandHeader &h, u64 number, u64 offset, u64 bytes,
                  std::byte *data) {
  std::byte *contents = s.buffer_files.contents(number, offset, bytes);
  if (!contents) return false;
  bool reading = static_cast<Op>(h.op) == Op::ReadContents;
  std::memcpy(reading ? data : contents, reading ? contents : data, bytes);
  s.reply(h, CL_SUCCESS);
  return true;
}

}  // namespace

// The contents of a memory object, for a checkpoint, a restore or a new object. No command is under
// way.
void move_contents(Server &s, const CommandHeader &h, Reader r) {
  u64 number = r.get<u64>();
  auto mem = s.objects.get<cl_mem>(Kind::Mem, number);
  u64 offset = r.get<u64>(), bytes = r.get<u64>(), place = r.get<u64>();
  bool from_tool = r.get<u8>() != 0;
  std::byte *data = from_tool ? s.tool_staging(place, bytes) : s.channel.staging(place, bytes);
  cl_command_queue queue = mem ? s.transfer_queue(mem) : nullptr;
  if (!r.ok() || !data || !queue) return s.reply(h, CL_INVALID_VALUE);
  if (move_in_file(s, h, number, offset, bytes, data)) return;
  bool reading = static_cast<Op>(h.op) == Op::ReadContents;
  if (is_image(mem)) return s.reply(h, move_image(queue, mem, reading, offset, bytes, data));
  s.reply(h, reading ? ::clEnqueueReadBuffer(queue, mem, CL_TRUE, offset, bytes, data, 0, nullptr,
                                             nullptr)
                     : ::clEnqueueWriteBuffer(queue, mem, CL_TRUE, offset, bytes, data, 0, nullptr,
                                              nullptr));
}

}  // namespace ckpt::ocl
