// SPDX-License-Identifier: Apache-2.0
//
// Video instructions of PTX: random ones on random values, against the semantics that the PTX ISA
// gives. --print writes the PTX, which ptxas can check.
#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "driver_check.h"

using u32 = uint32_t;
using i64 = long long;
using Wide = __int128;

std::mt19937 engine(11);
u32 pick(u32 n) { return engine() % n; }
template <class T>
T one_of(std::vector<T> all) {
  return all[pick(u32(all.size()))];
}

struct Case {
  std::string text;  // with the operands d, a, b, c as %r0 … %r3
  std::function<u32(u32, u32, u32)> expected;
};

const char *type_name(bool sign) { return sign ? ".s32" : ".u32"; }

i64 field(u32 v, int low, int bits, bool sign) {
  i64 x = i64(v) >> low & ((i64(1) << bits) - 1);
  if (sign && x >= i64(1) << (bits - 1)) x -= i64(1) << bits;
  return x;
}
Wide saturated(Wide v, int bits, bool sign) {
  Wide most = sign ? (Wide(1) << (bits - 1)) - 1 : (Wide(1) << bits) - 1,
       least = sign ? -most - 1 : 0;
  return v > most ? most : v < least ? least : v;
}

// A part of a register: its suffix, lowest bit and width.
struct Part {
  std::string suffix;
  int low, bits;
};
Part random_part() {
  static const std::vector<Part> kParts{{"", 0, 32},    {"", 0, 32},    {".b0", 0, 8},
                                        {".b1", 8, 8},  {".b2", 16, 8}, {".b3", 24, 8},
                                        {".h0", 0, 16}, {".h1", 16, 16}};
  return one_of(kParts);
}

using Operation = std::function<Wide(i64, i64)>;
struct Named {
  std::string name;
  Operation run;
};
Named random_operation(bool simd) {
  std::vector<Named> all{{"add", [](i64 a, i64 b) { return Wide(a) + b; }},
                         {"sub", [](i64 a, i64 b) { return Wide(a) - b; }},
                         {"absdiff", [](i64 a, i64 b) { return Wide(a > b ? a - b : b - a); }},
                         {"min", [](i64 a, i64 b) { return Wide(a < b ? a : b); }},
                         {"max", [](i64 a, i64 b) { return Wide(a > b ? a : b); }}};
  if (simd)
    all.push_back({"avrg", [](i64 a, i64 b) {
                     i64 sum = a + b;
                     return Wide(sum >= 0 ? (sum + 1) / 2 : sum % 2 == 0 ? sum / 2 : (sum - 1) / 2);
                   }});
  return one_of(all);
}
Named random_comparison() {
  return one_of<Named>({{".eq", [](i64 a, i64 b) { return Wide(a == b); }},
                        {".ne", [](i64 a, i64 b) { return Wide(a != b); }},
                        {".lt", [](i64 a, i64 b) { return Wide(a < b); }},
                        {".le", [](i64 a, i64 b) { return Wide(a <= b); }},
                        {".gt", [](i64 a, i64 b) { return Wide(a > b); }},
                        {".ge", [](i64 a, i64 b) { return Wide(a >= b); }}});
}
Named random_shift(bool left) {
  bool wrap = pick(2);
  return {wrap ? ".wrap" : ".clamp", [=](i64 a, i64 b) {
            int n = int(wrap ? b % 32 : b > 32 ? 32 : b);
            return left ? Wide(a) << n : Wide(a) >> n;
          }};
}

