// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON of another process or of a file, where any field may be missing or of another type.
// The JSON library's own value() throws for another type.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"

namespace ckpt {

// The field, or null if `j` is not an object or has no such field.
inline const nlohmann::json &json_member(const nlohmann::json &j, const char *name) {
  static const nlohmann::json null;
  auto it = j.is_object() ? j.find(name) : j.end();
  return it == j.end() ? null : *it;
}

// The field if it is an array, otherwise an empty array.
inline const nlohmann::json &json_list(const nlohmann::json &j, const char *name) {
  static const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json &field = json_member(j, name);
  return field.is_array() ? field : none;
}

// The field if it is an object, otherwise an empty one.
inline const nlohmann::json &json_object(const nlohmann::json &j, const char *name) {
  static const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json &field = json_member(j, name);
  return field.is_object() ? field : none;
}

// The field, or `otherwise` if it is missing, of another type, or out of the range of T.
template <class T>
T json_value(const nlohmann::json &j, const char *name, T otherwise) {
  const nlohmann::json &field = json_member(j, name);
  if constexpr (std::same_as<T, std::string>) {
    return field.is_string() ? field.get<std::string>() : otherwise;
  } else if constexpr (std::same_as<T, bool>) {
    return field.is_boolean() ? field.get<bool>() : otherwise;
  } else if constexpr (std::floating_point<T>) {
    return field.is_number() ? field.get<T>() : otherwise;
  } else {
    if (field.is_number_unsigned())
      return std::in_range<T>(field.get<u64>()) ? field.get<T>() : otherwise;
    return field.is_number_integer() && std::in_range<T>(field.get<i64>()) ? field.get<T>()
                                                                           : otherwise;
  }
}

inline std::string json_string(const nlohmann::json &j, const char *name,
                               const std::string &otherwise = "") {
  return json_value(j, name, otherwise);
}

// The strings among the elements of an array; none for any other value.
inline std::vector<std::string> json_strings(const nlohmann::json &list) {
  std::vector<std::string> all;
  if (list.is_array())
    for (const nlohmann::json &j : list)
      if (j.is_string()) all.push_back(j.get<std::string>());
  return all;
}

}  // namespace ckpt
