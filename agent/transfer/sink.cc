// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/sink.h"

namespace ckpt::agent {

using protocol::Type;

StagingSink::StagingSink(Channel &tool, Staging &staging, const Lineage &lineage)
    : tool_(tool), staging_(staging), lineage_(lineage), holders_(staging.slots(), Holder::Free) {
  for (u32 i = staging.slots(); i-- > 0;) free_.push_back(i);
}

Result<u32> StagingSink::region(const std::string &name, u64 bytes) {
  return announce(Type::Region, name, bytes);
}

Result<> StagingSink::same(const std::string &name, u64 bytes) {
  if (lineage_.parent == ImageId{})
    return fail("\"{}\" cannot be unchanged: there is no parent image", name);
  CKPT_CHECK(announce(Type::RegionSame, name, bytes));
  region_bytes_.back() = 0;  // so that put() refuses it
  bytes_ += bytes;
  return {};
}

Result<u32> StagingSink::announce(Type type, const std::string &name, u64 bytes) {
  std::string full = prefix_ + name;
  if (name.empty() || !names_.insert(full).second)
    return fail("the region name \"{}\" is empty or taken", full);
  u32 number = static_cast<u32>(region_bytes_.size());
  region_bytes_.push_back(bytes);
  CKPT_CHECK(tool_.send(type, Writer().put(number).str(full).put(bytes)));
  return number;
}

Result<Slot> StagingSink::acquire() {
  while (free_.empty()) CKPT_CHECK(wait_for_slot());
  u32 index = free_.back();
  free_.pop_back();
  holders_[index] = Holder::Participant;
  return staging_.slot(index);
}

Result<> StagingSink::put(u32 region, u64 offset, Slot slot, u32 bytes) {
  if (region >= region_bytes_.size()) return fail("region {} was never announced", region);
  if (slot.index >= holders_.size() || holders_[slot.index] != Holder::Participant)
    return fail("slot {} was never acquired", slot.index);
  CKPT_CHECK(staging_.check_piece(offset, bytes, region_bytes_[region]));
  holders_[slot.index] = Holder::Tool;
  bytes_ += bytes;
  return tool_.send(Type::SlotFull, Writer().put(slot.index).put(region).put(offset).put(bytes));
}

Result<> StagingSink::stored(u32 region, u64 offset, u64 bytes, u64 at, File file) {
  CKPT_CHECK(send_file(file));
  return send_place(Type::ContentsAt, region, offset, bytes, at);
}

Result<> StagingSink::send_file(File file) {
  if (std::exchange(file_sent_, true)) return {};
  return tool_.send(Type::ContentsFile, Writer().put(file.bytes), std::span(&file.fd, 1));
}

Result<> StagingSink::zeros(u32 region, u64 offset, u64 bytes) {
  return send_place(Type::ContentsAt, region, offset, bytes, protocol::kZeros);
}

Result<> StagingSink::due(u32 region, u64 offset, u64 bytes, u64 at) {
  return send_place(Type::ContentsDue, region, offset, bytes, at);
}

Result<> StagingSink::begin_later(int socket) {
  return tool_.send(Type::ContentsLater, Writer().put(u8{0}), std::span(&socket, 1));
}

Result<> StagingSink::begin_owed(File file, int socket) {
  CKPT_CHECK(send_file(file));
  return tool_.send(Type::ContentsLater, Writer().put(u8{1}), std::span(&socket, 1));
}

void StagingSink::looked(const Looked &looked) {
  looked_.zero_bytes += looked.zero_bytes;
  looked_.blind.insert(looked_.blind.end(), looked.blind.begin(), looked.blind.end());
}

Result<> StagingSink::report() {
  if (!lineage_.seed) return {};
  Writer out;
  out.put(looked_.zero_bytes).put(static_cast<u32>(looked_.blind.size()));
  for (const std::string &why : looked_.blind) out.str(why);
  return tool_.send(Type::Surveyed, out);
}

std::optional<u64> StagingSink::seed() const {
  return lineage_.chunks ? lineage_.seed : std::nullopt;
}

bool StagingSink::knows(const ChunkAddress &address) const {
  return lineage_.chunks && lineage_.chunks->contains(address);
}

Result<> StagingSink::same_chunk(u32 region, u64 offset, u32 bytes, const ChunkAddress &address) {
  CKPT_CHECK(check_range(region, offset, bytes));
  bytes_ += bytes;
  return tool_.send(Type::ChunkKnown,
                    Writer().put(region).put(offset).put(bytes).put(address.low).put(address.high));
}

Result<> StagingSink::check_range(u32 region, u64 offset, u64 bytes) const {
  if (region >= region_bytes_.size() || offset > region_bytes_[region] ||
      bytes > region_bytes_[region] - offset)
    return fail("{} bytes at offset {} exceed region {}", bytes, offset, region);
  return {};
}

Result<> StagingSink::send_place(Type type, u32 region, u64 offset, u64 bytes, u64 at) {
  CKPT_CHECK(check_range(region, offset, bytes));
  bytes_ += bytes;
  return tool_.send(type, Writer().put(region).put(offset).put(bytes).put(at));
}

Result<> StagingSink::wait_for_slot() {
  CKPT_TRY(std::optional<Incoming> message, tool_.receive());
  if (!message) return fail("the tool hung up");
  Reader in = message->reader();
  u32 index = in.get<u32>();
  bool sound = message->type == Type::SlotFree && in.done() && index < holders_.size();
  if (!sound || holders_[index] != Holder::Tool)
    return fail("malformed message of type {} during a save", static_cast<u16>(message->type));
  holders_[index] = Holder::Free;
  free_.push_back(index);
  return {};
}

}  // namespace ckpt::agent
