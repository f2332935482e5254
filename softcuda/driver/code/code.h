// SPDX-License-Identifier: Apache-2.0
//
// Modules, libraries and functions: from the code that a program passes to kernels that can run.
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

// Appends the PTX in `code`: PTX text, a fat binary, or what cuLinkComplete returned. Of each
// container the newest PTX that the device accepts.
CUresult read_code(const void *code, std::vector<std::string> &ptx);
// Reads a whole file and appends a NUL.
CUresult read_file(const char *path, std::vector<char> &out);
CUresult link_image(const std::vector<std::string> &ptx, std::unique_ptr<vm::Image> &out);

// Links PTX into a module of context `c` and gives its variables memory.
CUresult load_module(Context *c, const std::vector<std::string> &ptx, Module *&out);
void unload_module(Module *m);
// The module of library `l` in context `c`; loads it on first use.
CUresult module_in(Library &l, Context *c, Module *&out);

// The function that a CUfunction, or a CUkernel cast to one, designates.
CUresult function_of(Context *c, const void *handle, Function *&out);
// Decodes a function on first use.
CUresult prepare(Function &f);
// Address and size of a global or constant variable.
CUresult variable_of(Module &m, const char *name, CUdeviceptr *p, size_t *bytes);

}  // namespace ckpt::softcuda::driver
