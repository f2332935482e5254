// SPDX-License-Identifier: Apache-2.0
//
// Writes the carried files that are missing here or differ (manifest/carried_files.h) into the
// folder of the session, and leads CRIU there. The folder is removed with the session.
#pragma once

#include <map>
#include <string>

#include "storage/read/image_reader.h"
#include "tools/criu/criu_file.h"
#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"

namespace ckpt::tools {

// Finds out which they are (m.supplied). The reasons against it: a folder without room for those of
// all copies, or one from which no program may be executed. The calling thread opens files with the
// rights of the program's user (AsUser).
void supply_carried_files(ImageManifest &m, unsigned copies, Reasons &reasons);
// Says which files differ: what the program opens anew under their names is what is there now.
void warn_of_supplied_files(const ImageManifest &m);

class SuppliedFiles {
 public:
  // `session`: the folder of the session, which only this user can change.
  Result<> write(const ImageManifest &m, const storage::ImageReader &image,
                 const std::string &session);
  // An entry of CRIU's files.img.
  void edit(ProtoMessage &entry) const;

 private:
  std::map<std::string, std::string> paths_;  // of the image, here
};

}  // namespace ckpt::tools
