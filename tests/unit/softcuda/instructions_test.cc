// SPDX-License-Identifier: Apache-2.0
//
// Instructions at the edges of their definitions. Source: PTX ISA, chapter "Instruction Set", in
// the section of each instruction.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "softcuda/device/cores.h"
#include "softcuda/ptx/loaded_module.h"
#include "softcuda/vm/kernel.h"

namespace ckpt::softcuda {
namespace {

// One row: $d, $a, $b and $c are registers of this width, p and q are predicates.
struct Case {
  const char *code;
  u64 a, b, c, d;
};

const Case kCases32[] = {
    // Integers: saturation, high halves, what overflows.
    {"add.s32 $d, $a, $b", 0x7fffffff, 1, 0, 0x80000000},
    {"add.sat.s32 $d, $a, $b", 0x7fffffff, 1, 0, 0x7fffffff},
    {"sub.sat.s32 $d, $a, $b", 0x80000000, 1, 0, 0x80000000},
    {"mul.hi.s32 $d, $a, $b", 0xffffffff, 2, 0, 0xffffffff},
    {"mul.hi.u32 $d, $a, $b", 0xffffffff, 2, 0, 1},
    {"mul24.lo.u32 $d, $a, $b", 0xff000003, 0x01000002, 0, 6},
    {"mad.lo.s32 $d, $a, $b, $c", 0xfffffffd, 5, 16, 1},
    {"sad.s32 $d, $a, $b, $c", 0xfffffffb, 7, 1, 13},
    {"sad.u32 $d, $a, $b, $c", 3, 7, 1, 5},
    {"div.s32 $d, $a, $b", 0xfffffff9, 2, 0, 0xfffffffd},
    {"rem.s32 $d, $a, $b", 0xfffffff9, 2, 0, 0xffffffff},
    {"min.s32 $d, $a, $b", 0xffffffff, 1, 0, 0xffffffff},
    {"min.u32 $d, $a, $b", 0xffffffff, 1, 0, 1},
    {"add.cc.u32 $d, $a, $b; addc.u32 $d, $c, 0", 0xffffffff, 1, 5, 6},
    {"sub.cc.u32 $d, $a, $b; subc.u32 $d, $c, 0", 0, 1, 5, 4},
    {"dp4a.s32.u32 $d, $a, $b, $c", 0xff020304, 0x80010101, 0, 0xffffff89},
    // Bits: shifts are clamped, or wrapped if so named.
    {"shl.b32 $d, $a, $b", 1, 32, 0, 0},
    {"shr.u32 $d, $a, $b", 0x80000000, 32, 0, 0},
    {"shr.s32 $d, $a, $b", 0x80000000, 40, 0, 0xffffffff},
    {"shf.l.wrap.b32 $d, $a, $b, $c", 0x80000000, 1, 33, 3},
    {"shf.l.clamp.b32 $d, $a, $b, $c", 0x1234, 1, 40, 0x1234},
    {"shf.r.wrap.b32 $d, $a, $b, $c", 2, 1, 33, 0x80000001},
    {"shf.r.clamp.b32 $d, $a, $b, $c", 1, 0xdead, 40, 0xdead},
    {"popc.b32 $d, $a", 0xf0f0, 0, 0, 8},
    {"clz.b32 $d, $a", 0, 0, 0, 32},
    {"clz.b32 $d, $a", 1, 0, 0, 31},
    {"brev.b32 $d, $a", 3, 0, 0, 0xc0000000},
    {"bfind.u32 $d, $a", 0, 0, 0, 0xffffffff},
    {"bfind.u32 $d, $a", 0x10, 0, 0, 4},
    {"bfind.s32 $d, $a", 0xffffffff, 0, 0, 0xffffffff},
    {"bfind.s32 $d, $a", 0xfffffffe, 0, 0, 0},
    {"bfind.shiftamt.u32 $d, $a", 1, 0, 0, 31},
    {"bfe.u32 $d, $a, $b, $c", 0xabcd1234, 8, 8, 0x12},
    {"bfe.s32 $d, $a, $b, $c", 0x0000ff00, 8, 8, 0xffffffff},
    {"bfe.s32 $d, $a, $b, $c", 0xffffffff, 8, 0, 0},
    {"bfe.s32 $d, $a, $b, $c", 0x80000000, 40, 4, 0xffffffff},
    {"bfi.b32 $d, $a, $b, 8, 8", 0x12, 0xffffffff, 0, 0xffff12ff},
    {"bfi.b32 $d, $a, $b, 28, 8", 0xff, 0, 0, 0xf0000000},
    {"prmt.b32 $d, $a, $b, $c", 0x33221100, 0x77665544, 0x7531, 0x77553311},
    {"prmt.b32 $d, $a, $b, $c", 0x80, 0, 0x8888, 0xffffffff},
    {"prmt.b32.rc8 $d, $a, $b, $c", 0x33221100, 0, 1, 0x11111111},
    {"lop3.b32 $d, $a, $b, $c, 0x80", 0xf0, 0xcc, 0xaa, 0x80},
    {"lop3.b32 $d, $a, $b, $c, 0x96", 0xf0, 0xcc, 0xaa, 0x96},
    // Floating point: one rounding of fma, directions, denormals, NaN.
    {"fma.rn.f32 $d, $a, $b, $c", 0x3f800800, 0x3f800800, 0xbf801000, 0x33800000},
    {"add.rn.f32 $d, $a, $b", 0x3f800000, 0x33c00000, 0, 0x3f800001},
    {"add.rz.f32 $d, $a, $b", 0x3f800000, 0x33c00000, 0, 0x3f800000},
    {"add.rp.f32 $d, $a, $b", 0x3f800000, 0x33000000, 0, 0x3f800001},
    {"add.rm.f32 $d, $a, $b", 0xbf800000, 0xb3000000, 0, 0xbf800001},
    {"add.f32 $d, $a, $b", 1, 1, 0, 2},
    {"add.ftz.f32 $d, $a, $b", 1, 0x80000001, 0, 0},
    {"add.sat.f32 $d, $a, $b", 0x3f400000, 0x3f400000, 0, 0x3f800000},
    {"add.sat.f32 $d, $a, $b", 0x7fc00000, 0x3f400000, 0, 0},
    {"min.f32 $d, $a, $b", 0x7fc00000, 0x3f800000, 0, 0x3f800000},
    {"min.NaN.f32 $d, $a, $b", 0x7fc00001, 0x3f800000, 0, 0x7fffffff},
    {"min.f32 $d, $a, $b", 0, 0x80000000, 0, 0x80000000},
    {"max.f32 $d, $a, $b", 0x80000000, 0, 0, 0},
    {"sqrt.rn.f32 $d, $a", 0x40000000, 0, 0, 0x3fb504f3},
    {"rcp.rn.f32 $d, $a", 0x40400000, 0, 0, 0x3eaaaaab},
    {"div.rn.f32 $d, $a, $b", 0x3f800000, 0, 0, 0x7f800000},
    {"copysign.f32 $d, $a, $b", 0x80000000, 0x3f800000, 0, 0xbf800000},
    // Conversions: to the nearest even, clamped; NaN is 0.
    {"cvt.rni.s32.f32 $d, $a", 0x40200000, 0, 0, 2},
    {"cvt.rni.s32.f32 $d, $a", 0x40600000, 0, 0, 4},
    {"cvt.rmi.s32.f32 $d, $a", 0xbfc00000, 0, 0, 0xfffffffe},
    {"cvt.rzi.u32.f32 $d, $a", 0xbf800000, 0, 0, 0},
    {"cvt.rzi.s32.f32 $d, $a", 0x4f32d05e, 0, 0, 0x7fffffff},
    {"cvt.rzi.s32.f32 $d, $a", 0x7fc00000, 0, 0, 0},
    {"cvt.rn.f32.u32 $d, $a", 0xffffffff, 0, 0, 0x4f800000},
    {"cvt.rz.f32.u32 $d, $a", 0xffffffff, 0, 0, 0x4f7fffff},
    {"cvt.rn.f16x2.f32 $d, $a, $b", 0x3f800000, 0x40000000, 0, 0x3c004000},
    {"cvt.sat.u8.s32 $d, $a", 300, 0, 0, 255},
    {"cvt.sat.u8.s32 $d, $a", 0xfffffffb, 0, 0, 0},
    {"cvt.s32.s8 $d, $a", 0x1ff, 0, 0, 0xffffffff},
    {"cvt.u32.u16 $d, $a", 0x12345678, 0, 0, 0x5678},
    // Comparisons: those with u are true for NaN.
    {"setp.lt.f32 p, $a, $b; selp.b32 $d, 1, 2, p", 0x7fc00000, 0, 0, 2},
    {"setp.ltu.f32 p, $a, $b; selp.b32 $d, 1, 2, p", 0x7fc00000, 0, 0, 1},
    {"setp.nan.f32 p, $a, $b; selp.b32 $d, 1, 2, p", 0, 0x7fc00000, 0, 1},
    {"setp.eq.f32 p, $a, $b; selp.b32 $d, 1, 2, p", 0, 0x80000000, 0, 1},
    {"setp.lt.s32 p, $a, $b; selp.b32 $d, 1, 2, p", 0xffffffff, 0, 0, 1},
    {"setp.lo.u32 p, $a, $b; selp.b32 $d, 1, 2, p", 0xffffffff, 0, 0, 2},
    {"setp.eq.u32 p|q, $a, $b; selp.b32 $d, 1, 2, q", 1, 1, 0, 2},
    {"set.eq.u32.s32 $d, $a, $b", 7, 7, 0, 0xffffffff},
    {"set.eq.f32.s32 $d, $a, $b", 7, 7, 0, 0x3f800000},
    {"slct.u32.s32 $d, $a, $b, $c", 1, 2, 0x80000000, 2},
    {"slct.u32.s32 $d, $a, $b, $c", 1, 2, 0, 1},
};

const Case kCases64[] = {
    {"mul.hi.u64 $d, $a, $b", ~u64{0}, 2, 0, 1},
    {"mul.hi.s64 $d, $a, $b", ~u64{0}, 2, 0, ~u64{0}},
    {"mad.lo.s64 $d, $a, $b, $c", u64{1} << 33, u64{1} << 33, 7, 7},
    {"shr.s64 $d, $a, 70", u64{1} << 63, 0, 0, ~u64{0}},
    {"shl.b64 $d, $a, 64", 1, 0, 0, 0},
    {"brev.b64 $d, $a", 1, 0, 0, u64{1} << 63},
    {"bfe.u64 $d, $a, 40, 8", 0x00ab'cd00'0000'0000, 0, 0, 0xcd},
    {"fma.rn.f64 $d, $a, $b, $c", 0x3ff0000002000000, 0x3ff0000002000000, 0xbff0000004000000,
     0x3c90000000000000},
    {"add.rz.f64 $d, $a, $b", 0x3ff0000000000000, 0x3ca8000000000000, 0, 0x3ff0000000000000},
    {"min.f64 $d, $a, $b", 0x7ff8000000000000, 0x4000000000000000, 0, 0x4000000000000000},
    {"cvt.rzi.s64.f64 $d, $a", 0x46293e5939a08cea, 0, 0, 0x7fffffffffffffff},
    {"cvt.rzi.u64.f64 $d, $a", 0xbff0000000000000, 0, 0, 0},
    {"cvt.rzi.s64.f64 $d, $a", 0x7ff8000000000000, 0, 0, u64{1} << 63},
    {"cvt.rn.f64.s64 $d, $a", ~u64{0}, 0, 0, 0xbff0000000000000},
    {"cvt.s64.s32 $d, $a", 0x80000000, 0, 0, 0xffffffff80000000},
};

// All memory of the host, at its own addresses.
class HostMemory : public vm::AddressSpace {
 public:
  bool find(u64, vm::Range &out) const override {
    out = {0, ~u64{0} >> 17, 0};
    return true;
  }
};

std::string with_registers(std::string code) {
  for (size_t at; (at = code.find('$')) != std::string::npos;) code[at] = '%';
  return code;
}

// A kernel that stores the result of each row, in order.
std::string kernel_of(std::span<const Case> cases, unsigned bits) {
  std::string text = fmt::format(
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n"
      "  .reg .b{} %a, %b, %c, %d;\n  .reg .b64 %o;\n  .reg .pred p, q;\n"
      "  ld.param.u64 %o, [out];\n",
      bits);
  for (size_t i = 0; i < cases.size(); i++)
    text += fmt::format(
        "  mov.b{0} %a, {1};\n  mov.b{0} %b, {2};\n  mov.b{0} %c, {3};\n  {4};\n"
        "  st.b{0} [%o+{5}], %d;\n",
        bits, cases[i].a, cases[i].b, cases[i].c, with_registers(cases[i].code), 8 * i);
  return text + "  ret;\n}\n";
}

std::vector<u64> results_of(const std::string &text, size_t count) {
  std::vector<u64> results(count);
  std::vector<std::unique_ptr<ptx::LoadedModule>> modules;
  modules.push_back(std::move(ptx::parse_module(text).value()));
  std::unique_ptr<vm::Image> image = std::move(vm::Image::link(std::move(modules)).value());
  auto linked = vm::Kernel::link(*image, *image->find("k"));
  REQUIRE_MESSAGE(linked, linked.error().what);
  HostMemory memory;
  vm::Grid g;
  g.kernel = linked->get();
  g.memory = &memory;
  g.grid = g.block = g.cluster = {1, 1, 1};
  g.static_shared = g.kernel->static_shared();
  u64 out = reinterpret_cast<u64>(results.data());
  g.params.resize(sizeof out);
  std::memcpy(g.params.data(), &out, sizeof out);
  static Cores *const kCores = new Cores;
  kCores->run(g);
  REQUIRE_MESSAGE(g.fault.text.empty(), g.fault.text);
  return results;
}

void check(std::span<const Case> cases, unsigned bits) {
  std::vector<u64> results = results_of(kernel_of(cases, bits), cases.size());
  for (size_t i = 0; i < cases.size(); i++)
    CHECK_MESSAGE(results[i] == cases[i].d,
                  fmt::format("{} of {:#x}, {:#x}, {:#x} is {:#x}, not {:#x}", cases[i].code,
                              cases[i].a, cases[i].b, cases[i].c, results[i], cases[i].d));
}

}  // namespace

TEST_CASE("instructions on 32 bits give what the PTX ISA says") { check(kCases32, 32); }
TEST_CASE("instructions on 64 bits give what the PTX ISA says") { check(kCases64, 64); }

}  // namespace ckpt::softcuda
