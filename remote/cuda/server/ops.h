// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remote/cuda/server/server.h"

namespace ckpt::remote::cuda {

CUresult op_arena(Call &c);
CUresult op_map(Call &c);
CUresult op_unmap(Call &c);
CUresult op_make_memory(Call &c);
CUresult op_end_memory(Call &c);
CUresult op_map_memory(Call &c);
CUresult op_unmap_memory(Call &c);
CUresult op_set_access(Call &c);
CUresult op_settle(Call &c);
CUresult op_idle(Call &c);

CUresult op_code(Call &c);
CUresult op_load(Call &c);
CUresult op_link(Call &c);
CUresult op_global(Call &c);

CUresult op_parameters(Call &c);
CUresult op_launch(Call &c);
CUresult op_host_call(Call &c);

CUresult op_write(Call &c);
CUresult op_read(Call &c);
CUresult op_read_changed(Call &c);
CUresult op_copy(Call &c);
CUresult op_fill(Call &c);
CUresult op_write_box(Call &c);
CUresult op_read_box(Call &c);
CUresult op_copy_box(Call &c);

CUresult op_stream_value(Call &c);

CUresult op_mirror(Call &c);
CUresult op_end_mirror(Call &c);
CUresult op_push(Call &c);
CUresult op_fetch(Call &c);

CUresult op_make_array(Call &c);
CUresult op_make_mipmap(Call &c);
CUresult op_mipmap_level(Call &c);
CUresult op_make_texture(Call &c);
CUresult op_end_texture(Call &c);
CUresult op_make_texture_at(Call &c);
CUresult op_end_texture_at(Call &c);

// The driver's stream of a number.
CUresult stream_of(Call &c, u64 number, CUstream &out);

}  // namespace ckpt::remote::cuda
