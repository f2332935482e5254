// SPDX-License-Identifier: Apache-2.0
//
// The devices of a node, and which of NVML's and OpenCL's are the same.
#include "manager/daemon/measure/node.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "common/managed/messages.h"
#include "manager/daemon/report/metrics.h"
#include "manager/daemon/report/status.h"

using namespace ckpt;
using namespace ckpt::manager;

namespace {

class Fixed final : public Meter {
 public:
  const std::vector<MeteredGpu> &gpus() const override { return gpus_; }
  Result<Reading> read(size_t gpu) override { return Reading{10 + gpu, {}}; }
  std::optional<Power> power(size_t gpu) const override {
    if (gpu == 1) return {};  // without a sensor
    return Power{.joules = 1234.5, .watts = 75};
  }
  std::optional<Utilization> utilization(size_t gpu) const override {
    if (gpu == 1) return {};  // as with MIG
    return Utilization{.kernels = 0.75, .memory = 0.25};
  }

 private:
  std::vector<MeteredGpu> gpus_{{"GPU-AA-1", "one", 100, managed::kCuda, true},
                                {"GPU-AA-2", "two", 200, managed::kCuda, true}};
};

std::unique_ptr<Meter> node(const std::vector<OpenClDevice> &devices) {
  Result<std::unique_ptr<Meter>> made = make_node(std::make_unique<Fixed>(), devices);
  REQUIRE(made.has_value());
  return std::move(*made);
}

}  // namespace

TEST_CASE("a device that NVML and OpenCL both list appears once, and is measured") {
  auto n = node({{"aa-2", "the same", 150, {}}, {"bb", "another", 300, {}}});
  REQUIRE(n->gpus().size() == 3);
  CHECK(n->gpus()[0].apis == managed::kCuda);
  CHECK(n->gpus()[1].apis == managed::kAllApis);
  CHECK(n->gpus()[1].total == 200);
  CHECK(n->read(1)->free == 11);
  CHECK(n->gpus()[2].apis == managed::kOpenCl);
  CHECK_FALSE(n->gpus()[2].measured);
  CHECK(n->read(2)->free == 300);
}

TEST_CASE("only a device that is not measured may be capped") {
  auto n = node({{"bb", "another", 300, 64}, {"cc", "small", 30, 64}, {"BB", "the same", 300, {}}});
  REQUIRE(n->gpus().size() == 4);
  CHECK(n->gpus()[2].total == 64);
  CHECK(n->gpus()[3].total == 30);
  CHECK_FALSE(make_node(std::make_unique<Fixed>(), {{"aa-1", "one", 100, 50}}).has_value());
}

TEST_CASE("the power of measured devices is in the metrics and in the status") {
  auto n = node({{"bb", "another", 300, {}}});
  CHECK(n->power(0)->watts == 75);
  CHECK(!n->power(1));
  CHECK(!n->power(2));
  std::vector<Gpu> gpus;
  for (const MeteredGpu &g : n->gpus()) gpus.push_back({.uuid = g.uuid, .total = g.total});
  Policy policy({}, gpus);
  std::string metrics = metrics_text(policy, *n, {});
  CHECK(metrics.find("ckpt_gpu_power_watts{gpu=\"GPU-AA-1\"} 75\n") != metrics.npos);
  CHECK(metrics.find("ckpt_gpu_energy_joules_total{gpu=\"GPU-AA-1\"} 1234.5\n") != metrics.npos);
  CHECK(metrics.find("watts{gpu=\"GPU-AA-2\"}") == metrics.npos);
  auto status = nlohmann::json::parse(status_as_json(policy, *n, {}, Time(0)));
  CHECK(status["gpus"][0]["watts"] == 75.0);
  CHECK(status["gpus"][0]["joules"] == 1234.5);
  CHECK(!status["gpus"][1].contains("watts"));
}

TEST_CASE("how busy measured devices are is in the metrics and in the status") {
  auto n = node({{"bb", "another", 300, {}}});
  CHECK(!n->utilization(2));
  std::vector<Gpu> gpus;
  for (const MeteredGpu &g : n->gpus()) gpus.push_back({.uuid = g.uuid, .total = g.total});
  Policy policy({}, gpus);
  std::string metrics = metrics_text(policy, *n, {});
  CHECK(metrics.find("ckpt_gpu_utilization_ratio{gpu=\"GPU-AA-1\"} 0.75\n") != metrics.npos);
  CHECK(metrics.find("ckpt_gpu_memory_utilization_ratio{gpu=\"GPU-AA-1\"} 0.25\n") != metrics.npos);
  CHECK(metrics.find("utilization_ratio{gpu=\"GPU-AA-2\"}") == metrics.npos);
  auto status = nlohmann::json::parse(status_as_json(policy, *n, {}, Time(0)));
  CHECK(status["gpus"][0]["utilization"] == 0.75);
  CHECK(status["gpus"][0]["memory_utilization"] == 0.25);
  CHECK(!status["gpus"][1].contains("utilization"));
}

TEST_CASE("a node without NVML has only OpenCL devices") {
  CHECK((*make_node(nullptr, {}))->gpus().empty());
  CHECK((*make_node(nullptr, {{"bb", "alone", 300, {}}}))->read(0)->free == 300);
}
