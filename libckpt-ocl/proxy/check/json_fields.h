// SPDX-License-Identifier: Apache-2.0
//
// Lenient reading of requirements: a field that is missing or of another type takes the caller's
// default.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"

namespace ckpt::ocl {

template <class T>
T field(const nlohmann::json &j, const char *name, T otherwise) {
  if (!j.is_object()) return otherwise;
  auto it = j.find(name);
  if (it == j.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>)
    return it->is_string() ? it->template get<std::string>() : otherwise;
  else if constexpr (std::is_same_v<T, bool>)
    return it->is_boolean() ? it->template get<bool>() : otherwise;
  else
    return it->is_number_unsigned() ? it->template get<T>() : otherwise;
}

inline const nlohmann::json &list(const nlohmann::json &j, const char *name) {
  static const nlohmann::json none = nlohmann::json::array();
  if (!j.is_object()) return none;
  auto it = j.find(name);
  return it != j.end() && it->is_array() ? *it : none;
}

}  // namespace ckpt::ocl
