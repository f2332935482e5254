// SPDX-License-Identifier: Apache-2.0
//
// What a restore tells CRIU otherwise than the image does:
//
//   reservations   CRIU maps all private memory writable first, so the kernel refuses a mapping
//                  that is larger than its memory although the program never wrote there
//                  (criu#3010, vm.overcommit_memory 0). Such a mapping is made with MAP_NORESERVE.
//   huge mappings  A private mapping of more than 4 TiB is made of several: CRIU counts its pages
//                  in an `int`.
//   timers         The thread that a POSIX timer signals (SIGEV_THREAD_ID) may have ended. The
//                  kernel makes no new timer for it, and the old one has no effect: it becomes a
//                  timer without a signal.
//   timerfds       The kernel stops a periodic timer that has expired until the program reads it.
//                  CRIU saves it as one that is not armed. It is armed to expire at once.
//   grown files    With --append-files: the recorded size and, where the program was at the end,
//                  its position become the present size. The size of a file that another program
//                  has enlarged, and that this one has mapped shared, becomes the present one.
//   sockets        A UNIX socket that was renamed after bind(2) is bound to its new name. The file
//   of
//                  one that was unlinked gets no other owner than the user, where CRIU is not root.
//   terminals      CRIU gives a pseudo-terminal of the program its group again, which is another
//   one
//                  than the kernel has given to it in a namespace of ckpt-helper's. Where CRIU does
//                  not run as root, it keeps the kernel's.
//   bounding set   CRIU takes from a program what its bounding set of capabilities lacks, which
//                  needs SETPCAP. Where CRIU does not run as root, the program keeps that of this
//                  tool.
#pragma once

#include <functional>

#include "tools/criu/criu_file.h"
#include "tools/criu/rights.h"
#include "tools/criu/stream_server.h"
#include "tools/manifest/file_checks.h"
#include "tools/manifest/image_manifest.h"

namespace ckpt::tools {

// `edit_file`: further changes of each entry of files.img (copy_edits.h).
StreamEdits image_edits(const ImageManifest &m, const GrownFiles &grown, const CriuRights &rights,
                        std::function<void(ProtoMessage &)> edit_file = {});

}  // namespace ckpt::tools
