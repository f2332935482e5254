// SPDX-License-Identifier: Apache-2.0
#include "ptx/literal.h"

#include <charconv>

namespace ckpt::ptx {
namespace {

template <class T, class Format>
std::optional<T> whole(std::string_view text, Format format) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, format);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<Literal> integer(std::string_view text, int base) {
  if (text.ends_with('U')) text.remove_suffix(1);
  std::optional<u64> value = whole<u64>(text, base);
  return value ? std::optional(Literal{*value}) : std::nullopt;
}

std::optional<Literal> exact(std::string_view digits, Form form) {
  std::optional<u64> bits = whole<u64>(digits, 16);
  bool complete = digits.size() == (form == Form::Float ? 8 : 16);
  return bits && complete ? std::optional(Literal{*bits, form}) : std::nullopt;
}

}  // namespace

std::optional<Literal> literal(std::string_view number) {
  if (number.size() > 1 && number[0] == '0') {
    std::string_view rest = number.substr(2);
    switch (number[1]) {
      case 'x':
      case 'X': return integer(rest, 16);
      case 'b':
      case 'B': return integer(rest, 2);
      case 'f':
      case 'F': return exact(rest, Form::Float);
      case 'd':
      case 'D': return exact(rest, Form::Double);
    }
  }
  if (number.find_first_of(".eE") == number.npos)
    return integer(number, number.size() > 1 && number[0] == '0' ? 8 : 10);
  std::optional<double> value = whole<double>(number, std::chars_format::general);
  return value ? std::optional(Literal{std::bit_cast<u64>(*value), Form::Double}) : std::nullopt;
}

}  // namespace ckpt::ptx
