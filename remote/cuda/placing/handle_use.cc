// SPDX-License-Identifier: Apache-2.0
//
// The problem. A kernel gets the handle of a texture object as a number, perhaps through memory, so
// that all copies of it cannot be found; and another driver makes another number. The program gets
// the address of a cell in device memory instead, which is the same on each device. The cell holds
// the driver's handle, and the code looks there.
//
// Example. The handle is in %rd1, and cells lie in 64 MiB from 139637976727552 on:
//
//                                       sub.u64 %o, %rd1, 139637976727552;
//                                       setp.lt.and.u64 %q, %o, 67108864, %p1;
//                                       mov.b64 %h, %rd1;
//                                       @%q ld.global.u64 %h, [%rd1];
//   @%p1 tex.1d.v4.f32.f32 {…},         @%p1 tex.1d.v4.f32.f32 {…},
//     [%rd1, {%f1}];                      [%h, {%f1}];
//
// The range is checked because a program may also have handles of the driver's (handle_table.h in
// client/). The guard of the instruction is part of the check: without it the register may hold
// anything. The load is an ordinary one, as the cell of an object that lives does not change.
//
// Cost. Four instructions, with one load that hits the cache: threads use few objects. For sm_90,
// ptxas 13.0 makes 8 machine instructions or fewer of them.
#include "remote/cuda/placing/handle_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ckpt::remote::cuda {

using ptx::Token;

bool takes_handle(std::string_view opcode) {
  constexpr std::array<std::string_view, 8> kAll = {"tex",  "tld4",  "txq", "suld",
                                                    "sust", "sured", "suq", "istypep"};
  if (std::string_view("tsi").find(opcode[0]) == opcode.npos) return false;  // most end here
  return std::ranges::find(kAll, opcode.substr(0, opcode.find('.'))) != kAll.end();
}

bool HandleUse::is_operand(const Token &t) {
  switch (state_) {
    case State::Begin:
      if (t.is('@'))
        state_ = State::Guard;
      else
        state_ = t.is_word() && takes_handle(t.text) ? State::Brackets : State::Other;
      return false;
    case State::Guard:
      guard_ += t.text;
      if (t.is_word()) state_ = State::Begin;
      return false;
    case State::Brackets:
      if (t.is('[')) state_ = State::Operand;
      return false;
    case State::Operand: state_ = State::Other; return true;
    case State::Other: return false;
  }
  return false;
}

// A name has no dots (PTX ISA, section 4.4, "Identifiers").
bool HandleUse::is_elsewhere(const Token &t) const {
  return state_ != State::Brackets && t.is_word() && takes_handle(t.text) &&
         t.text.find('.') != t.text.npos;
}

std::string look_up(HandleRange range, std::string_view handle, std::string_view guard,
                    std::string_view to, std::string_view offset, std::string_view predicate) {
  std::string check =
      guard.empty()
          ? fmt::format("setp.lt.u64 {}, {}, {}", predicate, offset, range.bytes)
          : fmt::format("setp.lt.and.u64 {}, {}, {}, {}", predicate, offset, range.bytes, guard);
  return fmt::format(
      "sub.u64 {}, {}, {};\n\t{};\n\tmov.b64 {}, {};\n\t@{} ld.global.u64 {}, [{}];\n\t", offset,
      handle, range.base, check, to, handle, predicate, to, handle);
}

}  // namespace ckpt::remote::cuda
