// SPDX-License-Identifier: Apache-2.0
//
// What declarations mean, by the PTX ISA (9.0, sections 4.4, 4.5 and 5.4), and by NVIDIA's
// assembler (ptxas 13.0, sm_90) where that leaves a choice. Every user of ptx/ is tested with them:
// fat binaries, slicing, placed variables and the software device.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ckpt::ptx::test {

inline constexpr unsigned long kAddress = 0x7f0000000010;  // of y

struct DeclaredBytes {
  std::string_view text;    // declares x
  unsigned long bytes = 0;  // 0: it is refused
  unsigned align = 0;
  std::string_view initial;  // in hexadecimal, up to the last value that is given
};

inline const std::vector<DeclaredBytes> kDeclarations = {
    // Sizes.
    {".global .b8 x[0x10];", 16, 1},
    {".global .b8 x[0X10];", 16, 1},
    {".global .u32 x[4U];", 16, 4},
    {".global .u32 x[010];", 32, 4},  // octal
    {".global .u32 x[0b101];", 20, 4},
    {".global .u32 x[08];"},
    {".global .u32 x[4u];"},
    {".global .u32 x[-1];"},
    {".global .u32 x[+4];"},
    {".global .u32 x[2+3];"},
    {".global .u32 x[1.5];"},
    {".global .u32 x[0];"},
    {".global .u32 x[];"},
    {".global .u32 x[4][0];"},
    {".global .u32 x[2][];"},
    {".global .b32 x[2][3][4];", 96, 4},
    {".global .b8 x[99999999999999999999];"},
    {".global .b64 x[9000000000000000000];"},  // our limit: no device has so much memory
    // Several variables in one declaration.
    {".global .u32 x, z;", 4, 4},
    {".global .u32 z[2], x;", 4, 4},
    {".global .align 16 .u32 z, x[3];", 12, 16},
    {".global .v2 .f32 x[3], z;", 24, 8},
    {".global .u32 z = 1, x[2] = {1, 2};", 8, 4, "0100000002000000"},
    {".global .u32 x z;"},
    {".global .u32 x, ;"},
    {".global .u32 x<4>;"},  // allowed, but not supported
    // Types and vectors.
    {".global .v2 .u16 x;", 4, 4},
    {".global .v4 .f32 x;", 16, 16},
    {".global .v8 .f32 x;"},
    {".global .v3 .f32 x;"},
    {".global .v4 .f64 x;"},
    {".global .v2 .b128 x;"},
    {".global .b128 x;", 16, 16},
    {".global .f16 x;", 2, 2},
    {".global .f16x2 x;", 4, 4},
    {".global .bf16 x;"},
    {".global .u16x2 x;"},
    {".global .u128 x;"},
    {".global .b24 x;"},
    {".global .pred x;"},
    {".global x;"},
    // Alignment is a power of two, and never less than the natural one.
    {".global .align 8 .b8 x[4];", 4, 8},
    {".global .align 0x10 .b8 x[4];", 4, 16},
    {".global .align 010 .b8 x[4];", 4, 8},
    {".global .align 8U .b8 x[4];", 4, 8},
    {".global .align 256 .b8 x[4];", 4, 256},
    {".global .align 65536 .b8 x[4];", 4, 65536},
    {".global .align 1 .u32 x[4];", 16, 4},
    {".global .align 4 .align 16 .u32 x;", 4, 16},
    {".global .align 3 .b8 x[4];"},
    {".global .align 0 .b8 x[4];"},
    // Comments, attributes, linkage.
    {".global .b8 x[2] /* ; */ = /* } */ { 1 , // {\n 2 } ;", 2, 1, "0102"},
    {".visible .global .attribute(.managed) .align 4 .u32 x;", 4, 4},
    {".global .align 8 .attribute(.unified(1, 2)) .u32 x;", 4, 8},
    {".common .global .u32 x;", 4, 4},
    {".weak .const .u32 x = 7;", 4, 4, "07000000"},
    {".global .visible .u32 x;"},
    // Initial values: integers.
    {".global .u32 x = 0x11223344;", 4, 4, "44332211"},
    {".global .s32 x = -2;", 4, 4, "feffffff"},
    {".global .s32 x = - -2;", 4, 4, "02000000"},
    {".global .u8 x = 017;", 1, 1, "0f"},
    {".global .u8 x[2] = {300, -1};", 2, 1, "2cff"},
    {".global .u32 x = 1+2;", 4, 4, "03000000"},
    {".global .u32 x = (1-2);", 4, 4, "ffffffff"},
    {".global .u32 x = WARP_SZ;", 4, 4, "20000000"},
    {".global .b64 x = -1;", 8, 8, "ffffffffffffffff"},
    {".global .u64 x = 18446744073709551615;", 8, 8, "ffffffffffffffff"},
    {".global .u32 x = 0x;"},
    {".global .u32 x = 0b2;"},
    {".global .u32 x = 1.5;"},
    {".global .s16 x = 1.5;"},
    // Floating point.
    {".global .f32 x = 0f3FC00000;", 4, 4, "0000c03f"},
    {".global .f64 x = 0dBFF8000000000000;", 8, 8, "000000000000f8bf"},
    {".global .f64 x = 0f3F800000;", 8, 8, "000000000000f03f"},
    {".global .f32 x = 0d3FF0000000000000;", 4, 4, "0000803f"},
    {".global .f64 x = -0d3FF0000000000000;", 8, 8, "000000000000f0bf"},
    {".global .f32 x = -1.5;", 4, 4, "0000c0bf"},
    {".global .f32 x[3] = {1e3, 1.5E-3, .5};", 12, 4, "00007a44a69bc43a0000003f"},
    {".global .f32 x = 1.5+2.5;", 4, 4, "00008040"},
    {".global .b32 x[2] = {1.5, 2};", 8, 4, "0000c03f02000000"},
    {".global .f32 x = -0f3F800000;"},
    {".global .f32 x = 0f3F8;"},
    {".global .f32 x = 1.5f;"},
    {".global .f32 x = 1;"},
    {".global .f16 x = 1.0;"},
    // Lists match the dimensions, and may be shorter.
    {".global .u16 x[] = {1, 2, 3};", 6, 2, "010002000300"},
    {".global .u16 x[3] = {1};", 6, 2, "0100"},
    {".global .u32 x[3] = {};", 12, 4},
    {".global .u16 x[2][2] = {{1}, {3, 4}};", 8, 2, "0100000003000400"},
    {".global .u16 x[][2] = {{1, 2}, {3, 4}};", 8, 2, "0100020003000400"},
    {".global .u16 x[][3] = {{1}, {3, 4}, {5}};", 18, 2, "0100000000000300040000000500"},
    {".global .v2 .u16 x[] = {{1, 2}, {3, 4}};", 8, 4, "0100020003000400"},
    {".global .v2 .f32 x = {1.0, 2.0};", 8, 8, "0000803f00000040"},
    {".global .u16 x[2][2] = {1, 2, 3};"},
    {".global .v2 .u16 x[] = {1, 2, 3, 4};"},
    {".global .u16 x[3] = {1, 2, 3, 4};"},
    {".global .s32 x[2][2] = {{1, 2, 3}, {4}};"},
    {".global .s32 x[2][2] = {{1}, {2}, {3}};"},
    {".global .u32 x[3] = {1, 2,};"},
    {".global .u32 x[4] = {1, 2;"},
    {".global .u32 x[] = {};"},
    {".global .u32 x = {1};"},
    {".global .u32 x[4] = 1;"},
    // Addresses.
    {".global .u64 x = y;", 8, 8, "10000000007f0000"},
    {".global .u64 x[2] = {y+4, generic(y)+4};", 16, 8, "14000000007f000014000000007f0000"},
    {".global .u64 x = y+-4;", 8, 8, "0c000000007f0000"},
    {".global .u64 x = y+2-1;", 8, 8, "11000000007f0000"},
    {".global .u8 x[2] = {0xff(y), 0xff0000000000(generic(y)+1)};", 2, 1, "107f"},
    {".global .u8 x[2] = {0xFF(1000 + 546), 0xFF00(131187)};", 2, 1, "0a00"},
    {".global .u16 x = y;"},
    {".global .f64 x = y;"},
    {".global .u8 x = 0xfff(y);"},
    {".global .u8 x = 0x00(y);"},
    {".global .u64 x = 0xff(y)+1;"},
    {".global .u64 x = y+y;"},
};

