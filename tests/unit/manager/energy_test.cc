// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/measure/energy.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "manager/daemon/report/metrics.h"
#include "manager/daemon/report/status.h"
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;

namespace {

constexpr Time kSecond = std::chrono::seconds(1);

class Counted final : public Meter {
 public:
  const std::vector<MeteredGpu> &gpus() const override { return gpus_; }
  Result<Reading> read(size_t) override { return Reading{100, {}}; }
  std::optional<Power> power(size_t gpu) const override {
    return Power{.joules = gpu == 0 ? joules : std::nullopt, .watts = 1};
  }
  std::vector<KernelShare> kernel_shares(size_t gpu) override {
    return gpu == 0 ? shares : std::vector<KernelShare>{{11, 1.0}};
  }

  std::optional<double> joules = 1000;
  std::vector<KernelShare> shares;

 private:
  std::vector<MeteredGpu> gpus_{{"A", "one", 100, managed::kCuda, true},
                                {"B", "without a counter", 100, managed::kCuda, true}};
};

// Two programs, with PIDs 11 and 12; the memory of the second is held by process 22.
struct Two {
  Two() : node({}, {100 * kMiB, 100 * kMiB}) {
    for (ProgramId id : {1u, 2u}) {
      peers.emplace_back(UniqueFd(), id, 0, static_cast<pid_t>(10 + id), 0);
      node.join(id);
    }
    peers.back().holder = 22;
  }
  void read(Time now) { shares.read(now, meter, peers, node.policy); }

  Node node;
  std::list<Peer> peers;
  Counted meter;
  EnergyShares shares;
};

}  // namespace

TEST_CASE("the energy of an interval is divided by the time of kernels") {
  Two t;
  CHECK(!t.shares.of(1));
  CHECK(t.shares.timeout(Time{0}, true) < 0);
  t.meter.shares = {{11, 1.0}};
  t.read(Time{0});  // of the time before, nothing is known
  CHECK(t.shares.of(1) == 0.0);
  t.meter.joules = 1100;
  t.meter.shares = {{11, 0.1}, {12, 0.2}, {22, 0.1}, {99, 0.4}};
  t.read(kSecond / 2);  // too early
  CHECK(t.shares.of(1) == 0.0);
  t.read(kSecond);
  CHECK(*t.shares.of(1) == doctest::Approx(12.5));
  CHECK(*t.shares.of(2) == doctest::Approx(37.5));
  CHECK(*t.shares.of_programs(0) == doctest::Approx(50));
  CHECK(!t.shares.of_programs(1));
  t.meter.joules = 1200;
  t.meter.shares = {};
  t.read(2 * kSecond);  // no kernel ran
  CHECK(*t.shares.of_programs(0) == doctest::Approx(50));
  t.meter.joules = 5;  // the driver was loaded again
  t.meter.shares = {{11, 1.0}};
  t.read(3 * kSecond);
  CHECK(*t.shares.of(1) == doctest::Approx(12.5));
}

TEST_CASE("the policy is told for how long the kernels of each program ran") {
  Two t;
  t.meter.joules = {};  // no counter is needed
  t.meter.shares = {{11, 1.0}};
  t.read(Time{0});  // of the time before, nothing is known
  t.meter.shares = {{12, 0.2}, {12, 0.4}, {22, 0.1}, {99, 0.4}};  // two periods of 12
  t.read(2 * kSecond);
  CHECK(t.node.at(2).workload.computed == Time(800'000));
  // The second GPU has run kernels of the first program all the time.
  CHECK(t.node.at(1).workload.computed == 2 * kSecond);
}

TEST_CASE("nothing is divided after a long pause, and a program that has gone is forgotten") {
  Two t;
  t.meter.shares = {{11, 1.0}};
  t.read(Time{0});
  t.meter.joules = 2000;
  t.read(60 * kSecond);
  CHECK(t.shares.of(1) == 0.0);
  t.meter.joules = 2010;
  t.read(61 * kSecond);
  CHECK(*t.shares.of(1) == doctest::Approx(10));
  t.shares.gone(1);
  CHECK(t.shares.of(1) == 0.0);
  CHECK(*t.shares.of_programs(0) == doctest::Approx(10));
}

TEST_CASE("the counters are read each second while there are programs") {
  Two t;
  t.read(Time{0});
  CHECK(t.shares.timeout(Time{0}, true) == 1000);
  CHECK(t.shares.timeout(kSecond / 4, true) == 750);
  CHECK(t.shares.timeout(2 * kSecond, true) == 0);
  CHECK(t.shares.timeout(2 * kSecond, false) < 0);
  t.meter.joules = {};
  t.read(kSecond);
  CHECK(t.shares.timeout(2 * kSecond, true) < 0);
  CHECK(!t.shares.of(1));
}

TEST_CASE("the shares are in the status and in the metrics") {
  Two t;
  t.read(Time{0});
  t.meter.joules = 1010;
  t.meter.shares = {{11, 0.5}};
  t.read(kSecond);
  auto status =
      nlohmann::json::parse(status_as_json(t.node.policy, t.meter, {}, kSecond, t.shares));
  CHECK(status["programs"][0]["joules"] == 10.0);
  CHECK(status["programs"][1]["joules"] == 0.0);
  std::string metrics = metrics_text(t.node.policy, t.meter, {}, t.shares);
  std::string name = "ckpt_gpu_programs_energy_joules_total";
  CHECK(metrics.find(name + "{gpu=\"" + t.meter.gpus()[0].uuid + "\"} 10\n") != metrics.npos);
  CHECK(metrics.find(name + "{gpu=\"B\"}") == metrics.npos);
  status = nlohmann::json::parse(status_as_json(t.node.policy, t.meter, {}, kSecond));
  CHECK(!status["programs"][0].contains("joules"));
}
