// SPDX-License-Identifier: Apache-2.0
//
// The code of a program that runs in slices, and its kernels by the handles that the program
// holds: modules and libraries, CUfunction and CUkernel.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "libckpt-cuda/entry/entries.h"
#include "slicing/rewrite.h"
#include "slicing/slice_size.h"

namespace ckpt::cuda::guest {

struct Code;

struct Kernel {
  slicing::Kernel facts;
  Code *code = nullptr;
  u64 hash = 0;                    // of its module's PTX and its name
  std::atomic<bool> waits{false};  // it was found to wait for later blocks, so it runs whole
  std::atomic<bool> named{false};  // the reason why it runs whole was logged

  std::mutex mutex;  // guards what follows
  slicing::SliceSize size;
  u32 launches = 0;

  bool runs_whole() const { return !facts.whole.empty() || waits; }
};

// One module or library, as rewritten. Lives until the process ends: a launch in another thread may
// still use a kernel of an unloaded module.
struct Code {
  std::string original, rewritten;  // PTX; empty: it is loaded as it is, or unloaded
  std::string whole;                // why it is loaded unchanged
  bool is_library = false;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;

  std::mutex mutex;
  void *twin = nullptr;  // the original, loaded to answer questions about it
};

// Loads code: `call(text)` calls the driver with the program's code or with rewritten PTX in its
// place, and writes `*handle`.
using LoadCall = CUresult (*)(const void *self, const void *code);
CUresult load_rewritten(const void *program_code, const char *path, bool is_library, void **handle,
                        const void *self, LoadCall call);

template <class Handle, class Real>
CUresult load(const void *code, const char *path, bool is_library, Handle *handle, Real real) {
  return load_rewritten(
      code, path, is_library, reinterpret_cast<void **>(handle), &real,
      [](const void *self, const void *text) { return (*static_cast<const Real *>(self))(text); });
}

// The container (module or library) is unloaded: its handles mean nothing any more.
void forget_container(const void *container);
// `module` is the module of `library` in some context.
void note_module(const void *module, const void *library);
// `function`, a CUfunction of the current context, is the kernel `name` of a module.
void note_function(CUfunction function, CUmodule module, const char *name);
void note_kernel(CUkernel kernel, CUlibrary library, const char *name);
// `function`, of the current context, is another handle of the kernel `of`.
void note_same_function(CUfunction function, CUkernel of);

// Null: not known.
Kernel *kernel_of(const void *function);
// The context of a CUfunction; null: not known, or the handle is a CUkernel, which is for all.
CUcontext context_of(const void *function);

// Logs once that the kernel runs whole.
void name_whole(Kernel &kernel, std::string_view why);

}  // namespace ckpt::cuda::guest
