// SPDX-License-Identifier: Apache-2.0
//
// What a copy's restore tells CRIU otherwise than the image does, in files.img:
//
//   outputs          the file that was standard output or error is the copy's own
//   unlinked files   get names that only this copy uses (Copy::mark); the program sees them in
//                    /proc/PID/fd alone. One whose folder is gone, too, gets a name in the nearest
//                    folder that is there.
//   addresses        of IP and UNIX sockets (--listen)
//
// Files below /dev/shm keep their names, because each copy has its own tmpfs there.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tools/criu/criu_file.h"
#include "tools/criu/criu_files.h"
#include "tools/manifest/image_manifest.h"
#include "tools/restore/copy.h"

namespace ckpt::tools {

class CopyEdits {
 public:
  CopyEdits(const ImageManifest &m, const CriuFiles &criu, const Copy &copy);
  // An entry of files.img.
  void edit(ProtoMessage &file) const;

 private:
  void edit_regular_file(u32 id, ProtoMessage &f) const;
  void edit_inet_socket(ProtoMessage &s) const;
  void edit_unix_socket(u32 id, ProtoMessage &s) const;

  Copy copy_;
  std::set<std::string> outputs_;
  std::set<u32> marked_;                   // unlinked files, and CRIU's other names for them
  std::map<u32, std::string> unix_names_;  // by ID
};

// The name of an unlinked file, for this copy.
std::string marked_name(const std::string &path, pid_t mark);
// The names that the restore of a copy gives to unlinked files that have another name.
void mark_links(ImageManifest &m, pid_t mark);

}  // namespace ckpt::tools
