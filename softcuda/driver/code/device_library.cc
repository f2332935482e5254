// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/code/device_library.h"

#include <algorithm>
#include <string_view>

namespace ckpt::softcuda::driver {
namespace {

// cudaCGGetIntrinsicHandle: 1 for the scope of the grid (cudaCGScopeGrid), 0 for others.
//
// cudaCGSynchronize: one thread of each block adds to a word of the grid's workspace, which is zero
// when the grid begins. All but the first block add 1, and the first one what is missing to 2^31,
// so the topmost bit changes when the last block has come. Each waits for that, and the next
// barrier changes it back. The words of cooperative_groups begin at 0 of the workspace; this one is
// at 256.
constexpr const char *kGridBarrier = R"(
.version 6.0
.target sm_60
.address_size 64
.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %d<2>;
  ld.param.u32 %r1, [scope];
  setp.eq.u32 %p1, %r1, 1;
  selp.b64 %d1, 1, 0, %p1;
  st.param.b64 [handle], %d1;
  ret;
}
.visible .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
  .reg .pred %p<5>;
  .reg .b32 %r<16>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [handle];
  mov.u32 %r1, %envreg1;
  mov.u32 %r2, %envreg2;
  mov.b64 %d2, {%r2, %r1};
  mov.u32 %r15, 1;
  setp.ne.u64 %p1, %d1, 1;
  @%p1 bra END;
  setp.eq.u64 %p1, %d2, 0;
  @%p1 bra END;
  mov.u32 %r15, 0;
  bar.sync 0;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %tid.y;
  or.b32 %r3, %r3, %r4;
  mov.u32 %r4, %tid.z;
  or.b32 %r3, %r3, %r4;
  setp.ne.u32 %p2, %r3, 0;
  @%p2 bra JOINED;
  mov.u32 %r5, %nctaid.x;
  mov.u32 %r4, %nctaid.y;
  mul.lo.u32 %r5, %r5, %r4;
  mov.u32 %r4, %nctaid.z;
  mul.lo.u32 %r5, %r5, %r4;
  mov.u32 %r6, %ctaid.x;
  mov.u32 %r4, %ctaid.y;
  or.b32 %r6, %r6, %r4;
  mov.u32 %r4, %ctaid.z;
  or.b32 %r6, %r6, %r4;
  mov.u32 %r7, -2147483647;
  sub.u32 %r7, %r7, %r5;
  setp.eq.u32 %p3, %r6, 0;
  selp.b32 %r8, %r7, 1, %p3;
  membar.gl;
  atom.global.add.u32 %r9, [%d2+256], %r8;
WAIT:
  ld.volatile.global.u32 %r10, [%d2+256];
  xor.b32 %r11, %r9, %r10;
  setp.ge.s32 %p4, %r11, 0;
  @%p4 bra WAIT;
  membar.gl;
JOINED:
  bar.sync 0;
END:
  st.param.b32 [result], %r15;
  ret;
}
)";

// Whether a part declares the function and leaves its definition to others.
bool is_external(const std::string &ptx, std::string_view function) {
  size_t at = ptx.find(function);
  if (at == ptx.npos) return false;
  size_t line = ptx.rfind('\n', at) + 1;  // 0 in the first line
  return std::string_view(ptx).substr(line, at - line).find(".extern") != ptx.npos;
}

}  // namespace

const char *device_library_for(const std::vector<std::string> &ptx) {
  auto needs = [](const std::string &p) { return is_external(p, "cudaCGGetIntrinsicHandle"); };
  return std::ranges::any_of(ptx, needs) ? kGridBarrier : nullptr;
}

}  // namespace ckpt::softcuda::driver
