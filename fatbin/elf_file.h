// SPDX-License-Identifier: Apache-2.0
//
// A 64-bit little-endian ELF file, read by libelf. The bytes are untrusted; sections are read on
// demand.
#pragma once

#include <elf.h>
#include <gelf.h>

#include <memory>
#include <string_view>
#include <vector>

#include "fatbin/source.h"

namespace ckpt::fatbin {

struct ElfSection {
  std::string_view name;
  Elf64_Shdr header{};
  Elf_Scn *handle = nullptr;
};

class ElfFile {
 public:
  // `file` must outlive the object, as must the object all views that it returns.
  static Result<ElfFile> from(ByteView file);
  static Result<ElfFile> from(const FileSource &file);

  const Elf64_Ehdr &header() const { return header_; }
  const std::vector<ElfSection> &sections() const { return sections_; }
  const ElfSection *section(std::string_view name) const;
  const ElfSection *section_of_type(u32 type) const;
  // The section that sh_link refers to; null if there is none.
  const ElfSection *linked(const ElfSection &section) const;

  // The bytes of a section; empty for SHT_NOBITS, which takes no space in the file.
  Result<ByteView> contents(const ElfSection &section) const;

 private:
  struct End {
    void operator()(Elf *e) const { ::elf_end(e); }
  };
  using Handle = std::unique_ptr<Elf, End>;

  static Result<ElfFile> from(const Source &source, Handle handle);
  Result<> read_sections();

  Handle elf_;
  u64 size_ = 0;
  Elf64_Ehdr header_{};
  std::vector<ElfSection> sections_;
};

// A symbol table and the string table with its names.
struct ElfSymbols {
  ByteView table, strings;

  size_t count() const { return table.size() / sizeof(Elf64_Sym); }
  Elf64_Sym symbol(size_t i) const;
  std::string_view name(const Elf64_Sym &symbol) const;
};
// An error if a name lies outside of the string table.
Result<ElfSymbols> symbols_of(const ElfFile &file, const ElfSection &section);

// The string at an offset of a string table; "" if there is none.
std::string_view string_at(ByteView table, u64 at);

}  // namespace ckpt::fatbin
