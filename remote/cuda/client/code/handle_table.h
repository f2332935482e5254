// SPDX-License-Identifier: Apache-2.0
//
// The handles of texture and surface objects that a program gets. Another driver makes other ones,
// and a program may have stored its own anywhere. So the program gets the address of a cell in the
// arena, and the cell holds the driver's handle: code that is loaded from rewritten PTX looks there
// (remote/cuda/placing/handle_use.cc).
//
// Other code would take the address itself for a handle, and might compute something. So there are
// never both: a cell in use, and code that may use textures and was not rewritten (opaque code).
//
//   a program has       makes an object      loads opaque code
//   opaque code         the driver's handle  loads it
//   a cell in use       a cell               is refused
//   neither             a cell               loads it
//
// Opaque code counts before it is loaded if it is in a file of the program without any PTX, because
// the CUDA runtime loads code with its first kernel. Rewritten code accepts the driver's handles,
// too. A program that has one cannot be moved.
#pragma once

#include "remote/cuda/client/objects/client.h"
#include "remote/cuda/placing/handle_use.h"

namespace ckpt::remote::cuda {

// If set to "driver", all handles are the driver's, and no code is rewritten for them.
inline constexpr const char *kHandlesVariable = "CKPT_CUDA_TEXTURES";
bool handles_are_cells();

// The addresses of all cells. Opens the arena.
CUresult handle_range(HandleRange &out);
bool is_cell(u64 handle);

// A cell for an object of the current context's device; 0: there is opaque code, so that the object
// gets the driver's handle.
CUresult take_cell(u64 &cell);
// Of an object that was not made, or has ended.
void give_cell(u64 cell);
bool has_cells();

// The code may be loaded: no cell is in use. `code`: the number of the module or library.
bool admit_opaque(u64 code);
// It was not loaded, or has ended.
void forget_opaque(u64 code);
// What is opaque now, as in "the code with the kernel "add""; "": nothing is.
std::string name_of_opaque();

}  // namespace ckpt::remote::cuda
