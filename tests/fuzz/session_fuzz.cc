// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: what a program's user may have put where the tools look: folders of sessions and
// left-overs, the file with a program's environment, and the kernel's table of sockets.
#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include "common/base/io.h"
#include "common/base/log.h"
#include "tests/fuzz/scratch.h"
#include "tools/net/inet_table.h"
#include "tools/proc/process_root.h"
#include "tools/session/leftovers.h"
#include "tools/session/proxy_environment.h"
#include "tools/session/session_folder.h"

namespace {

using namespace ckpt;
using namespace ckpt::tools;
namespace fs = std::filesystem;

constexpr size_t kMostEntries = 16;

// Not over a FIFO, which would wait for a reader.
void make_file(const std::string &path, ByteView contents) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd) (void)write_all(fd.get(), contents);
}

constexpr const char *kFolders[] = {"ckpt-0-abc", "ckpt-0-", "ckpt-0-dump-x", "ckpt-1-abc",
                                    "other"};
constexpr const char *kFiles[] = {"lock",         "program",    "foreign-children",
                                  "session.sock", "last-image", "x"};

// Puts the entries that the input names into `folder`, at most two levels deep. They may be files,
// folders, links to `outside`, FIFOs and sockets' names.
void fill(const std::string &folder, Reader &in, const std::string &outside) {
  std::string at = folder;
  for (size_t i = 0; in.left() > 0 && i < kMostEntries; i++) {
    u8 kind = in.get<u8>(), name = in.get<u8>();
    bool inner = at != folder;
    std::string path = at + "/" + (inner ? kFiles[name % 6] : kFolders[name % 5]);
    std::error_code ec;
    switch (kind % 6) {
      case 0:
        fs::create_directory(path, ec);
        at = ec ? at : path;
        break;
      case 1: make_file(path, in.raw(std::min<size_t>(in.get<u8>(), in.left()))); break;
      case 2: fs::create_symlink(outside, path, ec); break;
      case 3: fs::create_symlink(path + "-gone", path, ec); break;
      case 4: (void)::mkfifo(path.c_str(), 0600); break;
      case 5: at = folder; break;
    }
  }
}

// As ckpt-dump and ckpt-ps read the folder of a session. Nothing there may make them wait, and no
// link leads them to a file of others.
void read_sessions(const std::string &runtime) {
  for (const char *folder : kFolders)
    for (const char *file : kFiles) {
      std::string path = fmt::format("{}/{}/{}", runtime, folder, file), text;
      text = read_file_of(::getpid(), path);
      if (fs::is_symlink(path) && !text.empty()) std::abort();
      for (pid_t pid : pids_in(text))
        if (pid <= 0) std::abort();
      if (connect_unix_of(::getpid(), path)) std::abort();
    }
}

// Whatever there is in the runtime folder, nothing outside it changes.
void remove_from_folder(ByteView bytes) {
  std::string runtime = scratch_folder() + "/runtime", outside = scratch_folder() + "/outside";
  std::error_code ec;
  fs::remove_all(runtime, ec);
  fs::create_directory(runtime, ec);
  fs::create_directory(outside, ec);
  std::ofstream(outside + "/lock") << "kept";
  ::setenv("CKPT_RUNTIME_DIR", runtime.c_str(), 1);
  Reader in(bytes);
  fill(runtime, in, outside);
  read_sessions(runtime);
  Result<SessionFolder> own = SessionFolder::create();
  (void)remove_leftovers();
  if (!own || !fs::exists(own->path()) || fs::file_size(outside + "/lock", ec) != 4) std::abort();
}

// The keeper's own variables are never the program's to set.
void start_proxy(ByteView bytes) {
  ProgramEnvironment ours;
  ours.set = {{"OCL_ICD_VENDORS", "/v/"}, {"LD_LIBRARY_PATH", "/ours"}};
  ours.front = {{"LD_LIBRARY_PATH", "/ours"}};
  ours.without = {"OCL_ICD_FILENAMES"};
  Result<std::vector<std::string>> entries = read_environment(memory_file(bytes).get());
  if (!entries) return;
  for (const auto &[name, value] : proxy_environment(*entries, ours).set)
    if (name.empty() || name.starts_with("CKPT_") || name == "LD_PRELOAD" ||
        name == "OCL_ICD_VENDORS" || name == "OCL_ICD_FILENAMES" ||
        name.find('\0') != std::string::npos)
      std::abort();
}

void list_sockets(ByteView bytes) {
  for (bool v6 : {false, true})
    for (const InetSocket &s : parse_inet_table(text(bytes), v6)) {
      std::optional<Endpoint> again = Endpoint::parse(s.local.address_text(), s.local.port);
      if (!again || *again != s.local) std::abort();
    }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  if (size == 0) return 0;
  ByteView bytes = view(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0: remove_from_folder(bytes); break;
    case 1: start_proxy(bytes); break;
    case 2: list_sockets(bytes); break;
  }
  return 0;
}
