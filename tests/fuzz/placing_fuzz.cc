// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any text as PTX, with its variables at fixed addresses and its handles looked up. What
// is printed has the same routines, no variable that was placed, and no handle of the program's.
#include <cstdlib>

#include "fatbin/ptx_lexer.h"
#include "remote/cuda/placing/fixed_text.h"
#include "remote/cuda/placing/initial_value.h"

using namespace ckpt;
using namespace ckpt::remote::cuda;

namespace {

constexpr HandleRange kHandles{0x7e0000000000, 64u << 20};
constexpr u64 kFirst = 0x7f0000000000;

std::unordered_map<std::string_view, u64> addresses_of(const ModuleText &m) {
  std::unordered_map<std::string_view, u64> all;
  for (const DeclaredVariable &v : m.variables)
    if (!v.reference) all.try_emplace(v.name, kFirst + 4096 * all.size());
  return all;
}

bool is_reference(const ModuleText &m, std::string_view name) {
  for (const DeclaredVariable &v : m.variables)
    if (v.reference && v.name == name) return true;
  return false;
}

// Each instruction with a handle has one that was looked up. A statement ends with a semicolon, or
// with the colon of a label; braces and lines for debuggers may stand between statements.
void check_handles(std::string_view body, const ModuleText &m) {
  fatbin::PtxLexer lexer(body);
  HandleUse use;
  size_t brackets = 0;
  bool begins = true;
  for (fatbin::Token t = lexer.next(); t.kind != fatbin::Token::End; t = lexer.next()) {
    if (begins && (t.is('{') || t.is('}'))) continue;
    if (begins && (t.is(".loc") || t.is(".file"))) {
      (void)lexer.line();
      continue;
    }
    if (use.is_operand(t) && t.text != "%ckpt_place_h" && !is_reference(m, t.text)) std::abort();
    if (t.is('[')) ++brackets;
    if (t.is(']') && brackets > 0) --brackets;
    begins = t.is(';') || (t.is(':') && brackets == 0);
    if (begins) use = {}, brackets = 0;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (size > 64 << 10) return 0;
  std::string_view text(reinterpret_cast<const char *>(data), size);
  Result<ModuleText> before = read_module(text);
  if (!before) return 0;
  std::unordered_map<std::string_view, u64> addresses = addresses_of(*before);
  for (const DeclaredVariable &v : before->variables)
    if (v.bytes < 1 << 20)
      (void)initial_value(v, [&](std::string_view name) -> std::optional<u64> {
        auto found = addresses.find(name);
        return found == addresses.end() ? std::nullopt : std::optional(found->second);
      });
  Result<std::string> out = with_addresses(text, *before, addresses, true, kHandles);
  if (!out) return 0;
  Result<ModuleText> after = read_module(*out);
  if (!after || after->bodies.size() != before->bodies.size()) std::abort();
  for (const DeclaredVariable &v : after->variables)
    if (!v.reference) std::abort();
  for (Extent e : after->bodies) check_handles(out->substr(e.begin, e.end - e.begin), *after);
  return 0;
}
