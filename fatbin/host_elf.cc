// SPDX-License-Identifier: Apache-2.0
#include "fatbin/host_elf.h"

#include <algorithm>

#include "fatbin/container_search.h"

namespace ckpt::fatbin {
namespace {

// Every object that nvcc makes calls this function before main() (crt/host_runtime.h). A file that
// needs it and does not import it contains the runtime.
constexpr std::string_view kRegister = "__cudaRegisterFatBinary";
constexpr std::string_view kSharedRuntime = "libcudart.so";

// A string that cudaGetErrorName() returns. Ordinary programs do not contain it, so it reveals a
// static runtime even in a stripped program without kernels. Made of two parts, so that it is not
// in this program.
std::string runtime_text() {
  std::string text = "cudaErrorCudart";
  return text += "Unloading";
}

Result<Form> form_of(const ElfFile &elf) {
  switch (elf.header().e_type) {
    case ET_REL: return Form::Object;
    case ET_EXEC: return Form::Executable;
    case ET_DYN: return elf.section(".interp") ? Form::Executable : Form::SharedLibrary;
    default:
      return fail("an ELF file of type {} is not a program, a library or an object",
                  elf.header().e_type);
  }
}

struct Dynamic {
  std::string needed;  // the shared runtime, as DT_NEEDED names it; "" if it is not needed
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

// Whether a section contains `text`; reads it in overlapping pieces.
Result<bool> contains(const Source &source, const ElfSection &s, std::string_view text) {
  std::string piece;
  u64 at = s.header.sh_offset, left = s.header.sh_size;
  while (left > 0) {
    size_t kept = std::min(piece.size(), text.size() - 1);
    piece.erase(0, piece.size() - kept);
    size_t n = static_cast<size_t>(std::min<u64>(left, 1u << 20));
    piece.resize(kept + n);
    CKPT_CHECK(source.read(at, std::as_writable_bytes(std::span(piece).subspan(kept))));
    if (piece.find(text) != std::string::npos) return true;
    at += n;
    left -= n;
  }
  return false;
}

Result<RuntimeFact> find_static_runtime(const ElfFile &elf, const Source &source) {
  if (elf.section(kWrapperSection))
    return RuntimeFact{Runtime::Static,
                       fmt::format("it registers device code and does not import {}", kRegister)};
  // A file without kernels. A damaged or oversized symbol table is not an error here: the text
  // below may still decide.
  Result<Presence> symbol = find_symbol(elf, SHT_SYMTAB, kRegister);
  if (symbol && *symbol == Presence::Defined)
    return RuntimeFact{Runtime::Static, fmt::format("it defines {}", kRegister)};
  const ElfSection *rodata = elf.section(".rodata");
  if (!rodata || rodata->header.sh_type != SHT_PROGBITS) return RuntimeFact{};
  CKPT_TRY(bool found, contains(source, *rodata, runtime_text()));
  if (!found) return RuntimeFact{};
  return RuntimeFact{Runtime::Static,
                     fmt::format("it contains the string {} of the runtime", runtime_text())};
}

Result<RuntimeFact> find_runtime(const ElfFile &elf, const Source &source, Form form) {
  if (form == Form::Object) return RuntimeFact{Runtime::Unlinked, "it is not linked yet"};
  CKPT_TRY(Dynamic dynamic, read_dynamic(elf));
  if (dynamic.soname.starts_with(kSharedRuntime))
    return RuntimeFact{Runtime::Itself, fmt::format("its SONAME is {}", dynamic.soname)};
  if (!dynamic.needed.empty())
    return RuntimeFact{Runtime::Shared, fmt::format("it needs {}", dynamic.needed)};
  CKPT_TRY(Presence dynsym, find_symbol(elf, SHT_DYNSYM, kRegister));
  if (dynsym == Presence::Imported)
    return RuntimeFact{Runtime::Shared, fmt::format("it imports {}", kRegister)};
  return find_static_runtime(elf, source);
}

}  // namespace

Result<HostElf> read_host(const ElfFile &elf, const Source &source) {
  HostElf host;
  CKPT_TRY(host.form, form_of(elf));
  CKPT_TRY(host.containers, find_containers(elf, source));
  CKPT_TRY(host.runtime, find_runtime(elf, source, host.form));
  return host;
}

}  // namespace ckpt::fatbin
