// SPDX-License-Identifier: Apache-2.0
#include "fatbin/ptx.h"

#include "fatbin/names.h"
#include "ptx/lexer.h"
#include "ptx/module.h"

namespace ckpt::fatbin {
namespace {

constexpr u64 kMaxParameterBytes = 1u << 16;  // CUDA allows 32764

std::optional<ReferenceKind> reference_kind(ptx::Type type) {
  switch (type) {
    case ptx::Type::Texture: return ReferenceKind::Texture;
    case ptx::Type::Surface: return ReferenceKind::Surface;
    case ptx::Type::Sampler: return ReferenceKind::Sampler;
    default: return {};
  }
}

class Examination {
 public:
  Result<CodeFacts> of(const ptx::Module &module) {
    facts_.target = module.target;
    facts_.uses_textures = facts_.uses_surfaces = false;
    for (const ptx::Variable &v : module.variables)
      if (v.space == ptx::Space::Global || v.space == ptx::Space::Const) CKPT_CHECK(variable(v));
    for (const ptx::Function &f : module.functions) {
      instructions(f.body);
      if (!f.entry)
        note_function(facts_, f.name, f.external);
      else if (f.unclear)
        return fail("the kernel {} cannot be read: {}", f.name, module.problem);
      else if (f.defined)
        CKPT_CHECK(kernel(f));
    }
    return std::move(facts_);
  }

 private:
  // Texture and surface instructions: PTX ISA, sections 9.7.10 and 9.7.11.
  void instructions(std::string_view body) {
    ptx::Lexer lexer(body);
    for (ptx::Token t = lexer.next(); !t.is_end(); t = lexer.next()) {
      if (t.text.empty() || (t.text[0] != 't' && t.text[0] != 's') || !t.is_word()) continue;
      auto begins = [&](std::string_view name) { return t.text.starts_with(name); };
      if (begins("tex.") || begins("tld4.") || begins("txq.")) facts_.uses_textures = true;
      if (begins("suld.") || begins("sust.") || begins("sured.") || begins("suq."))
        facts_.uses_surfaces = true;
    }
  }

  Result<> variable(const ptx::Variable &v) {
    if (v.external) return {};
    if (v.name == kDeviceRuntimeMarker) facts_.is_device_runtime = true;
    if (is_compiler_generated(v.name)) return {};
    CKPT_TRY(std::string name, names_.take(v.name));
    Space space = v.managed                      ? Space::Managed
                  : v.space == ptx::Space::Const ? Space::Constant
                                                 : Space::Global;
    if (std::optional<ReferenceKind> kind = reference_kind(v.type))
      facts_.references.push_back({std::move(name), *kind});
    else
      facts_.variables.push_back({std::move(name), space, v.bytes});
    return {};
  }

  Result<> kernel(const ptx::Function &f) {
    Kernel k;
    CKPT_TRY(k.name, names_.take(f.name));
    ptx::Layout layout = ptx::layout_of(f.params);
    if (layout.end > kMaxParameterBytes)
      return fail("the parameters of kernel {} exceed the limit of {} bytes", k.name,
                  kMaxParameterBytes);
    for (size_t i = 0; i < f.params.size(); ++i) {
      CKPT_CHECK(names_.take({}));
      k.parameters.push_back(
          {static_cast<u32>(layout.offsets[i]), static_cast<u32>(f.params[i].bytes)});
    }
    k.parameter_bytes = static_cast<u32>(layout.end);
    facts_.kernels.push_back(std::move(k));
    return {};
  }

  CodeFacts facts_;
  NameBudget names_;
};

}  // namespace

Result<CodeFacts> facts_of_ptx(std::string_view ptx) {
  CKPT_TRY(ptx::Module module, ptx::read_module(ptx));
  return Examination().of(module);
}

}  // namespace ckpt::fatbin
