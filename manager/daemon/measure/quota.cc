// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/measure/quota.h"

#include <algorithm>

namespace ckpt::manager {
namespace {

class Quota final : public Meter {
 public:
  Quota(std::unique_ptr<Meter> meter, u64 bytes) : meter_(std::move(meter)), gpus_(meter_->gpus()) {
    for (MeteredGpu &g : gpus_) {
      withheld_.push_back(g.total - std::min(g.total, bytes));
      g.total -= withheld_.back();
    }
  }

  const std::vector<MeteredGpu> &gpus() const override { return gpus_; }

  Result<Reading> read(size_t gpu) override {
    CKPT_TRY(Reading r, meter_->read(gpu));
    r.free -= std::min(r.free, withheld_[gpu]);
    return r;
  }

 private:
  std::unique_ptr<Meter> meter_;
  std::vector<MeteredGpu> gpus_;
  std::vector<u64> withheld_;
};

}  // namespace

std::unique_ptr<Meter> with_quota(std::unique_ptr<Meter> meter, u64 bytes) {
  return std::make_unique<Quota>(std::move(meter), bytes);
}

}  // namespace ckpt::manager
