// SPDX-License-Identifier: Apache-2.0
//
// The priority of a guest's streams, and of its launches, is the lowest that the device has,
// whatever the program asks for; queries are answered with what it asked for. Priorities order the
// streams of one process, and of all clients of one MPS server (CUDA driver API, Stream Management;
// Multi-Process Service). Not run on a GPU.
#include "libckpt-cuda/guest/priorities.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "common/base/log.h"
#include "libckpt-cuda/entry/pass.h"
#include "slicing/settings.h"

namespace ckpt::cuda {
namespace {

// Lower numbers are higher priorities.
struct Range {
  int lowest = 0, highest = 0;
  bool is_any() const { return lowest != highest; }
  int allowed(int asked) const { return std::clamp(asked, highest, lowest); }
};

// Of the current context's device. Empty without --guest.
Range range() {
  Range r;
  if (!slicing::settings().guest || driver().cuCtxGetStreamPriorityRange == nullptr ||
      driver().cuCtxGetStreamPriorityRange(&r.lowest, &r.highest) != CUDA_SUCCESS ||
      r.lowest < r.highest)
    return {};
  return r;
}

// What the program asked for, where it has something else. Never destroyed. The handle of a stream
// that was destroyed may come again: each creation says anew what holds.
struct Asked {
  std::mutex mutex;
  std::unordered_map<CUstream, int> priorities;
};
Asked &asked() {
  static auto *const kAsked = new Asked;
  return *kAsked;
}

void note(CUstream stream, int priority, const Range &r) {
  std::lock_guard lock(asked().mutex);
  if (!r.is_any() || priority == r.lowest)
    asked().priorities.erase(stream);
  else
    asked().priorities[stream] = priority;
}

bool find(CUstream stream, int &priority) {
  std::lock_guard lock(asked().mutex);
  auto it = asked().priorities.find(stream);
  if (it == asked().priorities.end()) return false;
  priority = it->second;
  return true;
}

// Asks the driver, for the log.
void log_priority(CUstream stream, int priority) {
  int real = 0;
  if (log::enabled(log::Level::Debug) && REAL(cuStreamGetPriority)(stream, &real) == CUDA_SUCCESS)
    log::debug("a stream has the priority {}, {} was asked for", real, priority);
}

CUresult create(CUstream *out, unsigned flags, int priority) {
  Range r = range();
  CUresult e = REAL(cuStreamCreateWithPriority)(out, flags, r.is_any() ? r.lowest : priority);
  if (e != CUDA_SUCCESS) return e;
  note(*out, r.allowed(priority), r);
  if (r.is_any()) log_priority(*out, priority);
  return e;
}

using GetPriority = CUresult (*)(CUstream, int *);
CUresult get_priority(GetPriority real, CUstream stream, int *priority) {
  CUresult e = real(stream, priority);
  if (e == CUDA_SUCCESS && priority != nullptr) find(stream, *priority);
  return e;
}

using GetAttribute = CUresult (*)(CUstream, CUstreamAttrID, CUstreamAttrValue *);
CUresult get_attribute(GetAttribute real, CUstream stream, CUstreamAttrID id,
                       CUstreamAttrValue *value) {
  CUresult e = real(stream, id, value);
  if (e == CUDA_SUCCESS && id == CU_LAUNCH_ATTRIBUTE_PRIORITY) find(stream, value->priority);
  return e;
}

using SetAttribute = CUresult (*)(CUstream, CUstreamAttrID, const CUstreamAttrValue *);
CUresult set_attribute(SetAttribute real, CUstream stream, CUstreamAttrID id,
                       const CUstreamAttrValue *value) {
  Range r = id == CU_LAUNCH_ATTRIBUTE_PRIORITY && value != nullptr ? range() : Range{};
  if (!r.is_any()) return real(stream, id, value);
  CUstreamAttrValue lowest = *value;
  lowest.priority = r.lowest;
  CUresult e = real(stream, id, &lowest);
  if (e != CUDA_SUCCESS) return e;
  note(stream, r.allowed(value->priority), r);
  log_priority(stream, value->priority);
  return e;
}

}  // namespace

namespace guest {

LowestPriority::LowestPriority(CUlaunchConfig &config) {
  auto is_priority = [](const CUlaunchAttribute &a) {
    return a.id == CU_LAUNCH_ATTRIBUTE_PRIORITY;
  };
  if (config.attrs == nullptr || config.numAttrs == 0 ||
      std::none_of(config.attrs, config.attrs + config.numAttrs, is_priority))
    return;
  Range r = range();
  if (!r.is_any()) return;
  attributes_.assign(config.attrs, config.attrs + config.numAttrs);
  for (CUlaunchAttribute &a : attributes_)
    if (is_priority(a)) a.value.priority = r.lowest;
  config.attrs = attributes_.data();
}

void report_alternatives() {
  Range r = range();
  CUdevice device = 0;
  int preemption = 0;
  if (driver().cuCtxGetDevice(&device) == CUDA_SUCCESS)
    driver().cuDeviceGetAttribute(&preemption, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED,
                                  device);
  log::info("guest: stream priorities: {}; green contexts: {}; preemption of kernels: {}",
            r.is_any() ? fmt::format("{} to {}, the lowest is used", r.lowest, r.highest) : "none",
            driver().cuGreenCtxCreate != nullptr ? "offered, not used" : "not offered",
            preemption != 0 ? "offered, not used" : "not offered");
}

}  // namespace guest

CUresult guest_cuStreamCreate(CUstream *out, unsigned flags) {
  PASS_OR_RETURN(pass);
  return create(out, flags, 0);
}
CUresult guest_cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  PASS_OR_RETURN(pass);
  return create(out, flags, priority);
}

CUresult guest_cuStreamGetPriority(CUstream stream, int *priority) {
  PASS_OR_RETURN(pass);
  return get_priority(REAL(cuStreamGetPriority), stream, priority);
}
CUresult guest_cuStreamGetPriority_ptsz(CUstream stream, int *priority) {
  PASS_OR_RETURN(pass);
  return get_priority(REAL(cuStreamGetPriority_ptsz), stream, priority);
}

CUresult guest_cuStreamGetAttribute(CUstream stream, CUstreamAttrID id, CUstreamAttrValue *value) {
  PASS_OR_RETURN(pass);
  return get_attribute(REAL(cuStreamGetAttribute), stream, id, value);
}
CUresult guest_cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID id,
                                         CUstreamAttrValue *value) {
  PASS_OR_RETURN(pass);
  return get_attribute(REAL(cuStreamGetAttribute_ptsz), stream, id, value);
}

CUresult guest_cuStreamSetAttribute(CUstream stream, CUstreamAttrID id,
                                    const CUstreamAttrValue *value) {
  PASS_OR_RETURN(pass);
  return set_attribute(REAL(cuStreamSetAttribute), stream, id, value);
}
CUresult guest_cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID id,
                                         const CUstreamAttrValue *value) {
  PASS_OR_RETURN(pass);
  return set_attribute(REAL(cuStreamSetAttribute_ptsz), stream, id, value);
}

}  // namespace ckpt::cuda
