// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/image_out.h"

#include <algorithm>

#include "common/base/file_text.h"

namespace ckpt::tools {
namespace {

constexpr size_t kPieceBytes = 1u << 20;

Result<> offer(FrameLink &link, u32 round, ByteView index) {
  CKPT_CHECK(link.send(Kind::Image, encode(ImageOffer{round, index.size()})));
  for (size_t at = 0; at < index.size(); at += kPieceBytes)
    CKPT_CHECK(link.send(Kind::Index, index.subspan(at, std::min(kPieceBytes, index.size() - at))));
  return {};
}

Result<> send_chunk(FrameLink &link, const storage::ImageReader &image, u32 number) {
  Bytes stored(image.index().chunks[number].stored_size);
  CKPT_CHECK(image.read_stored(number, stored));
  return link.send(Kind::Chunk, Writer().put(number).bytes(), stored);
}

u64 bytes_wanted(const storage::Index &index, const std::vector<u32> &own, const WantList &want) {
  u64 bytes = 0;
  for (u32 i = 0; i < own.size(); i++)
    if (want.has(i)) bytes += index.chunks[own[i]].stored_size;
  return bytes;
}

}  // namespace

std::vector<u32> own_chunks(const storage::Index &index) {
  std::vector<u32> own;
  for (u32 i = 0; i < index.chunks.size(); i++)
    if (index.chunks[i].file == 0 && index.chunks[i].stored_size > 0) own.push_back(i);
  return own;
}

Result<SentImage> send_image(FrameLink &link, u32 round, const storage::ImageReader &image,
                             const SendProgress &progress) {
  auto begun = Clock::now();
  u64 before = link.sent_bytes();
  CKPT_TRY(std::string index, file_text(image.path() + "/" + storage::kIndexFile));
  CKPT_CHECK(offer(link, round, view(index)));
  std::vector<u32> own = own_chunks(image.index());
  CKPT_TRY(Bytes body, link.receive(Kind::Want));
  std::optional<WantList> want = WantList::parse(body);
  if (!want || want->count() != own.size()) return malformed("Want");
  u64 total = bytes_wanted(image.index(), own, *want), first = link.sent_bytes();
  for (u32 i = 0; i < own.size(); i++) {
    if (!want->has(i)) continue;
    CKPT_CHECK(send_chunk(link, image, own[i]));
    progress(link.sent_bytes() - first, total);
  }
  CKPT_CHECK(link.send(Kind::ImageEnd));
  CKPT_TRY(Bytes answer, link.receive(Kind::Stored));
  std::optional<Stored> stored = parse_stored(answer);
  if (!stored) return malformed("Stored");
  return SentImage{*stored, link.sent_bytes() - before, seconds_since(begun)};
}

}  // namespace ckpt::tools
