// SPDX-License-Identifier: Apache-2.0
//
// NVML, as NVIDIA's "NVML API Reference Guide" documents it. The packages of the CUDA toolkit lack
// nvml.h, so its declarations stand here. The library is loaded at run time, because a node without
// a driver has none.
#include "manager/daemon/measure/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace ckpt::manager {
namespace {

using Device = struct nvmlDevice_st *;
using Status = int;
constexpr Status kSuccess = 0, kNotFound = 6, kInsufficientSize = 7;
constexpr size_t kNameBytes = 96;
// Processes may start between two calls.
constexpr unsigned kMoreProcesses = 16;
constexpr int kAttempts = 4;

struct Memory {
  unsigned long long total, free, used;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
struct Rates {
  unsigned gpu, memory;  // per cent
};
struct ProcessSample {
  unsigned pid;
  unsigned long long time;                     // microseconds
  unsigned kernels, memory, encoder, decoder;  // per cent
};
constexpr unsigned long long kNotAvailable = ~0ull;

struct Calls {
  Status (*init)();
  const char *(*error_string)(Status);
  Status (*count)(unsigned *);
  Status (*handle)(unsigned, Device *);
  Status (*uuid)(Device, char *, unsigned);
  Status (*name)(Device, char *, unsigned);
  Status (*memory)(Device, Memory *);
  // These may be null.
  Status (*processes)(Device, unsigned *, ProcessInfo *);
  Status (*energy)(Device, unsigned long long *);  // millijoules since the driver was loaded
  Status (*watts)(Device, unsigned *);             // milliwatts
  Status (*utilization)(Device, Rates *);
  // `since`: the time of the newest sample that is known already.
  Status (*samples)(Device, ProcessSample *, unsigned *, unsigned long long since);
};

template <class F>
bool find(void *library, const char *name, F &call) {
  call = reinterpret_cast<F>(::dlsym(library, name));
  return call != nullptr;
}

Result<Calls> find_calls(void *library, const std::string &path) {
  Calls c{};
  bool all =
      find(library, "nvmlInit_v2", c.init) && find(library, "nvmlErrorString", c.error_string) &&
      find(library, "nvmlDeviceGetCount_v2", c.count) &&
      find(library, "nvmlDeviceGetHandleByIndex_v2", c.handle) &&
      find(library, "nvmlDeviceGetUUID", c.uuid) && find(library, "nvmlDeviceGetName", c.name) &&
      find(library, "nvmlDeviceGetMemoryInfo", c.memory);
  if (!all) return fail("{} lacks required functions of NVML", path);
  find(library, "nvmlDeviceGetComputeRunningProcesses_v3", c.processes);
  find(library, "nvmlDeviceGetTotalEnergyConsumption", c.energy);
  find(library, "nvmlDeviceGetPowerUsage", c.watts);
  find(library, "nvmlDeviceGetUtilizationRates", c.utilization);
  find(library, "nvmlDeviceGetProcessUtilization", c.samples);
  return c;
}

class Nvml final : public Meter {
 public:
  explicit Nvml(Calls calls) : calls_(calls) {}

  Result<> open() {
    unsigned n = 0;
    CKPT_CHECK(check(calls_.init(), "start NVML"));
    CKPT_CHECK(check(calls_.count(&n), "count the GPUs"));
    for (unsigned i = 0; i < n; i++) CKPT_CHECK(add(i));
    return {};
  }

  const std::vector<MeteredGpu> &gpus() const override { return gpus_; }

  Result<Reading> read(size_t gpu) override {
    // In this order, an allocation between the two calls is missing in `free` and still reserved.
    // In the other order it would be in neither, and be promised twice.
    Reading r{0, processes(devices_[gpu])};
    Memory m{};
    CKPT_CHECK(check(calls_.memory(devices_[gpu], &m), "read the free memory of a GPU"));
    r.free = m.free;
    return r;
  }

