// SPDX-License-Identifier: Apache-2.0
//
// Platforms and devices: those of the proxy, less what we do not keep. A limit that the program has
// read stays with the device as `relied`, and a restore checks it against the new one.
#include <mutex>

#include "agent/participant.h"
#include "ckpt_config.h"
#include "common/log.h"
#include "libckpt-ocl/client/devices.h"
#include "libckpt-ocl/client/icd.h"
#include "libckpt-ocl/client/info.h"
#include "libckpt-ocl/client/link.h"
#include "libckpt-ocl/client/participant.h"
#include "libckpt-ocl/device_limits.h"

namespace ckpt::ocl {
namespace {

struct Platforms {
  std::once_flag connected;
  std::vector<Platform *> list;
};

Platforms &platforms() {
  static Platforms *p = new Platforms;
  return *p;
}

void make_devices(const Greeting &g) {
  for (const Greeting::Plat &plat : g.platforms) {
    auto *p = new Platform;
    p->name = plat.name;
    std::map<std::string, u32> seen;
    for (const Greeting::Dev &dev : plat.devices) {
      auto *d = new Device;
      d->platform = p;
      d->name = dev.name;
      d->type = dev.type;
      d->real = {plat.name, dev.name, seen[dev.name]++};
      registry().add(d);
      p->devices.push_back(d);
    }
    registry().add(p);
    platforms().list.push_back(p);
  }
}

void connect() {
  std::string session = session_socket();
  if (session.empty()) {
    log::warn("this program was not started by ckpt-run: it sees no OpenCL device");
    return;
  }
  Result<Greeting> greeting = link().open(session);
  if (!greeting) return log::error(greeting.error());
  make_devices(*greeting);
  if (!map_devices()) return log::error("the proxy does not know its own devices");
  if (auto r = add_participant(participant()); !r) log::error(r.error());
}

// Language extensions that need nothing of us at run time, and so survive any restore onto a device
// that has them too.
bool survives(std::string_view extension) {
  static constexpr std::string_view kKept[] = {"cl_khr_fp64",
                                               "cl_khr_fp16",
                                               "cl_khr_byte_addressable_store",
                                               "cl_khr_global_int32_base_atomics",
                                               "cl_khr_global_int32_extended_atomics",
                                               "cl_khr_local_int32_base_atomics",
                                               "cl_khr_local_int32_extended_atomics",
                                               "cl_khr_int64_base_atomics",
                                               "cl_khr_int64_extended_atomics",
                                               "cl_khr_select_fprounding_mode",
                                               "cles_khr_int64",
                                               "cl_khr_expect_assume"};
  return std::find(std::begin(kKept), std::end(kKept), extension) != std::end(kKept);
}

std::string kept_extensions(std::string_view all) {
  std::string out;
  while (!all.empty()) {
    size_t end = std::min(all.find(' '), all.size());
    std::string_view one = all.substr(0, end);
    if (survives(one)) out += (out.empty() ? "" : " ") + std::string(one);
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return out;
}

std::string_view as_text(const Bytes &b) {
  std::string_view s = text(b);
  return s.substr(0, s.find('\0'));
}

void note_reliance(Device &d, cl_device_info param, const Bytes &value) {
  const Limit *limit = find_limit(param);
  if (!limit) return;
  LimitValue v = limit_value(value);
  std::lock_guard lock(d.mutex);
  auto [relied, first] = d.relied.emplace(param, v);
  if (!first) merge_limit(*limit, true, relied->second, v);
}

// What is the same for every device that we show.
std::optional<cl_int> fixed_device_info(Device &d, cl_device_info param, const Answer &out) {
  switch (param) {
    case CL_DEVICE_TYPE: return out.scalar(d.type);
    case CL_DEVICE_PLATFORM: return out.scalar(handle<cl_platform_id>(d.platform));
    case CL_DEVICE_PARENT_DEVICE: return out.scalar(cl_device_id{nullptr});
    case CL_DEVICE_REFERENCE_COUNT: return out.scalar(cl_uint{1});
    case CL_DEVICE_AVAILABLE: return out.scalar(cl_bool{d.present});
    case CL_DEVICE_IMAGE_SUPPORT: return out.scalar(cl_bool{CL_FALSE});
    case CL_DEVICE_MAX_SAMPLERS:
    case CL_DEVICE_MAX_READ_IMAGE_ARGS:
    case CL_DEVICE_MAX_WRITE_IMAGE_ARGS: return out.scalar(cl_uint{0});
    case CL_DEVICE_IMAGE2D_MAX_WIDTH:
    case CL_DEVICE_IMAGE2D_MAX_HEIGHT:
    case CL_DEVICE_IMAGE3D_MAX_WIDTH:
    case CL_DEVICE_IMAGE3D_MAX_HEIGHT:
    case CL_DEVICE_IMAGE3D_MAX_DEPTH:
    case CL_DEVICE_IMAGE_MAX_BUFFER_SIZE:
    case CL_DEVICE_IMAGE_MAX_ARRAY_SIZE: return out.scalar(size_t{0});
    case CL_DEVICE_EXECUTION_CAPABILITIES:
      return out.scalar(cl_device_exec_capabilities{CL_EXEC_KERNEL});
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES: return out.scalar(cl_uint{0});
    case CL_DEVICE_PARTITION_PROPERTIES: return out.scalar(cl_device_partition_property{0});
    case CL_DEVICE_PARTITION_TYPE: return out.bytes(nullptr, 0);
    case CL_DEVICE_PARTITION_AFFINITY_DOMAIN: return out.scalar(cl_device_affinity_domain{0});
    case CL_DEVICE_BUILT_IN_KERNELS: return out.text("");
    case CL_DEVICE_OPENCL_C_VERSION: return out.text("OpenCL C 1.2 ckpt");
    default: break;
  }
  // OpenCL 2.x and 3.0 are not advertised; vendors' own questions (0x4000 and up) pass.
  if (param > CL_DEVICE_PRINTF_BUFFER_SIZE && param < 0x4000) return CL_INVALID_VALUE;
  return {};
}

std::optional<cl_int> device_text(cl_device_info param, const Bytes &value, const Answer &out) {
  std::string_view v = as_text(value);
  switch (param) {
    case CL_DEVICE_VERSION: return out.text(fmt::format("OpenCL 1.2 ckpt {}", v));
    // Programs key their caches of binaries on this, and ours hold our container.
    case CL_DRIVER_VERSION: return out.text(fmt::format("{} ckpt {}", v, CKPT_VERSION));
    case CL_DEVICE_EXTENSIONS: return out.text(kept_extensions(v));
    default: return {};
  }
}

}  // namespace

bool map_devices() {
  Writer w;
  std::vector<Device *> devices = registry().all<Device>();
  std::set<Device *> used;
  for (Context *c : registry().all<Context>()) used.insert(c->devices.begin(), c->devices.end());
  w.put(static_cast<u32>(devices.size()));
  for (Device *d : devices)
    w.put(d->number)
        .put(u8{used.count(d) != 0})
        .str(d->real.platform)
        .str(d->real.name)
        .put(d->real.nth);
  Bytes reply;
  cl_int status = link().ask(Op::MapDevices, 0, w.bytes(), &reply);
  Reader r(reply);
  for (Device *d : devices) {
    d->present = r.get<u8>() != 0;
    std::string_view platform = r.str(), name = r.str();
    u32 nth = r.get<u32>();
    if (d->present && r.ok()) d->real = {std::string(platform), std::string(name), nth};
  }
  return status == CL_SUCCESS && r.ok();
}

cl_int platform_ids(cl_uint n, cl_platform_id *out, cl_uint *count) {
  if ((!out && !count) || (out && n == 0)) return CL_INVALID_VALUE;
  Entry entry;
  std::call_once(platforms().connected, connect);
  const auto &list = platforms().list;
  if (count) *count = static_cast<cl_uint>(list.size());
  for (cl_uint i = 0; out && i < n && i < list.size(); i++)
    out[i] = handle<cl_platform_id>(list[i]);
  return list.empty() ? CL_PLATFORM_NOT_FOUND_KHR : CL_SUCCESS;
}

Platform *default_platform() {
  return platforms().list.empty() ? nullptr : platforms().list.front();
}

}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info param, size_t room, void *value,
                         size_t *needed) {
  Entry entry;
  Answer out{room, value, needed};
  auto *p = platform ? object<Platform>(platform) : default_platform();
  if (!p) return CL_INVALID_PLATFORM;
  Bytes answer;
  switch (param) {
    case CL_PLATFORM_NAME: return out.text(p->name);
    case CL_PLATFORM_PROFILE: return out.text("FULL_PROFILE");
    case CL_PLATFORM_EXTENSIONS: return out.text("cl_khr_icd");
    case CL_PLATFORM_ICD_SUFFIX_KHR: return out.text("CKPT");
    case CL_PLATFORM_VENDOR:
      return remote_info(InfoOf::Platform, *p, p->devices[0]->number, param, out);
    case CL_PLATFORM_VERSION:
      if (cl_int r = remote_info(InfoOf::Platform, *p, p->devices[0]->number, param, answer);
          r != CL_SUCCESS)
        return r;
      return out.text(fmt::format("OpenCL 1.2 ckpt {}", as_text(answer)));
    default: return CL_INVALID_VALUE;
  }
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *out,
                      cl_uint *count) {
  Entry entry;
  auto *p = platform ? object<Platform>(platform) : default_platform();
  if (!p) return CL_INVALID_PLATFORM;
  if ((!out && !count) || (out && n == 0)) return CL_INVALID_VALUE;
  constexpr cl_device_type kTypes = CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_CPU |
                                    CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR |
                                    CL_DEVICE_TYPE_CUSTOM;
  if (type != CL_DEVICE_TYPE_ALL && (type == 0 || (type & ~kTypes))) return CL_INVALID_DEVICE_TYPE;
  std::vector<Device *> found;
  for (Device *d : p->devices)
    if (type == CL_DEVICE_TYPE_ALL || (d->type & type & ~cl_device_type{CL_DEVICE_TYPE_DEFAULT}) ||
        ((type & CL_DEVICE_TYPE_DEFAULT) && found.empty()))
      found.push_back(d);
  if (count) *count = static_cast<cl_uint>(found.size());
  for (cl_uint i = 0; out && i < n && i < found.size(); i++)
    out[i] = handle<cl_device_id>(found[i]);
  return found.empty() ? CL_DEVICE_NOT_FOUND : CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info param, size_t room, void *value,
                       size_t *needed) {
  Entry entry;
  Answer out{room, value, needed};
  auto *d = object<Device>(device);
  if (!d) return CL_INVALID_DEVICE;
  if (auto fixed = fixed_device_info(*d, param, out)) return *fixed;
  if (!d->present) return CL_INVALID_DEVICE;
  Bytes answer;
  if (cl_int r = remote_info(InfoOf::Device, *d, 0, param, answer); r != CL_SUCCESS) return r;
  if (auto shown = device_text(param, answer, out)) return *shown;
  if (value) note_reliance(*d, param, answer);
  return out.bytes(answer);
}

cl_int clRetainDevice(cl_device_id device) {
  return object<Device>(device) ? CL_SUCCESS : CL_INVALID_DEVICE;
}

cl_int clReleaseDevice(cl_device_id device) {
  return object<Device>(device) ? CL_SUCCESS : CL_INVALID_DEVICE;
}

}  // namespace ckpt::ocl::entry
