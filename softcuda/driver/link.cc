// SPDX-License-Identifier: Apache-2.0
//
// cuLink*: the driver's linker. Its inputs and its output are PTX, which is what the device runs.
// Several inputs are kept apart and linked when they are loaded.
#include "softcuda/driver/link.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "softcuda/driver/code.h"

namespace ckpt::softcuda::driver {
namespace {

struct Link {
  std::vector<std::string> ptx;
};

Handles<Link> &links() {
  static auto *const kLinks = new Handles<Link>;
  return *kLinks;
}

// cuLinkComplete returns the address of its first input's text. This map leads from there to all
// inputs.
struct Results {
  std::mutex mutex;
  std::map<const void *, std::vector<std::string>> by_address;
};
Results &results() {
  static auto *const kResults = new Results;
  return *kResults;
}

}  // namespace

bool linked_code(const void *code, std::vector<std::string> &ptx) {
  std::lock_guard lock(results().mutex);
  auto it = results().by_address.find(code);
  if (it == results().by_address.end()) return false;
  ptx = it->second;
  return true;
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuLinkCreate_v2(unsigned int, CUjit_option *, void **, CUlinkState *out) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = reinterpret_cast<CUlinkState>(links().add(new Link));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data,
                                       size_t bytes, const char *, unsigned int, CUjit_option *,
                                       void **) {
  CALL_WITH_CONTEXT();
  Link *l = links().get(state);
  REQUIRE(l != nullptr, CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(data != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  if (type == CU_JIT_INPUT_PTX) {
    std::string text(static_cast<const char *>(data), bytes);
    text.resize(std::min(text.find('\0'), text.size()));
    l->ptx.push_back(std::move(text));
    return CUDA_SUCCESS;
  }
  REQUIRE(type == CU_JIT_INPUT_FATBINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
  return read_code(data, l->ptx);
}

SOFTCUDA_API CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                                       unsigned int n, CUjit_option *options, void **values) {
  REQUIRE(path != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in, CUDA_ERROR_FILE_NOT_FOUND);
  std::string data{std::istreambuf_iterator<char>(in), {}};
  return cuLinkAddData_v2(state, type, data.data(), data.size(), path, n, options, values);
}

SOFTCUDA_API CUresult cuLinkComplete(CUlinkState state, void **code, size_t *bytes) {
  CALL_WITH_CONTEXT();
  Link *l = links().get(state);
  REQUIRE(l != nullptr, CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(code != nullptr && !l->ptx.empty(), CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(results().mutex);
  const char *text = l->ptx[0].c_str();
  results().by_address[text] = l->ptx;
  *code = const_cast<char *>(text);
  if (bytes != nullptr) *bytes = l->ptx[0].size() + 1;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuLinkDestroy(CUlinkState state) {
  CALL_WITH_CONTEXT();
  Link *l = links().get(state);
  REQUIRE(l != nullptr && links().remove(l), CUDA_ERROR_INVALID_HANDLE);
  std::lock_guard lock(results().mutex);
  if (!l->ptx.empty()) results().by_address.erase(l->ptx[0].c_str());
  delete l;
  return CUDA_SUCCESS;
}
