// SPDX-License-Identifier: Apache-2.0
//
// Constants of an image in a pipe (docs/FORMAT.md, "In a pipe").
#pragma once

#include "storage/format/format.h"

namespace ckpt::storage {

// The name that tools accept in place of a path for an image in a pipe.
inline constexpr std::string_view kPipeImage = "-";

inline constexpr std::string_view kPipeMagic = "CKPTPIPE";
inline constexpr u32 kFirstPipeVersion = 2;
inline constexpr u32 kMaxPieceBytes = 16u << 20;

Bytes encode_pipe_header();

}  // namespace ckpt::storage
