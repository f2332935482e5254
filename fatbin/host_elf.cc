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

// Collects the containers of a file's sections.
class Finder {
 public:
  Finder(const ElfFile &elf, const Source &source) : elf_(elf), source_(source) {}

  Result<std::vector<Container>> find() {
    for (const ElfSection &s : elf_.sections()) {
      if (s.header.sh_type != SHT_PROGBITS) continue;
      if (s.name == kLoadedSection)
        CKPT_CHECK(read(s, Role::Loaded));
      else if (s.name == kUnitsSection)
        CKPT_CHECK(read(s, Role::Unit));
      else if (may_hold_data(s.header))
        CKPT_CHECK(search(s));
    }
    std::ranges::stable_sort(found_, {}, &Container::role);
    return std::move(found_);
  }

 private:
  static bool may_hold_data(const Elf64_Shdr &h) {
    return (h.sh_flags & SHF_ALLOC) && !(h.sh_flags & SHF_EXECINSTR);
  }

  Result<> check_extent(const ElfSection &s) {
    u64 at = s.header.sh_offset, bytes = s.header.sh_size;
    if (at > source_.size() || bytes > std::min(room_, source_.size() - at))
      return fail("its section {} reaches beyond its end: it was cut short or is damaged", s.name);
    room_ -= bytes;
    return {};
  }

  Result<> read(const ElfSection &s, Role role) {
    CKPT_CHECK(check_extent(s));
    CKPT_TRY(auto found, read_containers(source_, s.header.sh_offset, s.header.sh_size, left_));
    for (Container &c : found) {
      c.role = role;
      found_.push_back(std::move(c));
    }
    return {};
  }

  // A library may keep fat binaries among its data and load them itself: libcufft.so.12 has 23983.
  // What looks like one and is none, or empty, is passed over: the bytes may be anything.
  Result<> search(const ElfSection &s) {
    CKPT_CHECK(check_extent(s));
    u64 at = s.header.sh_offset, end = at + s.header.sh_size;
    while (at < end) {
      CKPT_TRY(at, next_magic(at, end));
      if (at >= end) break;
      Result<Container> c = read_container(source_, at, end - at, left_);
      // Each try counts, or a file full of magic numbers would take forever.
      if (left_.entries == 0)
        return fail("its section {} has more than {} fat binaries and entries", s.name,
                    kMaxEntries);
      --left_.entries;
      at += c ? c->bytes : sizeof(u64);
      if (c && !c->entries.empty()) found_.push_back(std::move(*c));
    }
    return {};
  }

  // Where the next container begins, or `end`.
  Result<u64> next_magic(u64 at, u64 end) {
    static constexpr ContainerRecord kBegin{kContainerMagic, kContainerVersion, 16, 0};
    std::string_view wanted(reinterpret_cast<const char *>(&kBegin), 8);
    // Where there is one there are more: a little is read first, and then more and more.
    for (size_t n = 256; end - at >= wanted.size(); n = std::min(n * 4, piece_.size())) {
      std::span piece(piece_.data(), static_cast<size_t>(std::min<u64>(n, end - at)));
      CKPT_CHECK(source_.read(at, std::as_writable_bytes(piece)));
      const void *hit = ::memmem(piece.data(), piece.size(), wanted.data(), wanted.size());
      if (hit) return at + static_cast<u64>(static_cast<const char *>(hit) - piece.data());
      at += piece.size() - (wanted.size() - 1);
    }
    return end;
  }

  const ElfFile &elf_;
  const Source &source_;
  HeaderBudget left_;
  u64 room_ = source_.size();  // of all sections together, or they overlap
  std::vector<char> piece_ = std::vector<char>(256u << 10);
  std::vector<Container> found_;
};

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
  if (elf.section(kWrapperSection))
    return RuntimeFact{
        Runtime::Static,
        fmt::format("it has device code to register and does not import {}", kRegister)};
  // Of a file without kernels. Damaged symbols, or too many, are no reason to refuse it.
  Result<Presence> symbol = find_symbol(elf, SHT_SYMTAB, kRegister);
  if (symbol && *symbol == Presence::Defined)
    return RuntimeFact{Runtime::Static, fmt::format("it has a {} of its own", kRegister)};
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
  CKPT_TRY(host.containers, Finder(elf, source).find());
  CKPT_TRY(host.runtime, find_runtime(elf, source, host.form));
  return host;
}

}  // namespace ckpt::fatbin
