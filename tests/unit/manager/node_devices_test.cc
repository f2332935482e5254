// SPDX-License-Identifier: Apache-2.0
//
// The devices of a node, and which of NVML's and OpenCL's are the same.
#include "manager/daemon/measure/node.h"

#include <doctest/doctest.h>

#include "common/managed/messages.h"

using namespace ckpt;
using namespace ckpt::manager;

namespace {

class Fixed final : public Meter {
 public:
  const std::vector<MeteredGpu> &gpus() const override { return gpus_; }
  Result<Reading> read(size_t gpu) override { return Reading{10 + gpu, {}}; }

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

TEST_CASE("a node without NVML has only OpenCL devices") {
  CHECK((*make_node(nullptr, {}))->gpus().empty());
  CHECK((*make_node(nullptr, {{"bb", "alone", 300, {}}}))->read(0)->free == 300);
}
