// SPDX-License-Identifier: Apache-2.0
//
// Platforms and devices: those that the proxy shows.
#include "libckpt-ocl/client/entry/devices.h"

#include <mutex>

#include "agent/participant/participant.h"
#include "common/base/log.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/device_info.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/lifecycle/manager_requests.h"
#include "libckpt-ocl/client/lifecycle/participant.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/object/info.h"

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
      d->real = {plat.name, dev.name, seen[dev.name]++, {}};
      registry().add(d);
      p->devices.push_back(d);
    }
    registry().add(p);
    platforms().list.push_back(p);
  }
}

void note_versions() {
  for (Platform *p : platforms().list) {
    Bytes answer;
    remote_info(InfoOf::Platform, *p, p->devices[0]->number, CL_PLATFORM_VERSION, answer);
    p->shown = version_to_show(answer);
    for (Device *d : p->devices) {
      remote_info(InfoOf::Device, *d, 0, CL_DEVICE_VERSION, answer);
      d->shown = version_to_show(answer);
    }
  }
}

// Starts a proxy with the real drivers. False: this program sees no OpenCL device.
bool start_proxy(const std::string &session, const std::string &device) {
  Result<Greeting> greeting = link().open(session, device);
  if (!greeting) {
    log::error(greeting.error());
    return false;
  }
  if (greeting->platforms.empty() && !device.empty())
    log::error(
        Error{fmt::format("assigned OpenCL device {} is not visible to this program", device),
              "start ckptd with the same OpenCL drivers as the program (OCL_ICD_VENDORS)"});
  report_memory_owner(greeting->pid);
  make_devices(*greeting);
  if (map_devices())
    note_versions();
  else
    log::error("the OpenCL proxy does not find its own devices again");
  return true;
}

void connect() {
  std::string session = agent::session_socket();
  if (session.empty()) {
    log::warn("this program was not started by ckpt-run, so it sees no OpenCL device");
    return;
  }
  std::optional<std::string> device = acquire_device();
  if (!device) return;
  bool started = false;
  auto start = [&] {
    started = true;
    return start_proxy(session, *device);
  };
  if (auto r = agent::start_participant(participant(), start); !r) log::error(r.error());
  if (!started) start();
  device_acquired();
}

}  // namespace

std::set<Device *> used_devices() {
  std::set<Device *> used;
  registry().each<Context>([&](Context &c) {
    for (Device *d : c.devices) used.insert(d->root());
  });
  return used;
}

bool map_devices() {
  Writer w;
  std::vector<Device *> devices = registry().all<Device>();
  std::erase_if(devices, [](Device *d) { return d->partition; });
  std::set<Device *> used = used_devices();
  w.put(static_cast<u32>(devices.size()));
  for (Device *d : devices)
    w.put(d->number)
        .put(u8{used.count(d) != 0})
        .str(d->real.platform)
        .str(d->real.name)
        .put(d->real.nth);
  Bytes reply;
  cl_int status = link().round_trip(Op::MapDevices, 0, w.bytes(), &reply);
  Reader r(reply);
  for (Device *d : devices) {
    d->present = r.get<u8>() != 0;
    std::string_view platform = r.str(), name = r.str();
    u32 nth = r.get<u32>();
    if (d->present && r.ok()) d->real = {std::string(platform), std::string(name), nth, {}};
  }
  for (Device *d : devices)
    if (!r.done()) d->real.uuid = r.str();
  for (Device *d : registry().all<Device>()) {
    if (!d->partition) continue;
    d->present = d->root()->present;
    d->real = d->root()->real;
  }
  return status == CL_SUCCESS && r.ok();
}

cl_int platform_ids(cl_uint n, cl_platform_id *out, cl_uint *count) {
  if ((!out && !count) || (out && n == 0)) return CL_INVALID_VALUE;
  ApiCall call;
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
  ApiCall call;
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
      return out.text(shown_text(p->shown, answer));
    default: break;
  }
  if (p->shown < CL_MAKE_VERSION(3, 0, 0)) return CL_INVALID_VALUE;
  switch (param) {
    case CL_PLATFORM_NUMERIC_VERSION: return out.scalar(p->shown);
    case CL_PLATFORM_EXTENSIONS_WITH_VERSION:
      return out.scalar(cl_name_version{CL_MAKE_VERSION(1, 0, 0), "cl_khr_icd"});
    // "If this value is 0, the timers are not supported": after a restore the clock is another.
    case CL_PLATFORM_HOST_TIMER_RESOLUTION: return out.scalar(cl_ulong{0});
    default: return CL_INVALID_VALUE;
  }
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *out,
                      cl_uint *count) {
  ApiCall call;
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

}  // namespace ckpt::ocl::entry
