// SPDX-License-Identifier: Apache-2.0
//
// The problem
//
// nvcc puts fat binaries into sections of their own: .nv_fatbin, and __nv_relfatbin for translation
// units that were linked. A library can also keep fat binaries anywhere among its data and pass
// them to cuModuleLoadData() itself. No table lists those, yet their kernels count as much as any
// other when we ask whether a program uses the device heap. libcufft.so.12 has 23,983 of them in a
// section .ldata.
//
//   .nv_fatbin   [container][container]...                     one after the other
//   .ldata       ......[container]..............[container]..  anywhere, of any length
//
// The algorithm
//
// nvcc's sections are read from their start. All other sections with data (allocated, not
// executable) are searched for the first 8 bytes of a container: magic number, version 1 and header
// size 16. At each match we parse a container, which must end within the section. If that succeeds,
// the search continues behind it, and the container is kept if it has entries. Otherwise the search
// continues 8 bytes further. A match by chance is harmless: the entries would have to be
// well-formed as well.
//
// A file is read in pieces and never as a whole. Containers usually come in rows, so the first
// piece after each container has only 256 bytes, which suffices if another one follows. Every
// further piece is four times as long, up to 256 KiB. Pieces overlap by 7 bytes, so that no match
// is lost at a border.
//
// The cost
//
// One pass over the data: 0.04 s for the 542 MB of libcublasLt.so.13, in the page cache. A hostile
// file cannot make it worse: every match counts as an entry, of which a file may have kMaxEntries,
// and all sections together may not be longer than the file, which overlapping ones would be.
//
// What is not found: cubins and PTX without a container, and compressed data.
//
// Source: the output of nvcc 13.0 and the libraries of its toolkit; fatbinary_section.h for the
// names of the sections.
#include "fatbin/container_search.h"

#include <algorithm>

namespace ckpt::fatbin {
namespace {

class ContainerSearch {
 public:
  ContainerSearch(const ElfFile &elf, const Source &source) : elf_(elf), source_(source) {}

  Result<std::vector<Container>> run() {
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
    if (!fits(at, bytes, source_.size()))
      return fail("section {} reaches beyond the end: the file is truncated or damaged", s.name);
    if (bytes > unread_)
      return fail("section {} overlaps with others: the file is damaged", s.name);
    unread_ -= bytes;
    return {};
  }

  Result<> read(const ElfSection &s, Role role) {
    CKPT_CHECK(check_extent(s));
    CKPT_TRY(auto found, read_containers(source_, s.header.sh_offset, s.header.sh_size, budget_));
    for (Container &c : found) {
      c.role = role;
      found_.push_back(std::move(c));
    }
    return {};
  }

  Result<> search(const ElfSection &s) {
    CKPT_CHECK(check_extent(s));
    u64 at = s.header.sh_offset, end = at + s.header.sh_size;
    while (at < end) {
      CKPT_TRY(at, next_match(at, end));
      if (at >= end) break;
      Result<Container> c = read_container(source_, at, end - at, budget_);
      if (budget_.entries == 0)
        return fail("section {} has more than {} fat binaries and entries, which is the limit",
                    s.name, kMaxEntries);
      --budget_.entries;
      at += c ? c->bytes : kMatchBytes;
      if (c && !c->entries.empty()) found_.push_back(std::move(*c));
    }
    return {};
  }

  // Where the next container may begin; `end` if there is none.
  Result<u64> next_match(u64 at, u64 end) {
    static constexpr ContainerRecord kBegin{kContainerMagic, kContainerVersion, 16, 0};
    for (size_t n = 256; end - at >= kMatchBytes; n = std::min(n * 4, piece_.size())) {
      std::span piece(piece_.data(), static_cast<size_t>(std::min<u64>(n, end - at)));
      CKPT_CHECK(source_.read(at, std::as_writable_bytes(piece)));
      const void *match = ::memmem(piece.data(), piece.size(), &kBegin, kMatchBytes);
      if (match) return at + static_cast<u64>(static_cast<const char *>(match) - piece.data());
      at += piece.size() - (kMatchBytes - 1);
    }
    return end;
  }

  static constexpr size_t kMatchBytes = 8;

  const ElfFile &elf_;
  const Source &source_;
  HeaderBudget budget_;
  u64 unread_ = source_.size();
  std::vector<char> piece_ = std::vector<char>(256u << 10);
  std::vector<Container> found_;
};

}  // namespace

Result<std::vector<Container>> find_containers(const ElfFile &elf, const Source &source) {
  return ContainerSearch(elf, source).run();
}

}  // namespace ckpt::fatbin
