// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/owed_map.h"

#include <iterator>
#include <vector>

namespace ckpt::tools {

std::optional<OwedPiece> OwedMap::next(u64 address) const {
  auto it = pieces_.upper_bound(address);
  if (it != pieces_.begin() && std::prev(it)->second.end > address) --it;
  if (it == pieces_.end()) return std::nullopt;
  return OwedPiece{it->first, it->second.end, it->second.offset};
}

std::optional<OwedPiece> OwedMap::find(u64 address) const {
  std::optional<OwedPiece> piece = next(address);
  return piece && piece->begin <= address ? piece : std::nullopt;
}

// Afterwards, no piece has addresses on both sides of `at`.
void OwedMap::split(u64 at) {
  std::optional<OwedPiece> piece = find(at);
  if (!piece || piece->begin == at) return;
  pieces_[piece->begin].end = at;
  pieces_[at] = {piece->end, piece->offset + (at - piece->begin)};
}

u64 OwedMap::drop(u64 begin, u64 end) {
  if (end <= begin) return 0;
  split(begin);
  split(end);
  u64 bytes = 0;
  auto first = pieces_.lower_bound(begin), last = pieces_.lower_bound(end);
  for (auto it = first; it != last; ++it) bytes += it->second.end - it->first;
  pieces_.erase(first, last);
  return bytes;
}

u64 OwedMap::move(u64 from, u64 to, u64 size) {
  if (from + size < from || to + size < to) return 0;
  split(from);
  split(from + size);
  auto begin = pieces_.lower_bound(from), end = pieces_.lower_bound(from + size);
  std::vector<std::pair<u64, Rest>> moved(begin, end);
  pieces_.erase(begin, end);
  u64 lost = drop(to, to + size);
  for (auto [at, rest] : moved) pieces_[at - from + to] = {rest.end - from + to, rest.offset};
  return lost;
}

u64 OwedMap::bytes() const {
  u64 all = 0;
  for (const auto &[begin, rest] : pieces_) all += rest.end - begin;
  return all;
}

}  // namespace ckpt::tools
