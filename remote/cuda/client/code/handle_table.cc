// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/code/handle_table.h"

#include <cstdlib>

#include "common/base/spans.h"
#include "remote/cuda/client/code/program_files.h"
#include "remote/cuda/client/memory/memory.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kCellBytes = sizeof(u64);

struct CellTable {
  std::mutex mutex;
  HandleRange range;
  std::map<CUdevice, Spans> free;
  std::unordered_map<u64, CUdevice> used;
  std::set<u64> opaque;
};
CellTable &cell_table() {
  static CellTable *const kTable = new CellTable;
  return *kTable;
}

CUresult open(CellTable &t) {
  if (t.range.bytes > 0) return CUDA_SUCCESS;
  CUresult e = memory().handle_range(t.range.base);
  if (e == CUDA_SUCCESS) t.range.bytes = Memory::kHandleBytes;
  return e;
}

CUresult take_of(CellTable &t, CUdevice device, u64 &cell) {
  Spans &free = t.free[device];
  std::optional<u64> at = free.take(kCellBytes, kCellBytes);
  if (!at) {
    u64 base = 0;
    if (CUresult e = memory().map_cells(device, base); e != CUDA_SUCCESS) return e;
    free.give(base, Memory::kCellBlockBytes);
    at = free.take(kCellBytes, kCellBytes);
  }
  cell = *at;
  t.used[cell] = device;
  return CUDA_SUCCESS;
}

}  // namespace

bool handles_are_cells() {
  static const bool kCells = [] {
    const char *set = std::getenv(kHandlesVariable);
    return !set || std::string_view(set) != "driver";
  }();
  return kCells;
}

CUresult handle_range(HandleRange &out) {
  CellTable &t = cell_table();
  std::lock_guard lock(t.mutex);
  CUresult e = open(t);
  out = t.range;
  return e;
}

bool is_cell(u64 handle) {
  CellTable &t = cell_table();
  std::lock_guard lock(t.mutex);
  return handle - t.range.base < t.range.bytes;
}

CUresult take_cell(u64 &cell) {
  CellTable &t = cell_table();
  std::optional<CUdevice> device = ledger().device_of(current_context());
  if (!device) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard lock(t.mutex);
  cell = 0;
  if (!handles_are_cells() || !t.opaque.empty()) return CUDA_SUCCESS;
  if (t.used.empty() && !file_without_ptx().empty()) return CUDA_SUCCESS;
  if (CUresult e = open(t); e != CUDA_SUCCESS) return e;
  return take_of(t, *device, cell);
}

void give_cell(u64 cell) {
  CellTable &t = cell_table();
  std::lock_guard lock(t.mutex);
  auto found = t.used.find(cell);
  if (found == t.used.end()) return;
  t.free[found->second].give(cell, kCellBytes);
  t.used.erase(found);
}

bool has_cells() {
  CellTable &t = cell_table();
  std::lock_guard lock(t.mutex);
  return !t.used.empty();
}

bool admit_opaque(u64 code) {
  CellTable &t = cell_table();
  std::lock_guard lock(t.mutex);
  if (!t.used.empty()) return false;
  t.opaque.insert(code);
  return true;
}

void forget_opaque(u64 code) {
  CellTable &t = cell_table();
  std::lock_guard lock(t.mutex);
  t.opaque.erase(code);
}

std::string name_of_opaque() {
  std::set<u64> opaque;
  {
    std::lock_guard lock(cell_table().mutex);
    opaque = cell_table().opaque;
  }
  for (const Ledger::Object &o : ledger().objects())
    if (opaque.contains(o.number) && o.code)
      return fmt::format("the code with the kernel \"{}\"", o.code->needs().kernel);
  std::string file = file_without_ptx();
  return file.empty() ? file : "the device code of " + file;
}

}  // namespace ckpt::remote::cuda
