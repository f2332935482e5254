// SPDX-License-Identifier: Apache-2.0
//
// The facts come from the symbol table and, for the parameters of kernels, from the sections
// .nv.info.KERNEL. NVIDIA does not document the values that are not in elf.h: they were derived
// from the output of ptxas 13.0.
#include "fatbin/cubin.h"

#include <unordered_map>

#include "fatbin/elf_file.h"
#include "fatbin/names.h"
#include "fatbin/nv_info.h"

namespace ckpt::fatbin {
namespace {

// Bits of st_other.
constexpr u8 kKernel = 0x10;
constexpr u8 kManaged = 0x04;

// Types of symbols, beyond those of elf.h.
constexpr u8 kTexture = 10;
constexpr u8 kSampler = 11;
constexpr u8 kSurface = 12;
constexpr u8 kUnlinkedObject = 13;  // a variable before linking, STT_OBJECT afterwards

constexpr std::string_view kInfoPrefix = ".nv.info.";
constexpr std::string_view kToolNote = ".note.nv.tkinfo";

std::optional<Space> space_of(std::string_view section) {
  if (section == ".nv.global" || section == ".nv.global.init") return Space::Global;
  if (section == ".nv.constant3") return Space::Constant;
  return {};
}

// The suffix of the target ('a' of sm_90a) is recorded only in ptxas' command line, which the cubin
// keeps in a note. A linked cubin's note may name other targets as well.
char target_suffix(std::string_view note, u32 arch) {
  std::string option = fmt::format("-arch sm_{}", arch);
  for (size_t at = note.find(option); at != note.npos; at = note.find(option, at + 1)) {
    char next = at + option.size() < note.size() ? note[at + option.size()] : '\0';
    if (next == 'a' || next == 'f') return next;
  }
  return '\0';
}

class CubinReader {
 public:
  explicit CubinReader(const ElfFile &elf) : elf_(elf) {}

  Result<CodeFacts> read() {
    if (elf_.header().e_machine != kCudaMachine) return fail("an ELF file but not a cubin");
    facts_.relocatable = elf_.header().e_type == ET_REL;
    CKPT_CHECK(read_target());
    for (const ElfSection &s : elf_.sections())
      if (s.name.starts_with(kInfoPrefix)) info_.emplace(s.name.substr(kInfoPrefix.size()), &s);
    // ptxas always writes symbols. Without them "no heap use" would be a guess.
    const ElfSection *symbols = elf_.section_of_type(SHT_SYMTAB);
    if (!symbols) return fail("the cubin has no symbols: it is damaged or was stripped");
    CKPT_CHECK(read_symbols(*symbols));
    return std::move(facts_);
  }

 private:
  Result<> read_target() {
    u32 arch = arch_of_cubin(elf_.header());
    facts_.target = fmt::format("sm_{}", arch);
    const ElfSection *note = elf_.section(kToolNote);
    if (!note) return {};
    CKPT_TRY(ByteView bytes, elf_.contents(*note));
    if (char suffix = target_suffix(text(bytes), arch)) facts_.target += suffix;
    return {};
  }

  Result<> read_symbols(const ElfSection &section) {
    CKPT_TRY(ElfSymbols symbols, symbols_of(elf_, section));
    for (size_t i = 0; i < symbols.count(); ++i) {
      Elf64_Sym s = symbols.symbol(i);
      CKPT_CHECK(symbol(s, symbols.name(s)));
    }
    return {};
  }

  Result<> symbol(const Elf64_Sym &s, std::string_view name) {
    switch (ELF64_ST_TYPE(s.st_info)) {
      case STT_FUNC: return function(s, name);
      case STT_OBJECT:
      case kUnlinkedObject: return variable(s, name);
      case kTexture: return reference(name, ReferenceKind::Texture);
      case kSampler: return reference(name, ReferenceKind::Sampler);
      case kSurface: return reference(name, ReferenceKind::Surface);
      default: return {};
    }
  }

  Result<> function(const Elf64_Sym &s, std::string_view name) {
    bool imported = s.st_shndx == SHN_UNDEF;
    note_function(facts_, name, imported);
    if (imported || !(s.st_other & kKernel)) return {};
    Kernel kernel;
    CKPT_TRY(kernel.name, names_.take(name));
    if (auto it = info_.find(name); it != info_.end()) {
      CKPT_TRY(ByteView info, elf_.contents(*it->second));
      CKPT_CHECK(read_parameters(info, kernel));
      for (size_t i = 0; i < kernel.parameters.size(); ++i) CKPT_CHECK(names_.take({}));
    }
    facts_.kernels.push_back(std::move(kernel));
    return {};
  }

  Result<> variable(const Elf64_Sym &s, std::string_view name) {
    if (s.st_shndx == SHN_UNDEF || s.st_shndx >= elf_.sections().size()) return {};
    std::optional<Space> space = space_of(elf_.sections()[s.st_shndx].name);
    if (!space) return {};
    if (name == kDeviceRuntimeMarker) facts_.is_device_runtime = facts_.relocatable;
    if (is_compiler_generated(name)) return {};
    CKPT_TRY(std::string kept, names_.take(name));
    bool managed = s.st_other & kManaged;
    facts_.variables.push_back({std::move(kept), managed ? Space::Managed : *space, s.st_size});
    return {};
  }

  Result<> reference(std::string_view name, ReferenceKind kind) {
    CKPT_TRY(std::string kept, names_.take(name));
    facts_.references.push_back({std::move(kept), kind});
    return {};
  }

  const ElfFile &elf_;
  CodeFacts facts_;
  NameBudget names_;
  std::unordered_map<std::string_view, const ElfSection *> info_;
};

}  // namespace

Result<CodeFacts> facts_of_cubin(ByteView cubin) {
  CKPT_TRY(ElfFile elf, ElfFile::from(cubin));
  return CubinReader(elf).read();
}

}  // namespace ckpt::fatbin