// vadd, vsub, vabsdiff, vmin, vmax, vshl, vshr, vset
Case scalar() {
  u32 kind = pick(8);
  bool set = kind == 5, shift = kind > 5;
  bool d = !set && pick(2), a = pick(2), b = !shift && pick(2), sat = !set && pick(2);
  Named op = set ? random_comparison() : shift ? random_shift(kind == 6) : random_operation(false);
  std::string name = set ? "vset" : kind == 6 ? "vshl" : kind == 7 ? "vshr" : "v" + op.name;
  if (!set) name += type_name(d);
  name += std::string(type_name(a)) + type_name(b);
  if (set) name += op.name;
  if (sat) name += ".sat";
  if (shift) name += op.name;
  Part pa = random_part(), pb = random_part(), pd = random_part();
  u32 second = pd.bits == 32 ? pick(4) : 0;  // none, add, min, max
  name += std::vector<std::string>{"", ".add", ".min", ".max"}[second];
  bool third = second != 0 || pd.bits != 32;
  std::string text = name + " %r0" + pd.suffix + ", %r1" + pa.suffix + ", %r2" + pb.suffix +
                     (third ? ", %r3;" : ";");
  return {text, [=](u32 x, u32 y, u32 z) {
            Wide v = op.run(field(x, pa.low, pa.bits, a), field(y, pb.low, pb.bits, b));
            if (sat) v = saturated(v, pd.bits, d);
            Wide c = field(z, 0, 32, d);
            if (second == 1) v += c;
            if (second == 2) v = v < c ? v : c;
            if (second == 3) v = v > c ? v : c;
            if (pd.bits == 32) return u32(v);
            u32 mask = ((1u << pd.bits) - 1) << pd.low;
            return (z & ~mask) | (u32(v) << pd.low & mask);
          }};
}

Case multiply() {
  bool a = pick(2), b = pick(2), sat = pick(2), po = pick(3) == 0;
  bool minus_ab = !po && pick(3) == 0, minus_c = !po && !minus_ab && pick(2);
  bool sign = a || b || minus_ab || minus_c;
  int scale = one_of<int>({0, 7, 15});
  Part pa = random_part(), pb = random_part();
  std::string text = std::string("vmad") + type_name(sign) + type_name(a) + type_name(b) +
                     (po ? ".po" : "") + (sat ? ".sat" : "") +
                     (scale == 7    ? ".shr7"
                      : scale == 15 ? ".shr15"
                                    : "") +
                     " %r0, " + (minus_ab ? "-" : "") + "%r1" + pa.suffix + ", %r2" + pb.suffix +
                     ", " + (minus_c ? "-" : "") + "%r3;";
  return {text, [=](u32 x, u32 y, u32 z) {
            Wide v = Wide(field(x, pa.low, pa.bits, a)) * field(y, pb.low, pb.bits, b);
            Wide c = field(minus_c ? ~z : z, 0, 32, sign);
            v = (minus_ab ? ~v : v) + c + (po || minus_ab || minus_c ? 1 : 0);
            v >>= scale;
            return u32(sat ? saturated(v, 32, sign) : v);
          }};
}

// Selects elements of {b, a} for a source.
std::string random_selection(u32 n, u32 first, std::vector<u32> &elements) {
  elements.resize(n);
  bool given = pick(2);
  std::string text = n == 2 ? ".h" : ".b";
  for (u32 i = 0; i < n; ++i) elements[i] = given ? pick(2 * n) : first + i;
  for (u32 i = n; i-- > 0;) text += char('0' + elements[i]);
  return given ? text : "";
}

// vadd2 … vset4
Case simd() {
  u32 n = pick(2) ? 2 : 4;
  int bits = 32 / int(n);
  bool set = pick(6) == 0, d = !set && pick(2), a = pick(2), b = pick(2), adds = pick(2),
       sat = !set && !adds && pick(2);
  Named op = set ? random_comparison() : random_operation(true);
  std::vector<u32> from_a, from_b;
  u32 mask = pick(3) == 0 ? 1 + pick((1u << n) - 1) : (1u << n) - 1;
  std::string mask_text = n == 2 ? ".h" : ".b";
  for (u32 i = n; i-- > 0;)
    if (mask >> i & 1) mask_text += char('0' + i);
  std::string text = set ? "vset" : "v" + op.name;
  text += std::to_string(n);
  if (!set) text += type_name(d);
  text += std::string(type_name(a)) + type_name(b) + (set ? op.name : "") + (sat ? ".sat" : "") +
          (adds ? ".add" : "");
  text += " %r0" + (mask == (1u << n) - 1 && pick(2) ? "" : mask_text);
  text += ", %r1" + random_selection(n, 0, from_a) + ", %r2" + random_selection(n, n, from_b) +
          ", %r3;";
  return {text, [=](u32 x, u32 y, u32 z) {
            auto element = [&](u32 which, bool sign) {
              return field(which < n ? x : y, int(which % n) * bits, bits, sign);
            };
            u32 result = adds ? z : 0;
            for (u32 i = 0; i < n; ++i) {
              u32 low = i * u32(bits), own = ((1u << bits) - 1) << low;
              if (!(mask >> i & 1)) {
                if (!adds) result |= z & own;
                continue;
              }
              Wide v = op.run(element(from_a[i], a), element(from_b[i], b));
              if (sat) v = saturated(v, bits, d);
              if (adds)
                result += u32(v);
              else
                result |= u32(v) << low & own;
            }
            return result;
          }};
}

