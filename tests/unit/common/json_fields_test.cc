// SPDX-License-Identifier: Apache-2.0
#include "common/base/json_fields.h"

#include <doctest/doctest.h>

using namespace ckpt;
using nlohmann::json;

namespace {

// Values of all types of JSON, and of what the parser returns for a text that is not JSON.
std::vector<json> values_of_all_types() {
  return {json(),
          json(true),
          json(7),
          json(-7),
          json(1.5),
          json("text"),
          json::array({json::object()}),
          json::object({{"x", 1}}),
          json::parse("[1,", nullptr, false)};
}

}  // namespace

TEST_CASE("a field of the wanted type is returned") {
  json j = {{"text", "a"},    {"yes", true},         {"size", 7},          {"less", -7},
            {"seconds", 1.5}, {"names", {"a", "b"}}, {"inner", {{"x", 1}}}};
  CHECK(json_string(j, "text") == "a");
  CHECK(json_value(j, "yes", false));
  CHECK(json_value(j, "size", u64{0}) == 7);
  CHECK(json_value(j, "less", 0) == -7);
  CHECK(json_value(j, "seconds", 0.0) == 1.5);
  CHECK(json_value(j, "size", 0.0) == 7);
  CHECK(json_strings(json_list(j, "names")) == std::vector<std::string>{"a", "b"});
  CHECK(json_value(json_object(j, "inner"), "x", 0) == 1);
}

TEST_CASE("a value or a field of any other type takes the default, and nothing throws") {
  for (const json &inner : values_of_all_types()) {
    // As the field, and in place of the object.
    for (const json &j : {json::object({{"f", inner}}), inner}) {
      const json &field = json_member(j, "f");
      CHECK(json_string(j, "f", "none") == (field.is_string() ? "text" : "none"));
      CHECK(json_value(j, "f", false) == field.is_boolean());
      CHECK(json_value(j, "f", u64{9}) == (field == json(7) ? 7 : 9));
      CHECK(json_value(j, "f", 0.0) == (field.is_number() ? field.get<double>() : 0));
      CHECK(json_list(j, "f").is_array());
      CHECK(json_object(j, "f").is_object());
      CHECK(json_strings(field).empty());
    }
  }
}

TEST_CASE("a number out of the range of its type takes the default") {
  json j = {{"large", u64{1} << 40}, {"largest", ~u64{0}}, {"less", -1}};
  CHECK(json_value(j, "large", 5) == 5);
  CHECK(json_value(j, "large", u64{5}) == u64{1} << 40);
  CHECK(json_value(j, "largest", i64{5}) == 5);
  CHECK(json_value(j, "less", u64{5}) == 5);
}
