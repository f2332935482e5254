// SPDX-License-Identifier: Apache-2.0
#include "storage/ops/copy.h"

#include "storage/io/destination.h"
#include "storage/ops/chunk_copier.h"

namespace ckpt::storage {
namespace {

std::vector<Uuid> all_parents(const ImageReader &image) {
  std::vector<Uuid> out;
  for (const ParentEntry &p : image.index().parents) out.push_back(p.uuid);
  return out;
}

}  // namespace

Result<> flatten_image(const ImageReader &from, const std::string &to, const CopyOptions &options) {
  FileSystem &fs = FileSystem::or_real(options.file_system);
  CKPT_TRY(auto folder, FolderDestination::create(to, options.overwrite, fs));
  return ChunkCopier(from, all_parents(from)).copy(*folder, options.key);
}

Result<> send_image(const ImageReader &from, int fd, const Key *key) {
  CKPT_TRY(auto pipe, PipeDestination::create(fd));
  return ChunkCopier(from, all_parents(from)).copy(*pipe, key);
}

}  // namespace ckpt::storage
