// SPDX-License-Identifier: Apache-2.0
//
// Copies and waits of a split program (site.h) between objects of different sides: the current
// context, a stream, memory, an event. CUDA allows all of these combinations.
//
//   memory of the other side than the stream   the stream is waited for; the copy is made in a
//                                              context of the memory's side, and waited for
//   memory of both sides                       the bytes go through the program
//   an event of the other side                 the program waits for it
#pragma once

#include "remote/cuda/client/copies/copies.h"

namespace ckpt::remote::cuda {

// A context of the device that has the memory; 0: none has it.
u64 context_with(u64 address);
// Whether these contexts are of different sides. 0 is of none.
bool are_apart(u64 context, u64 other);

// Makes a copy where its memory is, which is of the context `of`: calls copy(order), and returns
// its result. Nothing: the copy can be made in the current context.
template <class Copy>
std::optional<CUresult> detour(u64 of, Order order, Copy copy) {
  if (!link().is_split() || of == 0) return {};
  u64 stream = context_of_stream(order.stream);
  if (!are_apart(of, stream) && !are_apart(of, current_context())) return {};
  if (stream != 0 && !are_apart(of, stream)) {
    InContext in(stream);
    return copy(order);
  }
  CUresult e = entry_cuStreamSynchronize(reinterpret_cast<CUstream>(order.stream));
  if (e != CUDA_SUCCESS) return e;
  InContext in(of);
  return copy(Order{0, false});
}

// Between memory of the two sides.
CUresult copy_through_program(u64 to, u64 from, u64 bytes, Order order);
// The stream goes on behind the event.
CUresult wait_for_event(CUstream stream, CUevent event, unsigned flags);

}  // namespace ckpt::remote::cuda
