// SPDX-License-Identifier: Apache-2.0
//
// Builds ELF files with the contents of a cubin.
#pragma once

#include <elf.h>

#include "tests/unit/fatbin/support.h"

namespace ckpt::fatbin::test {

class CubinMaker {
 public:
  Elf64_Ehdr header{};

  explicit CubinMaker(u16 type = ET_EXEC, u32 arch = 75) {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_ident[EI_ABIVERSION] = 8;
    header.e_machine = 190;
    header.e_version = EV_CURRENT;
    header.e_type = type;
    header.e_flags = arch << 8;
    header.e_ehsize = sizeof header;
    header.e_shentsize = sizeof(Elf64_Shdr);
    section("", SHT_NULL, {});
  }

  // Appends a section and returns its index.
  u16 section(const std::string &name, u32 type, ByteView contents, u32 link = 0, u64 flags = 0) {
    sections_.push_back({name, type, link, flags, Bytes(contents.begin(), contents.end())});
    return static_cast<u16>(sections_.size() - 1);
  }
  void symbol(const std::string &name, u8 type, u16 section, u64 bytes = 0, u8 other = 0) {
    Elf64_Sym s{};
    s.st_name = static_cast<u32>(strings_.size());
    s.st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    s.st_other = other;
    s.st_shndx = section;
    s.st_size = bytes;
    strings_ += name + '\0';
    symbols_.raw(&s, sizeof s);
  }

  // Appends the sections for symbols and names and returns the file.
  Bytes make() {
    u16 strings = section(".strtab", SHT_STRTAB, view(strings_));
    section(".symtab", SHT_SYMTAB, symbols_.bytes(), strings);
    u16 names = section(".shstrtab", SHT_STRTAB, {});
    std::string all;
    std::vector<u32> at;
    for (const Section &s : sections_) {
      at.push_back(static_cast<u32>(all.size()));
      all += s.name + '\0';
    }
    sections_[names].contents = bytes_of(all);

    Writer body, table;
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Section &s = sections_[i];
      Elf64_Shdr h{.sh_name = at[i],
                   .sh_type = s.type,
                   .sh_flags = s.flags,
                   .sh_offset = sizeof header + body.size(),
                   .sh_size = s.contents.size(),
                   .sh_link = s.link,
                   .sh_addralign = 1,
                   .sh_entsize = s.type == SHT_SYMTAB ? sizeof(Elf64_Sym) : 0};
      table.raw(&h, sizeof h);
      body.raw(s.contents.data(), s.contents.size());
    }
    header.e_shoff = sizeof header + body.size();
    header.e_shnum = static_cast<u16>(sections_.size());
    header.e_shstrndx = names;
    Writer out;
    out.raw(&header, sizeof header).raw(body.bytes().data(), body.size());
    return out.raw(table.bytes().data(), table.size()).take();
  }

 private:
  struct Section {
    std::string name;
    u32 type, link;
    u64 flags;
    Bytes contents;
  };
  std::vector<Section> sections_;
  std::string strings_ = std::string(1, '\0');
  Writer symbols_;
};

constexpr u8 kKernelSymbol = 0x10;  // st_other

// A cubin with one kernel, which calls malloc if `heap`.
inline Bytes small_cubin(bool heap, u16 type = ET_EXEC, u32 arch = 75) {
  CubinMaker c(type, arch);
  u16 code = c.section(".text.k", SHT_PROGBITS, {});
  c.symbol("k", STT_FUNC, code, 16, kKernelSymbol);
  if (heap) c.symbol("malloc", STT_FUNC, SHN_UNDEF);
  return c.make();
}

}  // namespace ckpt::fatbin::test