  std::optional<Power> power(size_t gpu) const override {
    constexpr double kMilli = 1e-3;
    unsigned milliwatts = 0;
    unsigned long long millijoules = 0;
    Device d = devices_[gpu];
    if (calls_.watts == nullptr || calls_.watts(d, &milliwatts) != kSuccess) return {};
    Power p{.joules = {}, .watts = milliwatts * kMilli};
    if (calls_.energy != nullptr && calls_.energy(d, &millijoules) == kSuccess)
      p.joules = static_cast<double>(millijoules) * kMilli;
    return p;
  }

  std::optional<Utilization> utilization(size_t gpu) const override {
    constexpr double kPercent = 0.01;
    Rates rates{};
    if (calls_.utilization == nullptr || calls_.utilization(devices_[gpu], &rates) != kSuccess)
      return {};
    return Utilization{.kernels = rates.gpu * kPercent, .memory = rates.memory * kPercent};
  }

  // A process has a sample for each period in which it ran kernels.
  std::vector<KernelShare> kernel_shares(size_t gpu) override {
    constexpr double kPercent = 0.01;
    std::vector<ProcessSample> samples = samples_of(devices_[gpu], sampled_[gpu]);
    std::vector<KernelShare> shares;
    for (const ProcessSample &s : samples) {
      shares.push_back({static_cast<i32>(s.pid), s.kernels * kPercent});
      sampled_[gpu] = std::max(sampled_[gpu], s.time);
    }
    return shares;
  }

 private:
  Result<> check(Status s, const char *what) const {
    if (s == kSuccess) return {};
    return fail("cannot {}: {}", what, calls_.error_string(s));
  }

  Result<> add(unsigned index) {
    Device d = nullptr;
    std::array<char, kNameBytes> uuid{}, name{};
    Memory m{};
    CKPT_CHECK(check(calls_.handle(index, &d), "find a GPU"));
    CKPT_CHECK(check(calls_.uuid(d, uuid.data(), kNameBytes), "read the UUID of a GPU"));
    CKPT_CHECK(check(calls_.name(d, name.data(), kNameBytes), "read the name of a GPU"));
    CKPT_CHECK(check(calls_.memory(d, &m), "read the memory of a GPU"));
    devices_.push_back(d);
    sampled_.push_back(0);
    gpus_.push_back({uuid.data(), name.data(), m.total, managed::kCuda, true});
    return {};
  }

  std::optional<std::vector<Reading::Process>> processes(Device d) const {
    if (calls_.processes == nullptr) return {};
    std::vector<ProcessInfo> list;
    Status s = kInsufficientSize;
    for (int i = 0; i < kAttempts && s == kInsufficientSize; i++) {
      unsigned n = static_cast<unsigned>(list.size());
      s = calls_.processes(d, &n, list.data());
      list.resize(s == kInsufficientSize ? n + kMoreProcesses : n);
    }
    if (s != kSuccess) return {};
    std::vector<Reading::Process> all;
    for (const ProcessInfo &p : list) {
      if (p.bytes == kNotAvailable) return {};
      all.push_back({static_cast<i32>(p.pid), p.bytes});
    }
    return all;
  }

  std::vector<ProcessSample> samples_of(Device d, unsigned long long since) const {
    std::vector<ProcessSample> list(kMoreProcesses);
    Status s = calls_.samples == nullptr ? kNotFound : kInsufficientSize;
    for (int i = 0; i < kAttempts && s == kInsufficientSize; i++) {
      unsigned n = static_cast<unsigned>(list.size());
      s = calls_.samples(d, list.data(), &n, since);
      list.resize(s == kInsufficientSize ? n + kMoreProcesses : n);
    }
    return s == kSuccess ? list : std::vector<ProcessSample>{};
  }

  Calls calls_;
  std::vector<Device> devices_;
  std::vector<unsigned long long> sampled_;  // the time of the newest sample of each
  std::vector<MeteredGpu> gpus_;
};

}  // namespace

Result<std::unique_ptr<Meter>> open_nvml(const std::string &library) {
  // Never unloaded.
  void *handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail_with_hint(fmt::format("cannot load NVML: {}", ::dlerror()),
                          "install NVIDIA's driver, or name another library with --nvml");
  CKPT_TRY(Calls calls, find_calls(handle, library));
  auto nvml = std::make_unique<Nvml>(calls);
  CKPT_CHECK(nvml->open());
  return nvml;
}

}  // namespace ckpt::manager
