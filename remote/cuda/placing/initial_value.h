// SPDX-License-Identifier: Apache-2.0
//
// The initial value of a variable (PTX ISA, section 5.4.4, "Initializers").
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "remote/cuda/placing/module_text.h"

namespace ckpt::remote::cuda {

// The names of the variables and functions of which the value contains the address.
std::vector<std::string_view> names_in(std::string_view initial);

// The address of the variable of this name; nothing if it is not known.
using AddressOf = std::function<std::optional<u64>(std::string_view)>;

// The bytes that are written; the rest of the variable is 0. Little-endian.
Result<Bytes> initial_value(const DeclaredVariable &v, const AddressOf &address_of);

}  // namespace ckpt::remote::cuda
