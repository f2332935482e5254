// SPDX-License-Identifier: Apache-2.0
#include "fatbin/cubin.h"

#include "tests/unit/fatbin/cubin_maker.h"

namespace ckpt::fatbin::test {
namespace {

// Appends an attribute of .nv.info that describes a parameter.
void parameter(Writer &w, u16 ordinal, u16 offset, u32 bytes) {
  w.put(u8{4}).put(u8{0x17}).put(u16{12}).put(u32{0}).put(ordinal).put(offset).put(bytes << 18 |
                                                                                   0x1f000);
}
void long_parameter(Writer &w, u16 ordinal, u16 offset, u16 bytes) {
  w.put(u8{4}).put(u8{0x45}).put(u16{12}).put(u32{0}).put(ordinal).put(offset).put(bytes).put(
      u16{0x500});
}

TEST_CASE("kernels with parameters, variables and references are read") {
  Writer info;
  parameter(info, 1, 8, 4);
  info.put(u8{3}).put(u8{0x1b}).put(u16{0xff});
  parameter(info, 0, 0, 8);
  long_parameter(info, 2, 12, 30000);
  info.put(u8{3}).put(u8{0x19}).put(u16{30012});

  CubinMaker c;
  u16 code = c.section(".text.k", SHT_PROGBITS, {});
  u16 global = c.section(".nv.global", SHT_NOBITS, {}),
      init = c.section(".nv.global.init", SHT_PROGBITS, {});
  u16 constant = c.section(".nv.constant3", SHT_PROGBITS, {}),
      shared = c.section(".nv.shared.k", SHT_NOBITS, {});
  c.section(".nv.info.k", SHT_LOPROC, info.bytes());
  c.symbol("k", STT_FUNC, code, 256, kKernelSymbol);
  c.symbol("helper", STT_FUNC, code, 256);
  c.symbol("counter", STT_OBJECT, global, 400);
  c.symbol("seen", STT_OBJECT, global, 28, 0x04);
  c.symbol("$str", STT_OBJECT, init, 7);
  c.symbol("unlinked", 13, init, 4, 0x20);
  c.symbol("table", STT_OBJECT, constant, 64);
  c.symbol("tile", STT_OBJECT, shared, 256);
  c.symbol("t", 10, SHN_UNDEF);
  c.symbol("m", 11, SHN_UNDEF);
  c.symbol("s", 12, SHN_UNDEF);
  CodeFacts f = must(facts_of_cubin(c.make()));
  CHECK(f.target == "sm_75");
  CHECK(!f.relocatable);
  REQUIRE(f.kernels.size() == 1);
  CHECK(f.kernels[0] == Kernel{"k", {{0, 8}, {8, 4}, {12, 30000}}, 30012});
  std::vector<Variable> variables = {{"counter", Space::Global, 400},
                                     {"seen", Space::Managed, 28},
                                     {"unlinked", Space::Global, 4},
                                     {"table", Space::Constant, 64}};
  CHECK(f.variables == variables);
  std::vector<Reference> references = {
      {"t", ReferenceKind::Texture}, {"m", ReferenceKind::Sampler}, {"s", ReferenceKind::Surface}};
  CHECK(f.references == references);
  CHECK(!f.uses_textures);
}

TEST_CASE("malloc counts only if it is imported") {
  CHECK(must(facts_of_cubin(small_cubin(true))).heap_function == "malloc");
  CHECK(must(facts_of_cubin(small_cubin(false))).heap_function.empty());
  CubinMaker own;
  own.symbol("malloc", STT_FUNC, own.section(".text.malloc", SHT_PROGBITS, {}), 16);
  own.symbol("free", STT_FUNC, SHN_UNDEF);
  own.symbol("vprintf", STT_FUNC, SHN_UNDEF);
  CodeFacts f = must(facts_of_cubin(own.make()));
  CHECK(f.heap_function.empty());
  CHECK(f.prints);
}

TEST_CASE("the target is read from old and new flags and has its suffix") {
  CubinMaker old(ET_REL);
  old.header.e_ident[EI_ABIVERSION] = 7;
  old.header.e_flags = 0x560556;
  CodeFacts f = must(facts_of_cubin(old.make()));
  CHECK(f.target == "sm_86");
  CHECK(f.relocatable);
  CubinMaker suffixed(ET_EXEC, 90);
  suffixed.section(".note.nv.tkinfo", SHT_NOTE, view("ptxas -arch sm_80a -arch sm_90a -m 64 "));
  CHECK(must(facts_of_cubin(suffixed.make())).target == "sm_90a");
}

TEST_CASE("the device runtime is recognised by its marker, but not after linking") {
  for (u16 type : {ET_REL, ET_EXEC}) {
    CubinMaker c(type);
    c.symbol("__CNPRT_VERSION_NUMBER__", 13, c.section(".nv.global.init", SHT_PROGBITS, {}), 4);
    CHECK(must(facts_of_cubin(c.make())).is_device_runtime == (type == ET_REL));
  }
}

TEST_CASE("no truncation and no flipped bit crashes the reader") {
  Bytes cubin = small_cubin(true);
  for (size_t n = 0; n < cubin.size(); ++n) CHECK(!facts_of_cubin(ByteView(cubin).first(n)));
  for (size_t i = 0; i < cubin.size() * 8; ++i) {
    Bytes damaged = cubin;
    damaged[i / 8] ^= std::byte(1u << i % 8);
    (void)facts_of_cubin(damaged);
  }
}

TEST_CASE("other ELF files and oversized tables are refused") {
  CubinMaker host;
  host.header.e_machine = EM_X86_64;
  CHECK(contains(facts_of_cubin(host.make()).error().what, "not a cubin"));

  CubinMaker narrow;
  narrow.header.e_ident[EI_CLASS] = ELFCLASS32;
  CHECK(contains(facts_of_cubin(narrow.make()).error().what, "64-bit"));

  // More sections than e_shnum can hold: the first section has their number.
  Bytes many = CubinMaker().make();
  Elf64_Ehdr h;
  std::memcpy(&h, many.data(), sizeof h);
  h.e_shnum = 0;
  std::memcpy(many.data(), &h, sizeof h);
  Elf64_Shdr first{.sh_size = ~u64{0} / 64};
  std::memcpy(many.data() + h.e_shoff, &first, sizeof first);
  CHECK(contains(facts_of_cubin(many).error().what, "exceed the limit"));

  CubinMaker cut;
  u16 code = cut.section(".text.k", SHT_PROGBITS, {});
  Writer info;
  info.put(u8{4}).put(u8{0x17}).put(u16{12}).put(u32{0});
  cut.section(".nv.info.k", SHT_LOPROC, info.bytes());
  cut.symbol("k", STT_FUNC, code, 16, kKernelSymbol);
  CHECK(contains(facts_of_cubin(cut.make()).error().what, "truncated"));
}

TEST_CASE("the total length of names is limited") {
  CubinMaker c;
  u16 global = c.section(".nv.global", SHT_NOBITS, {});
  std::string name(100u << 10, 'x');
  for (int i = 0; i < 700; ++i) c.symbol(name, STT_OBJECT, global, 4);
  CHECK(contains(facts_of_cubin(c.make()).error().what, "exceed the limits"));
}

}  // namespace
}  // namespace ckpt::fatbin::test
