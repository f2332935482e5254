// SPDX-License-Identifier: Apache-2.0
//
// The initial value of a variable (PTX ISA 9.0, section 5.4.4, "Initializers").
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "ptx/declaration.h"

namespace ckpt::ptx {

// The names of the variables and functions of which its value contains the address.
std::vector<std::string_view> names_in(const Variable &v);

// The address of the variable or function of this name; nothing if it is not known.
using AddressOf = std::function<std::optional<u64>(std::string_view)>;

// The bytes that are written; the rest of the variable is 0. Little-endian.
Result<Bytes> initial_value(const Variable &v, const AddressOf &address_of);

}  // namespace ckpt::ptx