constexpr u32 kThreads = 64;

std::string module_of(const std::vector<Case> &cases) {
  std::string text =
      ".version 8.0\n.target sm_75\n.address_size 64\n"
      ".visible .entry run(.param .u64 in, .param .u64 out) {\n"
      ".reg .b32 %r<6>;\n.reg .b64 %p<4>;\n"
      "ld.param.u64 %p0, [in];\nld.param.u64 %p1, [out];\nmov.u32 %r4, %tid.x;\n"
      "mad.wide.u32 %p2, %r4, 12, %p0;\nmad.wide.u32 %p3, %r4, 4, %p1;\n"
      "ld.global.u32 %r1, [%p2];\nld.global.u32 %r2, [%p2+4];\nld.global.u32 %r3, [%p2+8];\n";
  for (size_t i = 0; i < cases.size(); ++i)
    text +=
        cases[i].text + "\nst.global.u32 [%p3+" + std::to_string(4 * kThreads * i) + "], %r0;\n";
  return text + "ret;\n}\n";
}

u32 random_value() {
  static const u32 kEdges[] = {0,          1,          0xffffffff, 0x80000000, 0x7fffffff,
                               0x80808080, 0x7f7f7f7f, 0x80007fff, 33};
  return pick(3) == 0 ? kEdges[pick(9)] : engine();
}

int main(int argc, char **argv) {
  // By hand, from the examples of a sum of absolute differences.
  std::vector<Case> cases{{"vabsdiff4.u32.u32.u32 %r0, %r1, %r2, %r3;", {}},
                          {"vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3;", {}}};
  for (int i = 0; i < 400; ++i) cases.push_back(scalar());
  for (int i = 0; i < 80; ++i) cases.push_back(multiply());
  for (int i = 0; i < 400; ++i) cases.push_back(simd());
  std::string ptx = module_of(cases);
  if (argc > 1 && std::strcmp(argv[1], "--print") == 0) return std::fputs(ptx.c_str(), stdout) < 0;

  std::vector<u32> in{0x01fe0310, 0x04010210, 5}, out(cases.size() * kThreads);
  while (in.size() < 3 * kThreads) in.push_back(random_value());
  CUcontext context;
  CUmodule module;
  CUfunction run;
  CUdeviceptr from, to;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleLoadData(&module, ptx.c_str()));
  OK(cuModuleGetFunction(&run, module, "run"));
  OK(cuMemAlloc(&from, in.size() * 4));
  OK(cuMemAlloc(&to, out.size() * 4));
  OK(cuMemcpyHtoD(from, in.data(), in.size() * 4));
  void *args[] = {&from, &to};
  OK(cuLaunchKernel(run, 1, 1, 1, kThreads, 1, 1, 0, nullptr, args, nullptr));
  OK(cuMemcpyDtoH(out.data(), to, out.size() * 4));
  CHECK(out[0] == 0x03fd0100 && out[kThreads] == 5 + 3 + 0xfd + 1);
  for (size_t i = 2; i < cases.size(); ++i)
    for (u32 t = 0; t < kThreads; ++t) {
      const u32 *v = &in[3 * t];
      u32 wanted = cases[i].expected(v[0], v[1], v[2]), got = out[i * kThreads + t];
      if (wanted == got) continue;
      std::fprintf(stderr, "%s (%#x, %#x, %#x): expected %#x, got %#x\n", cases[i].text.c_str(),
                   v[0], v[1], v[2], wanted, got);
      return 1;
    }
  std::puts("PASSED");
  return 0;
}
