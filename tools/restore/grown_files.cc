// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/grown_files.h"

#include <unistd.h>

#include <map>

#include "tools/manifest/file_checks.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

Result<> truncate_grown_files(pid_t root, const ImageManifest &m) {
  std::map<std::string, u64> sizes;
  for (const ImageManifest::File &f : m.files)
    if (has_grown(f)) sizes[f.path] = f.size;
  if (sizes.empty()) return {};
  for (const Process &p : ProcessTable::read().tree(root))
    for (const Descriptor &d : descriptors_of(p.pid)) {
      auto it = sizes.find(d.target);
      if (it == sizes.end() || d.kind != Descriptor::Kind::File || !d.writable()) continue;
      UniqueFd file = duplicate_descriptor(p.pid, d.fd);
      if (!file || ::ftruncate(file.get(), static_cast<off_t>(it->second)) != 0)
        return fail_errno("cannot truncate {}", d.target);
    }
  return {};
}

}  // namespace ckpt::tools
