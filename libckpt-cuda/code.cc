// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/code.h"

#include <dlfcn.h>

#include <mutex>
#include <vector>

#include "fatbin/summary.h"
#include "libckpt-cuda/calls.h"

namespace ckpt::cuda {
namespace {

struct Books {
  std::mutex mutex;
  std::vector<const void *> waiting;  // in mapped files
  std::vector<std::string> files;
  CodeFacts facts;
};
Books &books() {
  static Books *const kBooks = new Books;
  return *kBooks;
}

std::string managed_variable(const fatbin::Summary &s) {
  for (auto &[name, v] : s.variables)
    if (v.variable.space == fatbin::Space::Managed) return name;
  return {};
}

CodeFacts examine(const Result<fatbin::Image> &image) {
  if (!image) return {true, "assumed: " + image.error().what, {}};
  Result<fatbin::Summary> s = fatbin::summarize(*image, {.threads = 1});
  if (!s) return {true, "assumed: " + s.error().what, {}};
  return {s->heap.use != fatbin::HeapUse::No, s->heap.reason, managed_variable(*s)};
}

void add(CodeFacts &known, CodeFacts found) {
  if (known.managed_variable.empty()) known.managed_variable = std::move(found.managed_variable);
  if (!found.heap || known.heap) return;
  known.heap = true;
  known.why = std::move(found.why);
}

bool in_a_file(const void *code) {
  Dl_info info{};
  return ::dladdr(code, &info) != 0;
}

}  // namespace

void note_code(const void *code) {
  if (code == nullptr) return;
  Books &b = books();
  if (in_a_file(code)) {
    std::lock_guard lock(b.mutex);
    return b.waiting.push_back(code);
  }
  CodeFacts found = examine(fatbin::Image::in_memory(code));
  std::lock_guard lock(b.mutex);
  add(b.facts, std::move(found));
}

void note_code_file(const char *path) {
  std::lock_guard lock(books().mutex);
  if (path != nullptr) books().files.emplace_back(path);
}

// A library that was unloaded since has taken its kernels with it.
CodeFacts code_facts() {
  Books &b = books();
  std::lock_guard lock(b.mutex);
  for (const void *code : std::exchange(b.waiting, {}))
    if (in_a_file(code)) add(b.facts, examine(fatbin::Image::in_memory(code)));
  for (const std::string &path : std::exchange(b.files, {}))
    add(b.facts, examine(fatbin::Image::open(path)));
  return b.facts;
}

CUresult entry_cuModuleLoad(CUmodule *module, const char *path) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleLoad)(module, path);
  if (e == CUDA_SUCCESS) note_code_file(path);
  return e;
}

CUresult entry_cuModuleLoadData(CUmodule *module, const void *code) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleLoadData)(module, code);
  if (e == CUDA_SUCCESS) note_code(code);
  return e;
}

CUresult entry_cuModuleLoadDataEx(CUmodule *module, const void *code, unsigned int n,
                                  CUjit_option *options, void **values) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleLoadDataEx)(module, code, n, options, values);
  if (e == CUDA_SUCCESS) note_code(code);
  return e;
}

CUresult entry_cuModuleLoadFatBinary(CUmodule *module, const void *code) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleLoadFatBinary)(module, code);
  if (e == CUDA_SUCCESS) note_code(code);
  return e;
}

CUresult entry_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit,
                                 void **jit_values, unsigned int n_jit, CUlibraryOption *options,
                                 void **values, unsigned int n) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuLibraryLoadData)(library, code, jit, jit_values, n_jit, options, values, n);
  if (e == CUDA_SUCCESS) note_code(code);
  return e;
}

CUresult entry_cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit,
                                     void **jit_values, unsigned int n_jit,
                                     CUlibraryOption *options, void **values, unsigned int n) {
  PASS_OR_RETURN(pass);
  CUresult e =
      REAL(cuLibraryLoadFromFile)(library, path, jit, jit_values, n_jit, options, values, n);
  if (e == CUDA_SUCCESS) note_code_file(path);
  return e;
}

}  // namespace ckpt::cuda
