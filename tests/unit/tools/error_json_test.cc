// SPDX-License-Identifier: Apache-2.0
#include "tools/error_json.h"

#include <doctest/doctest.h>

namespace ckpt::tools {
namespace {

Error refused(const Reasons &reasons) { return {"it is refused:" + as_list(reasons), "close it"}; }

}  // namespace

TEST_CASE("the reasons of a refusal are separate again") {
  Reasons reasons{"a socket", "a file: /x (close it)"};
  nlohmann::json error = error_report(refused(reasons), 1).at("error");
  CHECK(error.at("reasons") == reasons);
  CHECK(error.at("kind") == "refused");
  CHECK(error.at("hint") == "close it");
  CHECK(error.at("code") == 1);
}

TEST_CASE("a name with line breaks makes no further reason") {
  Reasons reasons{"a file: /x\n  - /y", "another"};
  CHECK(reasons_in(refused(reasons).what).size() == 2);
}

TEST_CASE("the kind of other failures") {
  Error error{"it failed", ""};
  CHECK(error_report(error, 1).at("error").at("kind") == "failed");
  CHECK(error_report(error, 143).at("error").at("kind") == "cancelled");
  CHECK(error_report(error, 125, kUsage).at("error").at("kind") == "usage");
  CHECK(error_report(error, 1).at("error").at("reasons").empty());
}

}  // namespace ckpt::tools
