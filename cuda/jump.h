// SPDX-License-Identifier: Apache-2.0
//
// One exported function of one indirect jump, for a line of entries.api: its target is the
// variable target_SYMBOL, and jump_SYMBOL is the function's address within this library. A jump
// passes every argument on, on the stack and in registers, whatever the signature (System V ABI for
// x86-64, section 3.2). endbr64 makes the symbol a valid target of indirect calls (CET).
#pragma once

#define CKPT_CUDA_JUMP(symbol)                                                       \
  extern "C" __attribute__((visibility("hidden"))) void *target_##symbol;            \
  extern "C" __attribute__((visibility("hidden"))) char jump_##symbol[];             \
  asm(".pushsection .data.rel,\"aw\"\n"                                              \
      ".balign 8\n"                                                                  \
      ".hidden target_" #symbol "\n.globl target_" #symbol                           \
      "\n"                                                                           \
      "target_" #symbol                                                              \
      ": .quad 0\n"                                                                  \
      ".popsection\n.pushsection .text\n"                                            \
      ".balign 16\n.hidden jump_" #symbol "\n.globl jump_" #symbol "\njump_" #symbol \
      ":\n"                                                                          \
      ".globl " #symbol "\n.type " #symbol ", @function\n" #symbol                   \
      ": endbr64\n  jmp *target_" #symbol                                            \
      "(%rip)\n"                                                                     \
      ".size " #symbol ", . - " #symbol "\n.popsection\n");
