// SPDX-License-Identifier: Apache-2.0
//
// Files that the program was writing, and that have grown since the dump. For a log, both choices
// are right: to cut it to its recorded size, or to go on at its end. Other files are destroyed by a
// cut: a database has also changed in the part that remains, and another program may have written
// what is cut off. So --truncate-files leaves these alone; --truncate-file cuts the file that it
// names, and keeps a copy.
#pragma once

#include <set>
#include <string>

#include "tools/manifest/image_manifest.h"

namespace ckpt::tools {

struct GrownFiles {
  enum Choice {
    Refuse,
    Truncate,  // cut it to its recorded size
    Append,    // go on at its end
    // The same for the program's own output; in others, go on where the program was in the image,
    // which writes again what has been added since. As a batch job is continued whose node failed.
    AppendOutput
  };
  Choice choice = Refuse;
  std::set<std::string> cut;  // paths to cut whatever they are

  GrownFiles() = default;
  GrownFiles(Choice c) : choice(c) {}  // implicit: the same choice for all files
  Choice of(const ImageManifest::File &f) const { return cut.contains(f.path) ? Truncate : choice; }
};

// Whether a file is standard output or standard error of the program's root.
bool is_output(const ImageManifest &m, const ImageManifest::File &f);

// Why the restore is refused for a file that has grown to `now` bytes, with what each choice does;
// empty: it is not. `path`: where the file is here.
std::string refused_growth(const ImageManifest::File &f, u64 now, const GrownFiles &grown,
                           const std::string &path);

}  // namespace ckpt::tools