// A whole module, which also declares y.
inline std::string module_with(std::string_view declaration) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 16 .u32 y;\n" +
         std::string(declaration) + "\n";
}

// Of a value in hexadecimal; 0 behind its end.
inline std::byte byte_of(std::string_view hexadecimal, size_t i) {
  std::string digits(2 * i < hexadecimal.size() ? hexadecimal.substr(2 * i, 2) : "0");
  return static_cast<std::byte>(std::stoul(digits, nullptr, 16));
}

struct DeclaredParameters {
  std::string_view text;               // between the parentheses of a kernel
  std::vector<unsigned long> offsets;  // of each
  unsigned long end = 0;               // 0: they are refused
};

inline const std::vector<DeclaredParameters> kParameters = {
    {".param .u8 a, .param .align 16 .b8 b[24], .param .f16 c", {0, 16, 40}, 42},
    {".param .u8 a, .param .u64 .ptr .global .align 128 b, .param .u8 c", {0, 8, 16}, 17},
    {".param .u8 a, .param .u64 .ptr .align 16 b", {0, 8}, 16},
    {".param .u8 a, .param .u64 .ptr b", {0, 8}, 16},
    {".param .u8 a, .param .align 1 .u32 b", {0, 4}, 8},
    {".param .u8 a, .param .align 2 .b8 b[0x3]", {0, 2}, 5},
    {".param .u8 a, .param .b128 b", {0, 16}, 32},
    {".param .u8 a, .param .texref b", {0, 8}, 16},
    {".param .b8 a[010]", {0}, 8},
    {".param .align 3 .b8 a[4]", {}},
    {".param .u64 .ptr .align 3 a", {}},
    {".param .b8 a[]", {}},
    {".param .b8 a[0]", {}},
    {".param .u32 a, b", {}},
    {".param .u32 a,", {}},
    {".param .u32 a .param .u32 b", {}},
    {".param .pred a", {}},
    {".param .v8 .b8 a", {}},
    {".u32 a", {}},
};

}  // namespace ckpt::ptx::test
