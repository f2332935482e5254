// SPDX-License-Identifier: Apache-2.0
//
// The facts of all entries put together, above all the verdict on the device heap.
#include "fatbin/summary.h"

#include "tests/unit/fatbin/cubin_maker.h"

namespace ckpt::fatbin::test {
namespace {

Summary summary_of(const Bytes &file, const SummaryOptions &options = {}) {
  return must(summarize(must(Image::from_bytes(file)), options));
}

HeapVerdict heap_of(const std::vector<EntryMaker> &entries) {
  return summary_of(container(entries)).heap;
}

EntryMaker cubin(bool heap, u32 arch = 75) {
  return EntryMaker::raw(Kind::Elf, small_cubin(heap, ET_EXEC, arch), arch);
}
EntryMaker ptx(bool heap, u32 arch = 75) {
  return EntryMaker::raw(Kind::Ptx, heap ? kHeapPtx : kSmallPtx, arch);
}

TEST_CASE("the heap verdict follows the cubins") {
  CHECK(heap_of({}).use == HeapUse::No);
  CHECK(contains(heap_of({}).reason, "no device code"));
  CHECK(heap_of({cubin(false)}).use == HeapUse::No);
  HeapVerdict used = heap_of({cubin(false, 75), cubin(true, 90)});
  CHECK(used.use == HeapUse::Yes);
  CHECK(used.reason == "the elf entry of sm_90 calls malloc");
}

TEST_CASE("PTX decides about the heap if no cubin has its target") {
  CHECK(heap_of({ptx(true)}).use == HeapUse::Yes);
  CHECK(heap_of({ptx(false)}).use == HeapUse::No);
  // The compiler removes unused functions from the cubin.
  CHECK(heap_of({cubin(false), ptx(true)}).use == HeapUse::No);
  CHECK(heap_of({ptx(true), cubin(false)}).use == HeapUse::No);
  // A newer device gets the PTX, which may contain other code.
  CHECK(heap_of({cubin(false), ptx(true, 90)}).use == HeapUse::Yes);
  EntryMaker special = ptx(true);
  special.record.flags |= kFlagArchSpecific;
  CHECK(heap_of({cubin(false), special}).use == HeapUse::Yes);
}

TEST_CASE("the heap is assumed to be used if an entry cannot be examined") {
  HeapVerdict lto = heap_of({EntryMaker::raw(Kind::LtoIr, "?", 90)});
  CHECK(lto.use == HeapUse::Assumed);
  CHECK(contains(lto.reason, "not public"));
  EntryMaker damaged = EntryMaker::compressed(Kind::Elf, small_cubin(false), kFlagZstd, 90);
  damaged.payload[10] ^= std::byte{0xff};
  Summary s = summary_of(container({cubin(false), damaged}));
  CHECK(s.heap.use == HeapUse::Assumed);
  CHECK(contains(s.heap.reason, "sm_90"));
  REQUIRE(s.unexamined.size() == 1);
  CHECK(s.unexamined[0].entry == 1);
  CHECK(s.textures == Use::Unknown);
  CHECK(s.kernels.size() == 1);
  CHECK(heap_of({EntryMaker::raw(Kind::Elf, "not an ELF file")}).use == HeapUse::Assumed);
  CHECK(heap_of({EntryMaker::raw(static_cast<Kind>(16), "?")}).use == HeapUse::Assumed);
  // A certain "yes" goes before an assumption.
  CHECK(heap_of({EntryMaker::raw(Kind::LtoIr, "?"), cubin(true)}).use == HeapUse::Yes);
}

TEST_CASE("entries beyond the total limit make the verdict \"assumed\"") {
  std::vector<EntryMaker> entries = {cubin(false, 75), cubin(false, 80), cubin(false, 90)};
  Summary s = summary_of(container(entries),
                         {.max_total_bytes = small_cubin(false).size() * 2 + 16, .threads = 1});
  CHECK(s.unexamined.size() == 1);
  CHECK(s.heap.use == HeapUse::Assumed);
  CHECK(contains(s.heap.reason, "limit"));
}

TEST_CASE("the total limit stops many small decompression bombs") {
  Bytes zeros(200u << 20);
  EntryMaker bomb = EntryMaker::compressed(Kind::Ptx, zeros, kFlagZstd);
  std::vector<EntryMaker> bombs(8, bomb);
  Summary s = summary_of(container(bombs), {.threads = 1});
  REQUIRE(s.unexamined.size() == 8);
  CHECK(contains(s.unexamined[4].reason, "not PTX"));
  CHECK(contains(s.unexamined[5].reason, "limit"));
}

TEST_CASE("kernels and variables of all entries are merged") {
  std::string other = kSmallPtx;
  other.replace(other.find(".u32 n"), 4, ".u64");
  other += ".global .u32 v;\n.const .u32 w;\n";
  Bytes file = container({EntryMaker::raw(Kind::Ptx, kSmallPtx + ".global .u64 v;\n", 75),
                          EntryMaker::raw(Kind::Ptx, other, 90)});
  for (unsigned threads : {1, 4}) {
    Summary s = summary_of(file, {.threads = threads});
    REQUIRE(s.kernels.size() == 1);
    const KernelSummary &k = s.kernels.at("k");
    CHECK(k.kernel.parameters == std::vector<Parameter>{{0, 8}, {8, 4}});
    CHECK(k.targets == std::set<std::string>{"compute_75", "compute_90"});
    CHECK(k.differs);
    REQUIRE(s.variables.size() == 2);
    CHECK(s.variables.at("v").variable.bytes == 8);
    CHECK(s.variables.at("v").differs);
    CHECK(!s.variables.at("w").differs);
    CHECK(s.textures == Use::No);
  }
}

TEST_CASE("texture use is read from PTX and is unknown for a cubin alone") {
  std::string tex = kSmallPtx;
  tex.replace(tex.find(" ret;"), 5, " tex.1d.v4.f32.s32 {a}, [b];\n ret;");
  CHECK(summary_of(container({cubin(false)})).textures == Use::Unknown);
  CHECK(summary_of(container({cubin(false), ptx(false)})).textures == Use::No);
  Summary s = summary_of(container({cubin(false), EntryMaker::raw(Kind::Ptx, tex)}));
  CHECK(s.textures == Use::Yes);
  CHECK(s.surfaces == Use::No);
}

}  // namespace
}  // namespace ckpt::fatbin::test
