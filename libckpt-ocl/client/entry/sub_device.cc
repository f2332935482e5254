// SPDX-License-Identifier: Apache-2.0
//
// Sub-devices. The ledger entry of a partition recreates all of its live sub-devices. On a device
// that cannot be divided in this way, the whole device stands for each of them.
#include "libckpt-ocl/client/entry/sub_device.h"

#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/object/info.h"

namespace ckpt::ocl {
namespace {

// More properties than any valid list has: bounds the reading of a list without its end mark.
constexpr size_t kMaxProperties = 4096;

// Copies a list with its final 0. CL_DEVICE_PARTITION_BY_COUNTS has an end mark of its own before
// it.
cl_int read_list(const cl_device_partition_property *p,
                 std::vector<cl_device_partition_property> &out) {
  if (!p) return CL_INVALID_VALUE;
  switch (p[0]) {
    case CL_DEVICE_PARTITION_EQUALLY:
    case CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN: out = {p[0], p[1], 0}; break;
    case CL_DEVICE_PARTITION_BY_COUNTS:
      out.push_back(*p++);
      while (*p != CL_DEVICE_PARTITION_BY_COUNTS_LIST_END && out.size() < kMaxProperties)
        out.push_back(*p++);
      out.insert(out.end(), {CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0});
      break;
    default: return CL_INVALID_VALUE;
  }
  return CL_SUCCESS;
}

// Whether the device advertises this kind of partition. The others must not be tried, because a
// driver without partitions may lack the function (rusticl of Mesa 22.3.6 does).
bool offers(const Device &d, cl_device_partition_property kind) {
  Bytes value;
  if (remote_info(InfoOf::Device, d, 0, CL_DEVICE_PARTITION_PROPERTIES, value) != CL_SUCCESS)
    return false;
  cl_device_partition_property p;
  for (size_t at = 0; at + sizeof p <= value.size(); at += sizeof p) {
    std::memcpy(&p, value.data() + at, sizeof p);
    if (p == kind) return true;
  }
  return false;
}

Bytes payload(const Partition &p, bool whole_device) {
  Writer w;
  w.put(p.parent->number).put(static_cast<u32>(p.properties.size()));
  for (cl_device_partition_property x : p.properties) w.put(i64{x});
  w.put(u8{whole_device}).put(static_cast<u32>(p.numbers.size()));
  for (u64 n : p.numbers) w.put(n);
  return w.take();
}

cl_int send(const Partition &p, u32 &there) {
  Bytes reply;
  cl_int status = link().round_trip(Op::SubDevices, 0, payload(p, false), &reply);
  if (status == CL_SUCCESS) there = Reader(reply).get<u32>();
  return status;
}

Device *make_sub_device(Partition &p) {
  Device &parent = *p.parent;
  auto *d = new Device;
  d->platform = parent.platform;
  d->name = parent.name;
  d->type = parent.type;
  d->shown = parent.shown;
  d->partition = Ref<Partition>(&p);
  p.numbers.push_back(d->number);
  return d;
}

// Creates the sub-devices. Returns them in order, or none and the driver's error in `status`.
std::vector<Device *> divide(Partition &p, u32 count, cl_int &status) {
  std::vector<Device *> parts;
  for (u32 i = 0; i < count; i++) parts.push_back(make_sub_device(p));
  u32 there = 0;
  status = send(p, there);
  if (status == CL_SUCCESS) {
    p.record(static_cast<u16>(Op::SubDevices), payload(p, true));
    registry().add(&p);
    for (Device *d : parts) registry().add(d);
    return parts;
  }
  for (Device *d : parts) delete d;
  return {};
}

}  // namespace

void destroy_sub_device(Device *d) {
  Partition &p = *d->partition;
  {
    std::lock_guard lock(p.mutex);
    std::replace(p.numbers.begin(), p.numbers.end(), d->number, u64{0});
    p.ledger_entries.front().payload = payload(p, true);
  }
  registry().remove(d);
  forget_info(d);
  link().release_later({Kind::Device, d->number});
  delete d;
}

}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clCreateSubDevices(cl_device_id device, const cl_device_partition_property *list,
                          cl_uint room, cl_device_id *out, cl_uint *count) {
  ApiCall call;
  auto *d = object<Device>(device);
  if (!d) return CL_INVALID_DEVICE;
  auto *p = new Partition;
  Ref<Partition> kept(p);
  p->drop();  // only the sub-devices keep it
  p->parent = Ref<Device>(d);
  u32 there = 0;
  if (cl_int r = read_list(list, p->properties); r != CL_SUCCESS) return r;
  if (!offers(*d, p->properties[0])) return CL_INVALID_VALUE;
  if (cl_int r = send(*p, there); r != CL_SUCCESS) return r;
  if (out && room < there) return CL_INVALID_VALUE;
  if (count) *count = there;
  if (!out) return CL_SUCCESS;
  cl_int status;
  std::vector<Device *> parts = divide(*p, there, status);
  for (size_t i = 0; i < parts.size(); i++) out[i] = handle<cl_device_id>(parts[i]);
  return status;
}

cl_int clRetainDevice(cl_device_id device) {
  auto *d = object<Device>(device);
  if (!d) return CL_INVALID_DEVICE;
  return d->partition ? retain<Device>(device, CL_INVALID_DEVICE) : CL_SUCCESS;
}

cl_int clReleaseDevice(cl_device_id device) {
  ApiCall call;
  auto *d = object<Device>(device);
  if (!d) return CL_INVALID_DEVICE;
  if (!d->partition) return CL_SUCCESS;
  return release_call<Device>(device, CL_INVALID_DEVICE);
}

}  // namespace ckpt::ocl::entry
