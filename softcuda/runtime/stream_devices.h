// SPDX-License-Identifier: Apache-2.0
//
// The devices of the streams that this library has made. "A kernel launch will fail if it is issued
// to a stream that is not associated to the current device" (CUDA C++ programming guide, Stream and
// Event Behavior), while the driver API takes the context from the stream (cuLaunchKernel). They
// are kept here because a launch asks for them each time, and the driver may be on another node.
#pragma once

#include "softcuda/runtime/state.h"

namespace ckpt::softcuda::runtime {

// A stream was made, if `made` is cudaSuccess, in the current context.
cudaError_t note_stream(cudaError_t made, const cudaStream_t *s);
void forget_stream(cudaStream_t s);
// cudaErrorInvalidResourceHandle: the stream is known, and of another device than the current one.
cudaError_t check_stream_device(cudaStream_t s);

}  // namespace ckpt::softcuda::runtime
