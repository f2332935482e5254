// SPDX-License-Identifier: Apache-2.0
#include "fatbin/elf_file.h"

#include <algorithm>

#include "fatbin/format.h"

namespace ckpt::fatbin {
namespace {

// libelf allocates a record for every section that the header claims, so the number is checked
// before. A file with SHN_LORESERVE (65280) sections or more keeps it in the first section's header
// (elf(5)).
Result<> check_header(const Source &source) {
  CKPT_TRY(Elf64_Ehdr h, source.record<Elf64_Ehdr>(0));
  if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0) return fail("not an ELF file");
  if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB)
    return fail("only 64-bit little-endian ELF files are supported");
  if (h.e_shoff == 0) return {};
  if (h.e_shentsize != sizeof(Elf64_Shdr))
    return fail("the ELF header is damaged: a section header has {} bytes", h.e_shentsize);
  u64 count = h.e_shnum;
  if (count == 0) {
    CKPT_TRY(Elf64_Shdr first, source.record<Elf64_Shdr>(h.e_shoff));
    count = first.sh_size;
  }
  if (count > kMaxSections)
    return fail("{} ELF sections exceed the limit of {}", count, kMaxSections);
  if (!fits(h.e_shoff, count * sizeof(Elf64_Shdr), source.size()))
    return fail(
        "the table of ELF sections reaches beyond the end: the file is truncated or damaged");
  return {};
}

void start_libelf() { [[maybe_unused]] static const unsigned once = ::elf_version(EV_CURRENT); }

Failure elf_failure(const char *what) {
  const char *reason = ::elf_errmsg(-1);
  return fail("{}: {}", what, reason ? reason : "damaged");
}

}  // namespace

Result<ElfFile> ElfFile::from(ByteView file) {
  MemorySource source(file);
  CKPT_CHECK(check_header(source));
  start_libelf();
  // elf_memory() opens for reading (ELF_C_READ), so libelf does not write there.
  auto *bytes = const_cast<char *>(reinterpret_cast<const char *>(file.data()));
  return from(source, Handle(::elf_memory(bytes, file.size())));
}

Result<ElfFile> ElfFile::from(const FileSource &file) {
  CKPT_CHECK(check_header(file));
  start_libelf();
  return from(file, Handle(::elf_begin(file.fd(), ELF_C_READ, nullptr)));
}

Result<ElfFile> ElfFile::from(const Source &source, Handle handle) {
  if (!handle) return elf_failure("cannot open it as an ELF file");
  ElfFile f;
  f.elf_ = std::move(handle);
  f.size_ = source.size();
  if (!::gelf_getehdr(f.elf_.get(), &f.header_)) return elf_failure("cannot read the ELF header");
  CKPT_CHECK(f.read_sections());
  return f;
}

Result<> ElfFile::read_sections() {
  size_t names = 0;
  if (::elf_getshdrstrndx(elf_.get(), &names) != 0) return {};
  ByteView strings;
  if (Elf_Scn *s = ::elf_getscn(elf_.get(), names)) {
    Elf64_Shdr h{};
    if (::gelf_getshdr(s, &h) && h.sh_type == SHT_STRTAB) {
      CKPT_TRY(strings, contents({"section names", h, s}));
    }
  }
  size_t count = 0;
  if (::elf_getshdrnum(elf_.get(), &count) != 0)
    return elf_failure("cannot count the ELF sections");
  for (size_t i = 0; i < count; ++i) {
    Elf_Scn *s = ::elf_getscn(elf_.get(), i);
    // gelf_getshdr() copies: the headers of a damaged file need not be aligned.
    Elf64_Shdr h{};
    if (!s || !::gelf_getshdr(s, &h)) return elf_failure("cannot read an ELF section");
    sections_.push_back({string_at(strings, h.sh_name), h, s});
  }
  return {};
}

const ElfSection *ElfFile::section(std::string_view name) const {
  auto it = std::ranges::find(sections_, name, &ElfSection::name);
  return it == sections_.end() ? nullptr : &*it;
}

const ElfSection *ElfFile::section_of_type(u32 type) const {
  auto it = std::ranges::find_if(sections_,
                                 [&](const ElfSection &s) { return s.header.sh_type == type; });
  return it == sections_.end() ? nullptr : &*it;
}

const ElfSection *ElfFile::linked(const ElfSection &section) const {
  size_t i = section.header.sh_link;
  return i > 0 && i < sections_.size() ? &sections_[i] : nullptr;
}

Result<ByteView> ElfFile::contents(const ElfSection &section) const {
  const Elf64_Shdr &h = section.header;
  if (h.sh_type == SHT_NOBITS || h.sh_size == 0) return ByteView();
  if (h.sh_size > kMaxTableBytes)
    return fail("ELF section {} of {} bytes exceeds the limit of {}", section.name, h.sh_size,
                kMaxTableBytes);
  if (!fits(h.sh_offset, h.sh_size, size_))
    return fail("ELF section {} reaches beyond the end: the file is truncated or damaged",
                section.name);
  const Elf_Data *data = ::elf_rawdata(section.handle, nullptr);
  if (!data || !data->d_buf) return elf_failure("cannot read an ELF section");
  return view(data->d_buf, data->d_size);
}

Elf64_Sym ElfSymbols::symbol(size_t i) const {
  Elf64_Sym s;
  std::memcpy(&s, table.data() + i * sizeof s, sizeof s);
  return s;
}

std::string_view ElfSymbols::name(const Elf64_Sym &symbol) const {
  return string_at(strings, symbol.st_name);
}

Result<ElfSymbols> symbols_of(const ElfFile &file, const ElfSection &section) {
  const ElfSection *strings = file.linked(section);
  if (!strings) return fail("the ELF symbol table has no string table");
  ElfSymbols s;
  CKPT_TRY(s.table, file.contents(section));
  CKPT_TRY(s.strings, file.contents(*strings));
  bool whole = s.table.size() % sizeof(Elf64_Sym) == 0;
  for (size_t i = 0; whole && i < s.count(); ++i) whole = s.symbol(i).st_name < s.strings.size();
  if (!whole || (!s.strings.empty() && s.strings.back() != std::byte{}))
    return fail("the ELF symbol table is damaged");
  return s;
}

std::string_view string_at(ByteView table, u64 at) {
  if (at >= table.size()) return {};
  std::string_view rest = text(table.subspan(at));
  size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace ckpt::fatbin
