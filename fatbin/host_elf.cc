// SPDX-License-Identifier: Apache-2.0
#include "fatbin/host_elf.h"

#include <algorithm>

namespace ckpt::fatbin {
namespace {

// What every object that nvcc made calls before main() (crt/host_runtime.h). Where it is not
// imported and yet needed, the runtime is in the file.
constexpr std::string_view kRegister = "__cudaRegisterFatBinary";
constexpr std::string_view kSharedRuntime = "libcudart.so";

// What cudaGetErrorName() answers: of all programs only the runtime itself holds it. It tells of a
// static runtime in a stripped program without kernels.
constexpr std::string_view kRuntimeText = "cudaErrorCudartUnloading";

Result<Form> form_of(const ElfFile &elf) {
  switch (elf.header().e_type) {
    case ET_REL: return Form::Object;
    case ET_EXEC: return Form::Executable;
    case ET_DYN: return elf.section(".interp") ? Form::Executable : Form::SharedLibrary;
    default: return fail("it is an ELF file of type {}, no program", elf.header().e_type);
  }
}

Result<> add_section(const ElfFile &elf, const Source &source, const char *name, Role role,
                     size_t &entries_left, std::vector<Container> &out) {
  for (const ElfSection &s : elf.sections()) {
    if (s.name != name || s.header.sh_type == SHT_NOBITS) continue;
    if (s.header.sh_offset > source.size() || s.header.sh_size > source.size() - s.header.sh_offset)
      return fail("its section {} reaches beyond its end: it was cut short or is damaged", name);
    CKPT_TRY(auto found,
             read_containers(source, s.header.sh_offset, s.header.sh_size, entries_left));
    for (Container &c : found) {
      c.role = role;
      out.push_back(std::move(c));
    }
  }
  return {};
}

struct Dynamic {
  std::string needed;  // the shared runtime, as the file asks for it
  std::string soname;
};

Result<Dynamic> read_dynamic(const ElfFile &elf) {
  Dynamic out;
  const ElfSection *section = elf.section_of_type(SHT_DYNAMIC);
  const ElfSection *names = section ? elf.linked(*section) : nullptr;
  if (!names) return out;
  CKPT_TRY(ByteView strings, elf.contents(*names));
  CKPT_TRY(ByteView table, elf.contents(*section));
  for (Reader in(table); in.left() >= sizeof(Elf64_Dyn);) {
    i64 tag = in.get<i64>();
    std::string_view name = string_at(strings, in.get<u64>());
    if (tag == DT_NULL) break;
    if (tag == DT_NEEDED && name.starts_with(kSharedRuntime)) out.needed = name;
    if (tag == DT_SONAME) out.soname = name;
  }
  return out;
}

enum class Presence { Absent, Imported, Defined };

Result<Presence> find_symbol(const ElfFile &elf, u32 table, std::string_view name) {
  const ElfSection *section = elf.section_of_type(table);
  if (!section) return Presence::Absent;
  CKPT_TRY(ElfSymbols symbols, symbols_of(elf, *section));
  for (size_t i = 0; i < symbols.count(); ++i) {
    Elf64_Sym s = symbols.symbol(i);
    if (symbols.name(s) == name)
      return s.st_shndx == SHN_UNDEF ? Presence::Imported : Presence::Defined;
  }
  return Presence::Absent;
}

// Whether a section holds a text, reading it in pieces.
Result<bool> holds(const Source &source, const ElfSection &s, std::string_view wanted) {
  std::string piece;
  u64 at = s.header.sh_offset, left = s.header.sh_size;
  while (left > 0) {
    size_t kept = std::min(piece.size(), wanted.size() - 1);
    piece.erase(0, piece.size() - kept);
    size_t n = static_cast<size_t>(std::min<u64>(left, 1u << 20));
    piece.resize(kept + n);
    CKPT_CHECK(source.read(at, std::as_writable_bytes(std::span(piece).subspan(kept))));
    if (piece.find(wanted) != std::string::npos) return true;
    at += n, left -= n;
  }
  return false;
}

Result<RuntimeFact> look_inside(const ElfFile &elf, const Source &source) {
  CKPT_TRY(Presence full, find_symbol(elf, SHT_SYMTAB, kRegister));
  if (full == Presence::Defined)
    return RuntimeFact{Runtime::Static, fmt::format("it has a {} of its own", kRegister)};
  if (elf.section(kWrapperSection))
    return RuntimeFact{
        Runtime::Static,
        fmt::format("it has device code to register and does not import {}", kRegister)};
  const ElfSection *rodata = elf.section(".rodata");
  if (!rodata || rodata->header.sh_type != SHT_PROGBITS) return RuntimeFact{};
  CKPT_TRY(bool found, holds(source, *rodata, kRuntimeText));
  if (!found) return RuntimeFact{};
  return RuntimeFact{Runtime::Static, fmt::format("it holds the runtime's text {}", kRuntimeText)};
}

Result<RuntimeFact> find_runtime(const ElfFile &elf, const Source &source, Form form) {
  if (form == Form::Object) return RuntimeFact{Runtime::Unlinked, "it is not linked yet"};
  CKPT_TRY(Dynamic dynamic, read_dynamic(elf));
  if (dynamic.soname.starts_with(kSharedRuntime))
    return RuntimeFact{Runtime::Itself, fmt::format("it calls itself {}", dynamic.soname)};
  if (!dynamic.needed.empty())
    return RuntimeFact{Runtime::Shared, fmt::format("it needs {}", dynamic.needed)};
  CKPT_TRY(Presence dynsym, find_symbol(elf, SHT_DYNSYM, kRegister));
  if (dynsym == Presence::Imported)
    return RuntimeFact{Runtime::Shared, fmt::format("it imports {}", kRegister)};
  return look_inside(elf, source);
}

}  // namespace

Result<HostElf> read_host(const ElfFile &elf, const Source &source) {
  HostElf host;
  CKPT_TRY(host.form, form_of(elf));
  size_t left = kMostEntries;
  CKPT_CHECK(add_section(elf, source, kLoadedSection, Role::Loaded, left, host.containers));
  CKPT_CHECK(add_section(elf, source, kUnitsSection, Role::Unit, left, host.containers));
  CKPT_TRY(host.runtime, find_runtime(elf, source, host.form));
  return host;
}

}  // namespace ckpt::fatbin
