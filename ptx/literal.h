// SPDX-License-Identifier: Apache-2.0
//
// Constants (PTX ISA 9.0, section 4.5): 17, 0x1F, 0b11, 017, each also with a U, 1.5e3,
// 0f3F800000, 0d3FF0000000000000. A sign is no part of them.
#pragma once

#include <optional>
#include <string_view>

#include "common/base/bytes.h"

namespace ckpt::ptx {

enum class Form : u8 { Integer, Float, Double };

struct Literal {
  u64 bits = 0;  // of a Float: of an f32; of a Double: of an f64
  Form form = Form::Integer;
};

// Of a token that is a number. No value: it is none.
std::optional<Literal> literal(std::string_view number);

}  // namespace ckpt::ptx
