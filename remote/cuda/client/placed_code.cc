// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/placed_code.h"

#include "remote/cuda/client/copies.h"
#include "remote/cuda/client/memory.h"

namespace ckpt::remote::cuda {
namespace {

struct PlacedCode {
  u64 base = 0, bytes = 0;
  u64 constant_bytes = 0;
  u64 context = 0;  // 0: the variables have no values yet
  CUdevice device = 0;
  std::map<std::string, FixedVariables::Place, std::less<>> places;
  std::vector<std::pair<u64, Bytes>> initial;  // offset and bytes
};

struct Table {
  std::mutex mutex;
  std::map<u64, PlacedCode> all;  // by the number of the code
};
Table &table() {
  static Table *const kTable = new Table;
  return *kTable;
}

// Kernels of any stream come later, so this waits.
CUresult write_initial_values(const PlacedCode &code) {
  send_zeros(code.base, code.bytes, code.context);
  for (const auto &[offset, bytes] : code.initial)
    send_bytes(code.base + offset, bytes, code.context);
  return note_error(link().ask(number(Op::Settle), code.context, {}));
}

// The only device that the program sees: a library's variables are on all devices.
Result<CUdevice> device_of_library() {
  int n = 0;
  if (entry_cuDeviceGetCount(&n) != CUDA_SUCCESS || n != 1)
    return fail("the program sees several devices");
  return 0;
}

}  // namespace

Result<FixedCode> place_code(const FixedVariables &variables, u64 owner, u64 context) {
  PlacedCode code{.constant_bytes = variables.constant_bytes(),
                  .context = context,
                  .places = variables.places()};
  if (kind_of(owner) == Kind::Library) {
    CKPT_TRY(code.device, device_of_library());
  } else {
    code.device = ledger().device_of(context).value_or(0);
  }
  CUresult e =
      memory().allocate_for_code(owner, variables.bytes(), code.device, context, code.base);
  if (e != CUDA_SUCCESS) return device_failure("there is no device memory for its variables", e);
  code.bytes = variables.bytes();
  Result<FixedCode> fixed = variables.at(code.base);
  if (fixed) {
    code.initial = std::move(fixed->initial);
    Table &t = table();
    std::lock_guard lock(t.mutex);
    t.all[owner] = std::move(code);
  } else {
    memory().release_of_code(owner);
  }
  return fixed;
}

CUresult placed_code_is_loaded(u64 owner) {
  Table &t = table();
  std::lock_guard lock(t.mutex);
  auto found = t.all.find(owner);
  bool now = found != t.all.end() && found->second.context != 0;
  return now ? write_initial_values(found->second) : CUDA_SUCCESS;
}

void end_placed_code(u64 owner) {
  Table &t = table();
  std::lock_guard lock(t.mutex);
  if (t.all.erase(owner) != 0) memory().release_of_code(owner);
}

void code_ended(u64 number) {
  memory().forget_of(number);
  end_placed_code(number);
}

std::optional<PlacedVariable> placed_variable(u64 owner, std::string_view name) {
  Table &t = table();
  std::lock_guard lock(t.mutex);
  auto code = t.all.find(owner);
  if (code == t.all.end()) return {};
  auto place = code->second.places.find(name);
  if (place == code->second.places.end()) return {};
  return PlacedVariable{code->second.base + place->second.offset, place->second.bytes,
                        code->second.context};
}

u64 placed_constant_bytes(u64 number) {
  Table &t = table();
  std::lock_guard lock(t.mutex);
  for (; number != 0; number = ledger().owner_of(number))
    if (auto found = t.all.find(number); found != t.all.end()) return found->second.constant_bytes;
  return 0;
}

CUresult context_of_placed_code_begins(u64 context, CUdevice device) {
  Table &t = table();
  std::lock_guard lock(t.mutex);
  CUresult first = CUDA_SUCCESS;
  for (auto &[owner, code] : t.all)
    if (code.context == 0 && code.device == device) {
      code.context = context;
      memory().set_context_of_code(owner, context);
      if (CUresult e = write_initial_values(code); first == CUDA_SUCCESS) first = e;
    }
  return first;
}

void context_of_placed_code_ends(u64 context) {
  Table &t = table();
  std::lock_guard lock(t.mutex);
  for (auto &[owner, code] : t.all)
    if (code.context == context && kind_of(owner) == Kind::Library) {
      code.context = 0;
      memory().set_context_of_code(owner, 0);
    }
}

}  // namespace ckpt::remote::cuda
