// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/measure/node.h"

#include <algorithm>

#include "common/base/gpu.h"
#include "common/managed/messages.h"

namespace ckpt::manager {
namespace {

class Node final : public Meter {
 public:
  explicit Node(std::unique_ptr<Meter> nvml) : nvml_(std::move(nvml)) {
    if (nvml_) gpus_ = nvml_->gpus();
  }

  // If two devices are the same one, the first counts.
  Result<> add(const OpenClDevice &d) {
    auto same = [&](const MeteredGpu &g) { return plain_uuid(g.uuid) == plain_uuid(d.uuid); };
    auto there = std::ranges::find_if(gpus_, same);
    if (there == gpus_.end()) {
      u64 total = std::min(d.total, d.cap.value_or(d.total));
      gpus_.push_back({d.uuid, d.name, total, managed::kOpenCl, false});
      return {};
    }
    if (d.cap && there->measured)
      return fail_with_hint(
          fmt::format("the memory of {} is measured by NVML, so --opencl-devices cannot limit it",
                      d.name),
          "limit the memory of each program with --program-memory");
    there->apis |= managed::kOpenCl;
    return {};
  }

  const std::vector<MeteredGpu> &gpus() const override { return gpus_; }

  Result<Reading> read(size_t gpu) override {
    if (gpus_[gpu].measured) return nvml_->read(gpu);
    return Reading{gpus_[gpu].total, {}};
  }

  std::optional<Power> power(size_t gpu) const override {
    return gpus_[gpu].measured ? nvml_->power(gpu) : std::nullopt;
  }

  std::optional<Utilization> utilization(size_t gpu) const override {
    return gpus_[gpu].measured ? nvml_->utilization(gpu) : std::nullopt;
  }

  std::vector<KernelShare> kernel_shares(size_t gpu) override {
    return gpus_[gpu].measured ? nvml_->kernel_shares(gpu) : std::vector<KernelShare>{};
  }

 private:
  std::unique_ptr<Meter> nvml_;
  std::vector<MeteredGpu> gpus_;  // NVML's come first, in its order
};

}  // namespace

Result<std::unique_ptr<Meter>> make_node(std::unique_ptr<Meter> nvml,
                                         const std::vector<OpenClDevice> &devices) {
  auto node = std::make_unique<Node>(std::move(nvml));
  for (const OpenClDevice &d : devices) CKPT_CHECK(node->add(d));
  return node;
}

}  // namespace ckpt::manager
