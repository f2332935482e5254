// SPDX-License-Identifier: Apache-2.0
//
// How busy the devices are, which process keeps them busy, and what power that takes: only with a
// model (docs/SOFTCUDA.md, "The device clock"), whose engines the broker has.
#include <algorithm>
#include <map>

#include "softcuda/device/model.h"
#include "softcuda/nvml/session.h"

using namespace ckpt;
using namespace ckpt::softcuda;
using namespace ckpt::softcuda::nvml;

namespace {

std::optional<Model> find_model() {
  Result<std::optional<Model>> found = model_of_environment();
  return found ? *found : std::nullopt;
}

// What the device's engines have done: only a device with a model has engines. Under the lock.
nvmlReturn_t engines_of(u32 index, Model &model, broker::EngineUse &out) {
  std::optional<Model> found = find_model();
  if (!found) return NVML_ERROR_NOT_SUPPORTED;
  auto use = ask<broker::EngineUse>([&](broker::Client &c) { return c.engines(index); });
  if (!use) return NVML_ERROR_UNKNOWN;
  model = *found;
  out = *use;
  return NVML_SUCCESS;
}

// What a device with the power of the model would have consumed.
nvmlReturn_t with_power(nvmlDevice_t device,
                        const std::function<void(const Model &, const broker::EngineUse &)> &give) {
  WITH_DEVICE(device, index);
  Model model;
  broker::EngineUse use;
  if (nvmlReturn_t e = engines_of(index, model, use); e != NVML_SUCCESS) return e;
  if (!model.has_power()) return NVML_ERROR_NOT_SUPPORTED;
  give(model, use);
  return NVML_SUCCESS;
}

// What this process has last read of a device's engines, and the rates that followed from it.
struct Sample {
  broker::EngineUse use;
  nvmlUtilization_t rates{};
};

// The shortest that the reference of nvmlUtilization_t names.
constexpr i64 kSampleNanoseconds = 1'000'000'000 / 6;

unsigned percent(i64 part, i64 whole) {
  return static_cast<unsigned>(std::clamp<i64>(100 * part / whole, 0, 100));
}

nvmlUtilization_t rates_between(const broker::EngineUse &a, const broker::EngineUse &b) {
  i64 time = b.all - a.all;
  return {percent(b.kernels - a.kernels, time), percent(b.bus - a.bus, time)};
}

}  // namespace

// Between two calls of this process that are a sample period apart. Until then: whether an engine
// works at this moment. "memory" is the time of copies.
NVML_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out) {
  static std::map<u32, Sample> samples;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  WITH_DEVICE(device, index);
  Model model;
  broker::EngineUse use;
  if (nvmlReturn_t e = engines_of(index, model, use); e != NVML_SUCCESS) return e;
  auto [at, is_first] = samples.try_emplace(index);
  Sample &last = at->second;
  if (is_first || use.all < last.use.all)  // the latter: another broker's
    last = {use, {use.runs_kernel ? 100u : 0u, use.uses_bus ? 100u : 0u}};
  else if (use.all - last.use.all >= kSampleNanoseconds)
    last = {use, rates_between(last.use, use)};
  *out = last.rates;
  return NVML_SUCCESS;
}

// Millijoules since the driver was loaded: here since the broker's start.
NVML_API nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                          unsigned long long *out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return with_power(device, [&](const Model &m, const broker::EngineUse &use) {
    constexpr double kMillijoules = 1e-6;  // of a watt for a nanosecond
    double sum = m.idle * static_cast<double>(use.all) +
                 m.active * static_cast<double>(use.kernels) +
                 m.copying * static_cast<double>(use.bus);
    *out = static_cast<unsigned long long>(sum * kMillijoules);
  });
}

// Milliwatts at this moment.
NVML_API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return with_power(device, [&](const Model &m, const broker::EngineUse &use) {
    double watts = m.idle + (use.runs_kernel ? m.active : 0) + (use.uses_bus ? m.copying : 0);
    *out = static_cast<unsigned>(watts * 1e3);
  });
}

namespace {

// With the names of the processes' share in them: those that have used the device since the last
// call of this process, which took place at `before`.
std::vector<nvmlProcessUtilizationSample_t> samples_between(const broker::KernelTimes &before,
                                                            const broker::KernelTimes &now) {
  constexpr i64 kMicrosecond = 1000;
  std::vector<nvmlProcessUtilizationSample_t> samples;
  for (auto [pid, nanoseconds] : now.of) {
    auto then = before.of.find(pid);
    i64 more = nanoseconds - (then == before.of.end() ? 0 : then->second);
    if (more <= 0) continue;
    samples.push_back({.pid = static_cast<unsigned>(pid),
                       .timeStamp = static_cast<unsigned long long>(now.all / kMicrosecond),
                       .smUtil = percent(more, std::max<i64>(1, now.all - before.all))});
  }
  return samples;
}

}  // namespace

// *count: in, the size of `out`; out, the number of samples. They are of the time since the last
// call that has given any, and not since `last_seen`, which would be the same for one reader.
NVML_API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                      nvmlProcessUtilizationSample_t *out,
                                                      unsigned int *count,
                                                      unsigned long long last_seen) {
  static std::map<u32, broker::KernelTimes> given;
  (void)last_seen;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  WITH_DEVICE(device, index);
  if (!find_model()) return NVML_ERROR_NOT_SUPPORTED;
  auto now = ask<broker::KernelTimes>([&](broker::Client &c) { return c.kernel_times(index); });
  if (!now) return NVML_ERROR_UNKNOWN;
  broker::KernelTimes &before = given[index];
  if (now->all < before.all) before = {};  // another broker's
  auto samples = samples_between(before, *now);
  bool fits = out != nullptr && samples.size() <= *count;
  *count = static_cast<unsigned>(samples.size());
  if (samples.empty()) return NVML_ERROR_NOT_FOUND;
  if (!fits) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::ranges::copy(samples, out);
  before = *now;
  return NVML_SUCCESS;
}
