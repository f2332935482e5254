// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/contents_ahead.h"

#include <algorithm>

#include "agent/protocol.h"
#include "common/base/available_memory.h"
#include "common/base/huge_pages.h"
#include "common/base/log.h"
#include "common/base/parallel.h"
#include "common/base/shortage.h"

namespace ckpt::tools {
namespace {

constexpr u64 kPieceBytes = protocol::kFilePieceBytes;
constexpr size_t kUnitsPerPiece = kPieceBytes / ContentsPlan::kUnitBytes;

}  // namespace

ContentsAhead::ContentsAhead(const storage::ImageReader &image, u32 agent)
    : image_(image), plan_(plan_contents(image, agent)) {}

ContentsAhead::~ContentsAhead() {
  stopped_ = true;
  if (thread_.joinable()) thread_.join();
}

void ContentsAhead::start(unsigned threads, u64 keep_free) {
  keep_free_ = keep_free;
  units_.assign(plan_.units.size(), State::Waiting);
  if (units_.empty()) return;
  started_ = last_ = std::chrono::steady_clock::now();
  Result<> begun = make_file();
  if (begun) {
    Result<std::thread> thread = start_thread([this, threads] { fill(threads); });
    if (thread) thread_ = std::move(*thread);
    if (!thread) begun = Failure(thread.error());
  }
  if (begun) return;
  log::info("device memory is not decompressed ahead: {}", begun.error().what);
  units_.assign(units_.size(), State::NotInFile);
}

Result<> ContentsAhead::make_file() {
  CKPT_TRY(UniqueFd file, make_memfd("ckpt-contents", plan_.file_bytes()));
  CKPT_TRY(memory_, Mapping::map(file.get(), plan_.file_bytes()));
  file_ = std::move(file);
  for (size_t i = 0; i < units_.size(); i += kUnitsPerPiece)
    pieces_.push_back(std::make_unique<Piece>());
  return {};
}

void ContentsAhead::fill(unsigned threads) {
  run_parallel(threads, [this](unsigned) {
    for (size_t unit; !stopped_ && (unit = next_++) < units_.size();) fill_next(unit);
  });
}

void ContentsAhead::fill_next(size_t unit) {
  Result<State> filled = guarded([&] { return fill_unit(unit); });
  if (!filled) {
    std::lock_guard lock(mutex_);
    damage_ = filled.error().what;
  }
  decide(unit, filled ? *filled : State::Damaged);
}

Result<ContentsAhead::State> ContentsAhead::fill_unit(size_t unit) {
  if (!has_pages(unit)) return State::NotInFile;
  for (const ContentsPlan::Part &p : plan_.units[unit].parts)
    CKPT_CHECK(image_.read_chunk(p.chunk, {memory_.data() + p.at, p.bytes}));
  return State::InFile;
}

bool ContentsAhead::has_pages(size_t unit) {
  size_t number = unit / kUnitsPerPiece;
  u64 begin = number * kPieceBytes, end = std::min(begin + kPieceBytes, plan_.file_bytes());
  Piece &piece = *pieces_[number];
  std::lock_guard lock(piece.mutex);
  if (std::exchange(piece.tried, true)) return piece.allocated;
  piece.allocated = available_memory() > keep_free_ + kPieceBytes &&
                    populate({memory_.data() + begin, end - begin}).has_value();
  return piece.allocated;
}

void ContentsAhead::decide(size_t unit, State state) {
  std::lock_guard lock(mutex_);
  units_[unit] = state;
  if (state == State::InFile) {
    for (const ContentsPlan::Part &p : plan_.units[unit].parts) bytes_ += p.bytes;
    last_ = std::chrono::steady_clock::now();
  }
  while (ready_units_ < units_.size() && units_[ready_units_] == State::InFile) ++ready_units_;
  changed_.notify_all();
}

Result<bool> ContentsAhead::has(size_t unit) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return units_[unit] != State::Waiting; });
  if (units_[unit] == State::Damaged) return fail("{}", damage_);
  return units_[unit] == State::InFile;
}

ByteView ContentsAhead::contents(const ContentsPlan::Run &run) const {
  return {memory_.data() + run.at, run.bytes};
}

u64 ContentsAhead::ready() {
  std::lock_guard lock(mutex_);
  return ready_units_ * ContentsPlan::kUnitBytes;
}

u64 ContentsAhead::bytes() {
  std::lock_guard lock(mutex_);
  return bytes_;
}

double ContentsAhead::seconds() {
  std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(last_ - started_).count();
}

}  // namespace ckpt::tools
