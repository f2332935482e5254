// SPDX-License-Identifier: Apache-2.0
//
// The part of a program's memory that `ckpt-restore --lazy` owes to it when it goes on: private
// anonymous memory in mappings of some size. CRIU restores the mappings and never sees these pages:
// they are left out of its lists of pages, and of the pages themselves, on their way to it.
//
// Why not CRIU's own lazy pages (`criu restore --lazy-pages`, CRIU 4.2):
//
//   --stream  Its daemon opens CRIU's files in a folder, and CRIU refuses both options together.
//             So the whole image would first have to be unpacked, or shown by a FUSE file system.
//   zeros     The daemon alone holds the userfaultfds: if it is killed, missing pages become zeros
//             (tried: 3,327 of 4,096 pages were wrong).
//
// Instead, ckpt-restore (for a user, ckpt-helper) makes the userfaultfds itself, in the stopped
// program (userfaults.h), and ckpt-restore serves the faults from the image (page_server.h).
//
// Left to CRIU is what the kernel writes before the program goes on: the area of restartable
// sequences (rseq(2)) of each thread. So are stacks that grow, locked memory, huge pages, shared
// memory and files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "storage/read/image_reader.h"
#include "tools/criu/stream_server.h"
#include "tools/lazy/owed_map.h"
#include "tools/reasons.h"

namespace ckpt::tools {

struct OwedProcess {
  std::string stream;             // of the image: "criu/pages-1.img"
  std::vector<OwedPiece> pieces;  // ascending by address
  std::vector<StreamPart> rest;   // of the stream, for CRIU
};

struct OwedMemory {
  std::map<pid_t, OwedProcess> processes;  // by PID, as the processes see it themselves
  u64 bytes() const;
};

// With which rights the program's userfaultfds are made (userfaults.h).
enum class UserfaultRights { OfProgram, OfHelper };

// Nothing is owed if the image has no such memory. What the files of CRIU say must fit together:
// otherwise the reason is added. So is a thread without the rights that it needs.
OwedMemory owed_memory(const storage::ImageReader &image, UserfaultRights rights, Reasons &reasons);

// `edits`, and the owed pages left out.
StreamEdits without_owed(const StreamEdits &edits, const OwedMemory &owed);

}  // namespace ckpt::tools
