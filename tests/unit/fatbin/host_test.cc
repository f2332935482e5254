// SPDX-License-Identifier: Apache-2.0
//
// ELF files for the host: where their fat binaries are, and which runtime they call.
// tests/system/test_fatbin.py examines what nvcc and the linker make.
#include <tuple>

#include "fatbin/summary.h"
#include "tests/unit/fatbin/cubin_maker.h"

namespace ckpt::fatbin::test {
namespace {

class HostMaker : public CubinMaker {
 public:
  explicit HostMaker(u16 type = ET_DYN) : CubinMaker(type) { header.e_machine = EM_X86_64; }

  // Adds a dynamic section that needs these libraries and imports these functions.
  void dynamic(const std::vector<std::string> &needed, const std::vector<std::string> &imported) {
    std::string strings(1, '\0');
    Writer libraries, symbols;
    for (const std::string &name : needed) {
      libraries.put(i64{DT_NEEDED}).put(u64{strings.size()});
      strings += name + '\0';
    }
    libraries.put(i64{DT_NULL}).put(u64{0});
    for (const std::string &name : imported) {
      Elf64_Sym s{};
      s.st_name = static_cast<u32>(strings.size());
      symbols.raw(&s, sizeof s);
      strings += name + '\0';
    }
    u16 names = section(".dynstr", SHT_STRTAB, view(strings));
    section(".dynamic", SHT_DYNAMIC, libraries.bytes(), names);
    section(".dynsym", SHT_DYNSYM, symbols.bytes(), names);
  }
};

RuntimeFact runtime_of(HostMaker &host) {
  Bytes file = host.make();
  return must(Image::from_bytes(file)).runtime();
}

const std::string kRegister = "__cudaRegisterFatBinary";

TEST_CASE("the runtime is shared, static, unlinked or none") {
  HostMaker none;
  CHECK(runtime_of(none).runtime == Runtime::None);
  HostMaker needed;
  needed.dynamic({"libc.so.6", "libcudart.so.13"}, {});
  CHECK(runtime_of(needed).runtime == Runtime::Shared);
  CHECK(contains(runtime_of(needed).reason, "libcudart.so.13"));
  HostMaker imported;
  imported.dynamic({"libc.so.6"}, {"puts", kRegister});
  imported.section(".nvFatBinSegment", SHT_PROGBITS, {});
  CHECK(runtime_of(imported).runtime == Runtime::Shared);
  HostMaker within;
  within.dynamic({"libc.so.6"}, {"puts"});
  within.section(".nvFatBinSegment", SHT_PROGBITS, {});
  CHECK(runtime_of(within).runtime == Runtime::Static);
  HostMaker an_object(ET_REL);
  CHECK(runtime_of(an_object).runtime == Runtime::Unlinked);
}

TEST_CASE("a static runtime without kernels is recognised by a symbol or a string") {
  HostMaker symbols;
  symbols.symbol(kRegister, STT_FUNC, symbols.section(".text", SHT_PROGBITS, {}));
  CHECK(runtime_of(symbols).runtime == Runtime::Static);
  // The string crosses the border of two pieces that are read one after the other.
  std::string text((1u << 20) - 7, ' ');
  HostMaker stripped;
  stripped.section(".rodata", SHT_PROGBITS, view(text + "cudaErrorCudartUnloading"));
  CHECK(runtime_of(stripped).runtime == Runtime::Static);
  HostMaker other;
  other.section(".rodata", SHT_PROGBITS, view(text + "cudaErrorCudartUnloadin_"));
  CHECK(runtime_of(other).runtime == Runtime::None);
}

TEST_CASE("the linked program decides, not its translation units") {
  EntryMaker unit = EntryMaker::raw(Kind::Ptx, kHeapPtx);
  unit.options("--compile-only");
  HostMaker host;
  host.section(".nv_fatbin", SHT_PROGBITS,
               container({EntryMaker::raw(Kind::Elf, small_cubin(false))}));
  host.section("__nv_relfatbin", SHT_PROGBITS, container({unit}));
  Bytes file = host.make();
  Image image = must(Image::from_bytes(file));
  CHECK(image.form() == Form::SharedLibrary);
  REQUIRE(image.containers().size() == 2);
  CHECK(image.containers()[0].role == Role::Loaded);
  CHECK(image.containers()[1].role == Role::Unit);
  CHECK(must(summarize(image)).heap.use == HeapUse::No);

  HostMaker only_units(ET_REL);
  only_units.section("__nv_relfatbin", SHT_PROGBITS, container({unit}));
  file = only_units.make();
  CHECK(must(summarize(must(Image::from_bytes(file)))).heap.use == HeapUse::Yes);
}

TEST_CASE("fat binaries among the data of a library are found") {
  Bytes heap = container({EntryMaker::raw(Kind::Ptx, kHeapPtx)}), data(300u << 10);
  Bytes magic(heap.begin(), heap.begin() + 8);
  auto put = [&](const Bytes &what, size_t at) {
    std::ranges::copy(what, data.begin() + static_cast<ptrdiff_t>(at));
  };
  put(magic, 1000);  // a match by chance
  put(heap, 5000);
  put(heap, (256u << 10) - 4);  // across the border of two pieces
  HostMaker host;
  host.section(".nv_fatbin", SHT_PROGBITS,
               container({EntryMaker::raw(Kind::Elf, small_cubin(false))}));
  host.section(".data", SHT_PROGBITS, data, 0, SHF_ALLOC | SHF_WRITE);
  Bytes file = host.make();
  Image image = must(Image::from_bytes(file));
  CHECK(image.containers().size() == 3);
  CHECK(must(summarize(image)).heap.use == HeapUse::Yes);

  HostMaker code;
  code.section(".text", SHT_PROGBITS, data, 0, SHF_ALLOC | SHF_EXECINSTR);
  file = code.make();
  CHECK(must(Image::from_bytes(file)).containers().empty());

  Bytes full((kMaxEntries + 1) * magic.size());
  for (size_t i = 0; i <= kMaxEntries; ++i) std::memcpy(full.data() + i * 8, magic.data(), 8);
  HostMaker hostile;
  hostile.section(".data", SHT_PROGBITS, full, 0, SHF_ALLOC);
  file = hostile.make();
  CHECK(contains(Image::from_bytes(file).error().what, "more than 1048576"));
}

TEST_CASE("sections that overlap or reach beyond the end are refused") {
  HostMaker host;
  host.section(".nv_fatbin", SHT_PROGBITS, Bytes(4096));
  for (int i = 0; i < 4; ++i) host.section(".nv_fatbin", SHT_PROGBITS, {});
  Bytes file = host.make();
  REQUIRE(Image::from_bytes(file));
  Elf64_Ehdr h;
  std::memcpy(&h, file.data(), sizeof h);
  std::vector<Elf64_Shdr> sections(h.e_shnum);
  auto table = std::as_writable_bytes(std::span(sections));
  std::memcpy(table.data(), file.data() + h.e_shoff, table.size());
  for (int i = 2; i <= 5; ++i)
    std::tie(sections[i].sh_offset, sections[i].sh_size) =
        std::tie(sections[1].sh_offset, sections[1].sh_size);
  std::memcpy(file.data() + h.e_shoff, table.data(), table.size());
  CHECK(contains(Image::from_bytes(file).error().what, ".nv_fatbin overlaps"));
  sections[2].sh_size = ~u64{0};
  std::memcpy(file.data() + h.e_shoff, table.data(), table.size());
  CHECK(contains(Image::from_bytes(file).error().what, ".nv_fatbin reaches beyond"));
}

}  // namespace
}  // namespace ckpt::fatbin::test
