// SPDX-License-Identifier: Apache-2.0
//
// What CRIU's image files say, as far as a restore depends on it: processes and their threads,
// memory, and open files. CRIU's images/*.proto define the files. Like the whole image they are
// untrusted.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "storage/read/image_reader.h"
#include "tools/proc/timers.h"

namespace ckpt::tools {

// Files that do not grow with the contents of memory. Larger ones are not read, and what they would
// say is unknown.
inline constexpr u64 kMostFactBytes = 16u << 20, kMostFactBytesOfAll = 64u << 20;
// Of an unlinked file ("ghost-file-1.img"), only the beginning is read: its contents follow.
inline constexpr u64 kMostGhostBytes = 4096;
bool is_fact_file(const std::string &name);  // as CRIU names it: "core-12.img"

// The bytes of such files, by name, while a dump writes them.
class FactFiles {
 public:
  // A part of a file, in order.
  void add(const std::string &name, ByteView part);
  void close(const std::string &name, u64 size);
  const std::map<std::string, Bytes> &contents() const { return contents_; }
  const std::map<std::string, u64> &sizes() const { return sizes_; }

 private:
  std::map<std::string, Bytes> contents_;
  std::map<std::string, u64> sizes_;  // of all files of CRIU
  std::set<std::string> too_large_;
  u64 bytes_ = 0;
};

struct CriuFiles {
  struct Mapping {
    u64 begin, end;
    u32 file;         // its ID; 0: none
    bool is_private;  // its pages are CRIU's
    u32 flags = 0;    // of open(2), with which its file is opened
  };
  struct Pages {  // of private memory
    u64 begin, end;
    bool stored;  // not only in another image
  };
  struct Process {
    std::set<pid_t> threads;
    std::optional<bool> alive;  // false: a zombie. Nothing: there is no such file
    bool has_memory = false;    // its list of mappings is there
    std::vector<Mapping> mappings;
    std::vector<Pages> pages;
    u32 pages_file = 0;      // its number
    bool has_pages = false;  // the list of pages is there
    u32 descriptors = 0;     // the number of its table
    u32 executable = 0;      // the ID of its file
    std::vector<PosixTimer> timers;
  };
  struct File {
    std::string path;    // of a regular file, else ""
    std::string socket;  // the absolute path to which a UNIX socket is bound, else ""
    // To which a UNIX socket is bound: "/run/a", "@a" where that is an abstract name, else "".
    std::string unix_name;
    u64 size = 0;
    std::optional<u32> mode;
    bool by_other_name = false;  // CRIU makes it, or finds it by another name
    u32 flags = 0;               // of open(2), with which it is opened
    u32 link = 0;                // the ID of the file by whose name it is found; 0: none
    u32 ghost = 0;               // the number of the unlinked file that is made anew; 0: none
  };
  struct Lock {  // on a file
    pid_t pid = 0;
    int fd = -1;
  };
  struct Ghost {  // an unlinked file, as it is made anew
    uid_t uid = 0;
    gid_t gid = 0;
    u32 mode = 0;
  };

  // By PID, as the processes see it themselves.
  std::map<pid_t, Process> processes;
  std::map<u32, File> files;                      // by ID
  std::map<u32, Ghost> ghosts;                    // by number
  std::map<u32, std::map<int, u32>> descriptors;  // by table: the ID of the file of each
  std::vector<Lock> locks;
  std::map<std::string, u64> sizes;  // of all of CRIU's files
  bool complete = true;              // false: a file was too large, or cannot be parsed

  static CriuFiles of(const FactFiles &files);
  static CriuFiles of(const storage::ImageReader &image);
};

}  // namespace ckpt::tools
