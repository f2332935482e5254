// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/parent_chunks.h"

#include <sys/stat.h>

#include <algorithm>

#include "common/base/io.h"

namespace ckpt::agent {
namespace {

// 64 TiB: more than a program has on its devices.
constexpr u64 kMostAddresses = u64{1} << 26;

}  // namespace

// The file may shrink at any time, so it is read and not mapped.
Result<ParentChunks> ParentChunks::from(Incoming &request) {
  struct stat st {};
  Reader in = request.reader();
  u64 count = in.get<u64>(), bytes = count * sizeof(ChunkAddress);
  if (!in.done() || request.fds.size() != 2 || count > kMostAddresses ||
      ::fstat(request.fds[0].get(), &st) < 0 || static_cast<u64>(st.st_size) < bytes)
    return fail("malformed ParentChunks");
  std::vector<ChunkAddress> addresses(count);
  std::span<std::byte> into(reinterpret_cast<std::byte *>(addresses.data()), bytes);
  CKPT_TRY(size_t done, read_at(request.fds[0].get(), into, 0));
  if (done != bytes) return fail("malformed ParentChunks");
  std::ranges::sort(addresses);
  return ParentChunks(std::move(addresses), Channel(std::move(request.fds[1])));
}

bool ParentChunks::contains(const ChunkAddress &address) const {
  return std::ranges::binary_search(addresses_, address);
}

Result<> ParentChunks::read(const ChunkAddress &address, std::span<std::byte> into) {
  std::scoped_lock lock(*mutex_);
  Result<> done = ask(address, into);
  if (done) return {};
  return Failure(std::move(done.error()).in("cannot read device memory from the parent image"));
}

Result<> ParentChunks::ask(const ChunkAddress &address, std::span<std::byte> into) const {
  CKPT_CHECK(
      reader_.send(protocol::Type::ChunkWanted,
                   Writer().put(address.low).put(address.high).put(static_cast<u32>(into.size()))));
  CKPT_TRY(Incoming answer, reader_.answer());
  if (answer.body.size() != into.size()) return fail("the answer has {} bytes", answer.body.size());
  std::ranges::copy(answer.body, into.begin());
  return {};
}

}  // namespace ckpt::agent
