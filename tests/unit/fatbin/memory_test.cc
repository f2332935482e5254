// SPDX-License-Identifier: Apache-2.0
//
// Code as a program passes it to the CUDA runtime or driver: a pointer without a length.
#include <elf.h>

#include "fatbin/cubin.h"
#include "fatbin/ptx.h"
#include "fatbin/summary.h"
#include "tests/unit/fatbin/support.h"

namespace ckpt::fatbin::test {
namespace {

TEST_CASE("a wrapper leads to its container") {
  Bytes ptx = bytes_of(kSmallPtx + '\0');
  Bytes data = container({EntryMaker::compressed(Kind::Ptx, ptx, kFlagZstd)});
  WrapperRecord w{kWrapperMagic, 1, data.data(), nullptr};
  Image image = must(Image::in_memory(&w));
  CHECK(image.form() == Form::Wrapper);
  REQUIRE(image.containers().size() == 1);
  Payload p = must(image.payload(image.containers()[0].entries[0]));
  CHECK(p.text() == kSmallPtx);
  CodeFacts facts = must(facts_of_ptx(p.text()));
  REQUIRE(facts.kernels.size() == 1);
  CHECK(facts.kernels[0].name == "k");
}

TEST_CASE("a linked wrapper also leads to the translation units") {
  EntryMaker unit = EntryMaker::raw(Kind::Ptx, kHeapPtx);
  unit.options("--compile-only");
  Bytes linked = container({EntryMaker::raw(Kind::Ptx, kSmallPtx, 80)}), empty = container({});
  Bytes one = container({unit}), two = container({EntryMaker::raw(Kind::Ptx, kSmallPtx)});
  const void *units[] = {one.data(), two.data(), nullptr};

  WrapperRecord w{kWrapperMagic, kLinkedWrapper, linked.data(), units};
  Image image = must(Image::in_memory(&w));
  REQUIRE(image.containers().size() == 3);
  CHECK(image.containers()[0].role == Role::Loaded);
  CHECK(image.containers()[1].role == Role::Unit);
  // The linked code decides: it contains what is left after linking.
  CHECK(must(summarize(image)).heap.use == HeapUse::No);

  // The linker had only PTX and left an empty container, so the driver loads the units.
  w.data = empty.data();
  Summary all = must(summarize(must(Image::in_memory(&w))));
  CHECK(all.heap.use == HeapUse::Yes);
  CHECK(contains(all.heap.reason, "before linking"));

  w.units = nullptr;
  w.data = linked.data();
  CHECK(must(Image::in_memory(&w)).containers().size() == 1);
}

TEST_CASE("a fat binary, PTX and a cubin without a wrapper") {
  Bytes fat = container({EntryMaker::raw(Kind::Ptx, kSmallPtx)});
  CHECK(must(Image::in_memory(fat.data())).form() == Form::FatBinary);

  Image ptx = must(Image::in_memory(kSmallPtx.c_str()));
  CHECK(ptx.form() == Form::Ptx);
  const Entry &e = ptx.containers()[0].entries[0];
  CHECK(e.target() == "compute_75");
  CHECK(must(ptx.payload(e)).text() == kSmallPtx);

  struct {
    Elf64_Ehdr header{};
    Elf64_Shdr sections[2]{};
    char contents[40]{};
  } elf;
  std::memcpy(elf.header.e_ident, ELFMAG, SELFMAG);
  elf.header.e_ident[EI_CLASS] = ELFCLASS64;
  elf.header.e_ident[EI_DATA] = ELFDATA2LSB;
  elf.header.e_ident[EI_ABIVERSION] = 8;
  elf.header.e_machine = kCudaMachine;
  elf.header.e_flags = 0x6005a04;
  elf.header.e_type = ET_EXEC;
  elf.header.e_shoff = sizeof elf.header;
  elf.header.e_shnum = 2;
  elf.header.e_shentsize = sizeof(Elf64_Shdr);
  elf.sections[1].sh_type = SHT_PROGBITS;
  elf.sections[1].sh_offset = sizeof elf.header + sizeof elf.sections;
  elf.sections[1].sh_size = sizeof elf.contents;
  Image cubin = must(Image::in_memory(&elf));
  CHECK(cubin.form() == Form::Cubin);
  CHECK(cubin.containers()[0].entries[0].bytes == sizeof elf);
  CHECK(cubin.containers()[0].entries[0].target() == "sm_90");

  elf.header.e_machine = EM_X86_64;
  CHECK(!Image::in_memory(&elf));
}

TEST_CASE("memory without device code is refused") {
  CHECK(!Image::in_memory(nullptr));
  CHECK(!Image::in_memory(""));
  CHECK(!Image::in_memory("a text"));
  WrapperRecord w{kWrapperMagic, 1, nullptr, nullptr};
  CHECK(!Image::in_memory(&w));
  Bytes other(64);
  w.data = other.data();
  CHECK(contains(Image::in_memory(&w).error().what, "no fat binary"));
}

}  // namespace
}  // namespace ckpt::fatbin::test
