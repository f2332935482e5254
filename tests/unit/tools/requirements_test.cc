// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/requirements.h"

#include <doctest/doctest.h>

namespace ckpt::test {
using namespace tools;
namespace {

const std::vector<std::string> kParticipants{"ocl", "cuda"};

std::string nested(size_t depth) {
  return "[" + std::string(depth, '[') + std::string(depth, ']') + "]";
}

}  // namespace

TEST_CASE("requirements name their API, or belong to the participant at their place") {
  auto all =
      parse_requirements(R"([{"memory":1},{"api":"cuda","needs":{"memory":2}}])", kParticipants);
  REQUIRE(all.size() == 2);
  CHECK(all[0].api == "ocl");
  CHECK(all[0].needs["memory"] == 1);
  CHECK(all[1].api == "cuda");
  CHECK(all[1].needs["memory"] == 2);
}

TEST_CASE("a hostile agent's requirements are no reason to fail") {
  for (const char *text : {"", "{", "{}", "1", "null", "[", "[]"})
    CHECK(parse_requirements(text, kParticipants).empty());
  // An API of another type, and more requirements than participants.
  auto all = parse_requirements(R"([{"api":5,"needs":1},7,{"api":{}}])", kParticipants);
  REQUIRE(all.size() == 3);
  CHECK(all[0].api == "ocl");
  CHECK(all[2].api.empty());
}

TEST_CASE("requirements that would use up the stack of what prints them are left out") {
  CHECK(parse_requirements(nested(20), kParticipants).size() == 1);
  CHECK(parse_requirements(nested(1'000'000), kParticipants).empty());
}

}  // namespace ckpt::test
