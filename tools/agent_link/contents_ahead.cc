// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/contents_ahead.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "agent/protocol.h"
#include "common/base/available_memory.h"
#include "common/base/clock.h"
#include "common/base/cores.h"
#include "common/base/huge_pages.h"
#include "common/base/log.h"
#include "common/base/parallel.h"
#include "common/base/shortage.h"
#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::tools {
namespace {

constexpr u64 kPieceBytes = protocol::kFilePieceBytes;
constexpr size_t kUnitsPerPiece = kPieceBytes / ContentsPlan::kUnitBytes;
// A piece takes about 10 ms. But to make huge pages, the kernel waits for each core (huge_pages.h)
// and may move other pages; where all cores are busy, this has been seen to take 0.3 s. With small
// pages, only the page-lock and the end take longer.
constexpr std::chrono::milliseconds kSlow{40};

}  // namespace

ContentsAhead::ContentsAhead(const storage::ImageReader &image, u32 agent)
    : image_(image), plan_(plan_contents(image, agent)) {}

ContentsAhead::~ContentsAhead() {
  stopped_ = true;
  if (thread_.joinable()) thread_.join();
}

// The places of chunks in the file are the same as long as the same buffers have the same sizes,
// and no chunk becomes one of zeros or ceases to be one.
void ContentsAhead::take_over(ContentsAhead &earlier) {
  earlier.stopped_ = true;
  if (earlier.thread_.joinable()) earlier.thread_.join();
  const storage::Index &index = earlier.image_.index();
  if (!earlier.file_ || earlier.plan_.file_bytes() != plan_.file_bytes() ||
      index.seed != image_.index().seed)
    return;
  for (size_t unit = 0; unit < earlier.plan_.units.size(); unit++) {
    if (!earlier.in_file_[unit]) continue;
    for (const ContentsPlan::Part &p : earlier.plan_.units[unit].parts)
      filled_[p.at] = {p.bytes, index.chunks[p.chunk].address};
  }
  file_ = std::move(earlier.file_);
  memory_ = std::move(earlier.memory_);
  pieces_ = std::move(earlier.pieces_);
  for (auto &piece : pieces_) piece->tried = piece->allocated;  // there may be more memory now
}

void ContentsAhead::start(unsigned threads, u64 keep_free) {
  keep_free_ = keep_free;
  in_file_.assign(plan_.units.size(), false);
  started_ = last_ = Clock::now();
  if (threads == 0 || plan_.units.empty()) return;
  Result<> begun = file_ ? Result<>() : make_file();
  Result<std::thread> thread = std::thread();
  if (begun) thread = start_thread([this, threads] { fill(threads); });
  if (!thread) begun = Failure(thread.error());
  if (begun)
    thread_ = std::move(*thread);
  else
    log::info("device memory is not decompressed ahead: {}", begun.error().what);
}

Result<> ContentsAhead::make_file() {
  CKPT_TRY(UniqueFd file, make_memfd("ckpt-contents", plan_.file_bytes()));
  CKPT_TRY(memory_, Mapping::map(file.get(), plan_.file_bytes()));
  for (size_t i = 0; i < plan_.units.size(); i += kUnitsPerPiece)
    pieces_.push_back(std::make_unique<Piece>());
  file_ = std::move(file);
  return {};
}

// A damaged chunk is an error of the load, which reads it again.
void ContentsAhead::fill(unsigned threads) {
  run_parallel(threads, [this](unsigned) {
    for (size_t unit; !stopped_ && (unit = next_++) < plan_.units.size();) {
      Result<bool> filled = guarded([&]() -> Result<bool> { return fill_unit(unit); });
      if (filled && *filled) note(unit);
    }
  });
}

bool ContentsAhead::fill_unit(size_t unit) {
  if (!has_pages(unit)) return false;
  return std::ranges::all_of(plan_.units[unit].parts, [this](const ContentsPlan::Part &p) {
    return !stopped_ && fill_part(p);
  });
}

bool ContentsAhead::fill_part(const ContentsPlan::Part &p) {
  auto there = filled_.find(p.at);
  if (there != filled_.end() && there->second.bytes == p.bytes &&
      there->second.address == image_.index().chunks[p.chunk].address)
    return true;
  return image_.read_chunk(p.chunk, {memory_.data() + p.at, p.bytes}).has_value();
}

bool ContentsAhead::has_pages(size_t unit) {
  size_t number = unit / kUnitsPerPiece;
  u64 begin = number * kPieceBytes, end = std::min(begin + kPieceBytes, plan_.file_bytes());
  Piece &piece = *pieces_[number];
  std::lock_guard lock(piece.mutex);
  if (std::exchange(piece.tried, true)) return piece.allocated;
  piece.allocated = available_memory() > keep_free_ + kPieceBytes &&
                    allocate({memory_.data() + begin, end - begin}).has_value();
  return piece.allocated;
}

// Huge pages where they are made fast.
Result<> ContentsAhead::allocate(std::span<std::byte> piece) {
  if (small_pages_) return map_pages(piece);
  auto begun = Clock::now();
  Result<> allocated = populate(piece);
  if (Clock::now() - begun > kSlow) small_pages_ = true;
  return allocated;
}

void ContentsAhead::note(size_t unit) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  in_file_[unit] = true;
  for (const ContentsPlan::Part &p : plan_.units[unit].parts) bytes_ += p.bytes;
  last_ = Clock::now();
}

void ContentsAhead::close(bool all) {
  if (all && thread_.joinable()) thread_.join();
  stopped_ = true;
  std::lock_guard lock(mutex_);
  closed_ = true;
}

bool ContentsAhead::has(size_t unit) {
  std::lock_guard lock(mutex_);
  return in_file_[unit];
}

ByteView ContentsAhead::contents(const ContentsPlan::Run &run) const {
  return {memory_.data() + run.at, run.bytes};
}

u64 ContentsAhead::allocated() {
  u64 bytes = 0;
  for (auto &piece : pieces_) {
    std::lock_guard lock(piece->mutex);
    if (!piece->allocated) break;
    bytes += kPieceBytes;
  }
  return std::min(bytes, plan_.file_bytes());
}

u64 ContentsAhead::bytes() {
  std::lock_guard lock(mutex_);
  return bytes_;
}

double ContentsAhead::seconds() {
  std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(last_ - started_).count();
}

// "0.20 0.18 0.12 RUNNABLE/ALL LAST", proc_loadavg(5); one of the runnable threads is this one.
unsigned idle_cores() {
  if (const char *given = std::getenv("CKPT_TEST_AHEAD"))
    return static_cast<unsigned>(std::atoi(given));
  std::string loadavg = proc::text_of_machine("loadavg");
  std::string_view rest(loadavg);
  for (int i = 0; i < 3; i++) next_word(rest);
  unsigned runnable = leading_number(rest, 1U), cores = usable_cores();
  return cores - std::min(cores, std::max(runnable, 1U) - 1);
}

}  // namespace ckpt::tools
