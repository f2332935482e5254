// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/code/placed_code.h"

#include <atomic>

#include "common/base/log.h"
#include "remote/cuda/client/code/handle_table.h"
#include "remote/cuda/client/code/textures.h"
#include "remote/cuda/client/copies/copies.h"
#include "remote/cuda/client/memory/shared_memory.h"

namespace ckpt::remote::cuda {
namespace {

struct PlacedCode {
  u64 base = 0, bytes = 0;
  u64 managed_begin = 0;  // bytes: it has no managed variable
  u64 home = 0;           // the version that has them instead
  u64 constant_bytes = 0;
  u64 context = 0;  // 0: a library that no context has used
  CUdevice device = 0;
  bool initialised = false;
  std::map<std::string, FixedVariables::Place, std::less<>> places;
  std::vector<std::pair<u64, Bytes>> initial;  // offset and bytes
};

struct PlacedTable {
  std::mutex mutex;
  std::map<u64, PlacedCode> all;            // by the number of the code
  std::atomic<bool> all_initialised{true};  // read for each launch
};
PlacedTable &placed_table() {
  static PlacedTable *const kTable = new PlacedTable;
  return *kTable;
}

// The host's pages get the values of managed variables, and the next launch sends them.
CUresult write_managed_values(const PlacedCode &code) {
  u64 base = code.base + code.managed_begin, bytes = code.bytes - code.managed_begin;
  Allocation a{base, bytes, code.context, code.device, 0, 0, false, Sharing::Managed};
  if (CUresult e = shared_memory().begin(a, base); e != CUDA_SUCCESS) return e;
  std::memset(reinterpret_cast<void *>(base), 0, bytes);
  for (const auto &[offset, value] : code.initial)
    if (offset >= code.managed_begin)
      std::memcpy(reinterpret_cast<void *>(code.base + offset), value.data(), value.size());
  return CUDA_SUCCESS;
}

// Waits, so that kernels of all streams come later.
CUresult write_initial_values(const PlacedCode &code) {
  if (code.managed_begin > 0) send_zeros(code.base, code.managed_begin, code.context);
  for (const auto &[offset, bytes] : code.initial)
    if (offset < code.managed_begin) send_bytes(code.base + offset, bytes, code.context);
  CUresult e = note_error(link().ask(number(Op::Settle), code.context, {}));
  return e == CUDA_SUCCESS && code.managed_begin < code.bytes ? write_managed_values(code) : e;
}

// Takes the addresses for the variables, if there are any.
Result<> allocate(PlacedCode &code, u64 owner) {
  if (code.bytes == 0) return {};
  if (kind_of(owner) != Kind::Library) {
    code.context = current_context();
    code.device = ledger().device_of(code.context).value_or(0);
  }
  CUresult e =
      memory().allocate_for_code(owner, code.managed_begin, code.bytes - code.managed_begin,
                                 code.device, code.context, code.base);
  if (e != CUDA_SUCCESS) return device_failure("there is no device memory for its variables", e);
  return {};
}

u64 managed_base_of(u64 home) {
  PlacedTable &t = placed_table();
  std::lock_guard lock(t.mutex);
  auto found = t.all.find(home);
  return found == t.all.end() ? 0 : found->second.base + found->second.managed_begin;
}

// `code` names managed variables of `home`, and is about to be used. Only one device reaches them,
// and only once they have their values.
CUresult check_home(const std::map<u64, PlacedCode> &all, const PlacedCode &code) {
  auto home = all.find(code.home);
  if (code.home == 0 || home == all.end()) return CUDA_SUCCESS;
  if (home->second.context == 0)
    return refuse("code with managed variables on this device",
                  fmt::format("device {} has them, and the program has no context there; set that "
                              "device before the code is loaded, or let it load the code first",
                              home->second.device)
                      .c_str());
  log::warn(
      "the program's managed variables are on device {}: kernels on device {} do not reach "
      "them",
      home->second.device, code.device);
  return CUDA_SUCCESS;
}

Result<HandleRange> handles_of(const FixedVariables &variables) {
  HandleRange handles;
  if (!variables.uses_textures() || !handles_are_cells()) return handles;
  if (CUresult e = handle_range(handles); e != CUDA_SUCCESS)
    return device_failure("there are no addresses for its handles of textures", e);
  return handles;
}

}  // namespace

Result<FixedCode> place_code(const FixedVariables &variables, u64 owner, CUdevice device,
                             u64 home) {
  PlacedCode code{.home = home,
                  .constant_bytes = variables.constant_bytes(),
                  .device = device,
                  .places = variables.places()};
  code.managed_begin = variables.managed_begin();
  code.bytes = home ? code.managed_begin : variables.bytes();
  CKPT_TRY(HandleRange handles, handles_of(variables));
  CKPT_CHECK(allocate(code, owner));
  u64 managed = home ? managed_base_of(home) : code.base + code.managed_begin;
  Result<FixedCode> fixed = variables.at({code.base, managed}, handles);
  if (fixed && (code.bytes > 0 || home)) {
    code.initial = std::move(fixed->initial);
    if (home) std::erase_if(code.initial, [&](auto &v) { return v.first >= code.managed_begin; });
    PlacedTable &t = placed_table();
    std::lock_guard lock(t.mutex);
    t.all[owner] = std::move(code);
    t.all_initialised = false;
  } else {
    memory().release_of_code(owner);
  }
  return fixed;
}

void end_placed_code(u64 owner) {
  PlacedTable &t = placed_table();
  std::lock_guard lock(t.mutex);
  auto found = t.all.find(owner);
  if (found == t.all.end()) return;
  const PlacedCode &code = found->second;
  if (code.managed_begin < code.bytes) shared_memory().end(code.base + code.managed_begin);
  t.all.erase(found);
  memory().release_of_code(owner);
}

void code_ended(u64 number) {
  memory().forget_of(number);
  end_placed_code(number);
  forget_opaque(number);
  texture_ended(number);
}

std::optional<PlacedVariable> placed_variable(u64 owner, std::string_view name) {
  PlacedTable &t = placed_table();
  std::lock_guard lock(t.mutex);
  auto code = t.all.find(owner);
  if (code == t.all.end()) return {};
  auto place = code->second.places.find(name);
  if (place == code->second.places.end()) return {};
  if (place->second.managed && code->second.home != 0) code = t.all.find(code->second.home);
  if (code == t.all.end()) return {};
  return PlacedVariable{code->second.base + place->second.offset, place->second.bytes,
                        code->second.context, place->second.managed};
}

u64 placed_constant_bytes(u64 number) {
  PlacedTable &t = placed_table();
  std::lock_guard lock(t.mutex);
  for (; number != 0; number = ledger().owner_of(number))
    if (auto found = t.all.find(number); found != t.all.end()) return found->second.constant_bytes;
  return 0;
}

CUresult initialise_placed_variables() {
  PlacedTable &t = placed_table();
  if (t.all_initialised.load(std::memory_order_acquire) || current_context() == 0)
    return CUDA_SUCCESS;
  std::lock_guard lock(t.mutex);
  CUdevice here = ledger().device_of(current_context()).value_or(0);
  bool all = true;
  for (auto &[owner, code] : t.all) {
    if (code.initialised) continue;
    if (code.context == 0 && code.device != here) {
      all = false;
      continue;
    }
    if (CUresult e = check_home(t.all, code); e != CUDA_SUCCESS) return e;
    if (code.context == 0) memory().set_context_of_code(owner, code.context = current_context());
    if (CUresult e = write_initial_values(code); e != CUDA_SUCCESS) return e;
    code.initialised = true;
  }
  t.all_initialised = all;
  return CUDA_SUCCESS;
}

void end_placed_variables_of(u64 context) {
  PlacedTable &t = placed_table();
  std::lock_guard lock(t.mutex);
  for (auto &[owner, code] : t.all)
    if (code.context == context && kind_of(owner) == Kind::Library) {
      memory().set_context_of_code(owner, code.context = 0);
      t.all_initialised = code.initialised = false;
    }
}

}  // namespace ckpt::remote::cuda
