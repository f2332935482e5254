// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any text as PTX, read by ptx/ and by its users: the facts of fat binaries, kernels in
// slices, variables at fixed addresses, and the software device, which decodes and runs nothing.
#include <cstdlib>

#include "fatbin/ptx.h"
#include "ptx/initializer.h"
#include "ptx/lexer.h"
#include "remote/cuda/placing/fixed_text.h"
#include "slicing/outline.h"
#include "slicing/rewrite.h"
#include "softcuda/vm/kernel.h"

using namespace ckpt;

namespace {

using Addresses = std::unordered_map<std::string_view, u64>;

constexpr remote::cuda::HandleRange kHandles{0x7e0000000000, 64u << 20};
constexpr u64 kFirst = 0x7f0000000000;
constexpr u64 kMaxBytes = 1 << 20;  // more is allowed, but not for what a fuzzer has

void require(bool condition) {
  if (!condition) std::abort();
}

bool is_reference(const ptx::Module &m, std::string_view name) {
  for (const ptx::Variable &v : m.variables)
    if (ptx::is_reference(v.type) && v.name == name) return true;
  return false;
}

// Everything lies within the text, and a declaration can be read again.
void check_module(std::string_view text, const ptx::Module &m) {
  auto within = [&](std::string_view part) {
    return part.data() >= text.data() && part.data() + part.size() <= text.data() + text.size();
  };
  for (const ptx::Variable &v : m.variables) {
    require(within(v.name) && within(v.definition) && v.declaration.end <= text.size());
    require(v.bytes <= ptx::kMaxVariableBytes && v.align > 0);
    if (v.bytes > kMaxBytes) continue;
    Result<Bytes> value = ptx::initial_value(v, [](auto) { return std::optional(kFirst); });
    require(!value || value->size() <= v.bytes);
  }
  for (const ptx::Function &f : m.functions)
    require(within(f.name) && (!f.defined || within(f.body)) && f.params_end < text.size());
}

// What is printed must be stable: it has the same routines, and is not much longer.
void check_slices(std::string_view text) {
  Result<slicing::Rewritten> r = slicing::rewrite(text);
  if (!r) return;
  Result<ptx::Module> before = ptx::read_module(text), after = ptx::read_module(r->ptx);
  require(before && after && before->functions.size() == after->functions.size());
  for (size_t i = 0; i < after->functions.size(); ++i)
    require(before->functions[i].name == after->functions[i].name);
  require(r->ptx.size() <= text.size() * 5 + (before->functions.size() + 1) * 2048);
}

// Each instruction with a handle has one that was looked up. A statement ends with a semicolon, or
// with the colon of a label; braces and lines for debuggers may stand between statements.
void check_handles(std::string_view body, const ptx::Module &m) {
  ptx::Lexer lexer(body);
  remote::cuda::HandleUse use;
  size_t brackets = 0;
  bool begins = true;
  for (ptx::Token t = lexer.next(); !t.is_end(); t = lexer.next()) {
    if (begins && (t.is('{') || t.is('}'))) continue;
    if (begins && (t.is(".loc") || t.is(".file"))) {
      lexer.skip_line();
      continue;
    }
    require(!use.is_operand(t) || t.text == "%ckpt_place_h" || is_reference(m, t.text));
    if (t.is('[')) ++brackets;
    if (t.is(']') && brackets > 0) --brackets;
    begins = t.is(';') || (t.is(':') && brackets == 0);
    if (begins) use = {}, brackets = 0;
  }
}

// What is printed has the same routines, no variable that was placed, and no handle of the
// program's.
void check_places(std::string_view text) {
  Result<remote::cuda::ModuleText> before = remote::cuda::read_module(text);
  if (!before) return;
  Addresses addresses;
  for (const ptx::Variable *v : before->variables())
    if (!ptx::is_reference(v->type))
      addresses.try_emplace(v->name, kFirst + 4096 * addresses.size());
  Result<std::string> out = remote::cuda::with_addresses(text, *before, addresses, true, kHandles);
  if (!out) return;
  Result<remote::cuda::ModuleText> after = remote::cuda::read_module(*out);
  require(after && after->declared.functions.size() == before->declared.functions.size());
  for (const ptx::Variable *v : after->variables()) require(ptx::is_reference(v->type));
  for (const ptx::Function &f : after->declared.functions) check_handles(f.body, after->declared);
}

void decode(std::string text) {
  using namespace softcuda;
  Result<std::unique_ptr<softcuda::ptx::LoadedModule>> m = softcuda::ptx::parse_module(text);
  if (!m) return;
  for (const ckpt::ptx::Variable &v : (*m)->variables)
    if (v.bytes > kMaxBytes) return;
  std::vector<std::unique_ptr<softcuda::ptx::LoadedModule>> modules;
  modules.push_back(std::move(*m));
  Result<std::unique_ptr<vm::Image>> image = vm::Image::link(std::move(modules));
  if (!image) return;
  if ((*image)->bytes() < 16 << 20) (void)(*image)->initial(false);
  for (const vm::Symbol *s : (*image)->kernels()) (void)vm::Kernel::link(**image, *s);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (size > 64 << 10) return 0;
  std::string text(reinterpret_cast<const char *>(data), size);
  Result<ckpt::ptx::Module> m = ckpt::ptx::read_module(text);
  if (!m) return 0;
  check_module(text, *m);
  (void)fatbin::facts_of_ptx(text);
  check_slices(text);
  check_places(text);
  decode(text);
  return 0;
}
