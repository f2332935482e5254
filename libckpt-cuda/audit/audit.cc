// SPDX-License-Identifier: Apache-2.0
//
// libckpt-cuda-audit.so, named by LD_AUDIT: a program that opens NVIDIA's driver by its path, or
// finds another one before ours, gets our library instead (rtld-audit(7), la_objsearch). Only our
// own library gets the driver. Where devices need a runtime of ours (the software device, devices
// of other nodes), NVIDIA's shared one is replaced in the same way. The loader puts this file into
// the program and into all that it executes, into a link-map namespace of its own, so it uses no
// C++ library and allocates nothing.
//
// With an auditor, the loader decides on the size of the static TLS block before it loads the
// program's libraries. What they need comes out of a reserve, and a library that does not fit makes
// the program fail at its start ("cannot allocate memory in static TLS block"). Such a program is
// executed again without the auditor.
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>

namespace {

constexpr const char *kLibraryVariable = "CKPT_CUDA_LIBRARY";
constexpr const char *kRuntimesVariable = "CKPT_CUDA_RUNTIMES";  // the folder of ours
constexpr const char *kAuditVariable = "LD_AUDIT=";
constexpr const char *kReserveTunable = "glibc.rtld.optional_static_tls=";
constexpr std::size_t kUsualReserve = 512;  // dl-tls.c and dl-tunables.list of glibc

char **g_argv, **g_environment;  // of the program
bool g_started;                  // all libraries that the program is linked with are loaded
std::size_t g_static_tls;        // what these need of the reserve

const char *file_of(const char *path) {
  const char *slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool is_driver(const char *path) {
  const char *file = file_of(path);
  return std::strcmp(file, "libcuda.so.1") == 0 || std::strcmp(file, "libcuda.so") == 0;
}

// Our folder also has libcuda.so, a link to libcuda.so.1.
bool is_ours(const char *path) {
  const char *ours = std::getenv(kLibraryVariable);
  if (ours == nullptr || path == nullptr || !is_driver(path)) return false;
  auto folder = static_cast<std::size_t>(file_of(ours) - ours);
  return file_of(path) == path + folder && std::memcmp(path, ours, folder) == 0;
}

// Our runtime of the same version as the one that is looked for, or null. The loader copies the
// path before it looks for the next file, and one thread at a time looks for files.
const char *our_runtime(const char *name) {
  static char path[PATH_MAX];
  const char *folder = std::getenv(kRuntimesVariable), *file = file_of(name);
  if (folder == nullptr || std::strncmp(file, "libcudart.so.", 13) != 0) return nullptr;
  std::size_t before = std::strlen(folder), bytes = std::strlen(file) + 1;
  if (before + 1 + bytes > sizeof path) return nullptr;
  std::memcpy(path, folder, before);
  path[before] = '/';
  std::memcpy(path + before + 1, file, bytes);
  return ::access(path, R_OK) == 0 ? path : nullptr;
}

// ---- the reserve of static TLS

std::size_t reserve() {
  const char *tunables = std::getenv("GLIBC_TUNABLES");
  const char *found = tunables != nullptr ? std::strstr(tunables, kReserveTunable) : nullptr;
  return found != nullptr ? std::strtoul(found + std::strlen(kReserveTunable), nullptr, 0)
                          : kUsualReserve;
}

// The linker sets this flag where code accesses thread-local variables at a fixed distance from the
// thread pointer (gABI, DT_FLAGS).
bool needs_static_tls(const link_map *map) {
  for (const ElfW(Dyn) *d = map->l_ld; d != nullptr && d->d_tag != DT_NULL; d++)
    if (d->d_tag == DT_FLAGS) return (d->d_un.d_val & DF_STATIC_TLS) != 0;
  return false;
}

// From the file, because a link map does not say where the program headers are.
std::size_t tls_bytes(const char *path) {
  int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::size_t bytes = 0;
  ElfW(Ehdr) head{};
  if (::pread(fd, &head, sizeof head, 0) == sizeof head && head.e_phentsize == sizeof(ElfW(Phdr)))
    for (unsigned i = 0; i < head.e_phnum; i++) {
      ElfW(Phdr) p{};
      auto at = static_cast<off_t>(head.e_phoff + i * sizeof p);
      if (::pread(fd, &p, sizeof p, at) != sizeof p) break;
      if (p.p_type == PT_TLS) bytes = p.p_memsz + p.p_align;
    }
  ::close(fd);
  return bytes;
}

// Returns only if the program cannot be executed again; it then fails as the loader says.
void execute_without_auditor() {
  char path[PATH_MAX];
  ssize_t n = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (g_argv == nullptr || g_environment == nullptr || n <= 0) return;
  path[n] = '\0';
  char **to = g_environment;
  for (char **from = g_environment; *from != nullptr; from++)
    if (std::strncmp(*from, kAuditVariable, std::strlen(kAuditVariable)) != 0) *to++ = *from;
  *to = nullptr;
  ::execve(path, g_argv, g_environment);
  ::execve("/proc/self/exe", g_argv, g_environment);  // the file has no name any more
}

// The program itself does not need the reserve: it was there when the loader decided.
void count_static_tls(const link_map *map) {
  bool is_library = map->l_prev != nullptr && map->l_name != nullptr && map->l_name[0] == '/';
  if (!is_library || !needs_static_tls(map)) return;
  g_static_tls += tls_bytes(map->l_name);
  if (g_static_tls > reserve()) execute_without_auditor();
}

}  // namespace

// The loader passes the program's own arguments and environment.
[[gnu::constructor]] static void note_program(int, char **argv, char **environment) {
  g_argv = argv;
  g_environment = environment;
}

extern "C" {

[[gnu::visibility("default")]] unsigned int la_version(unsigned int version) {
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

// The cookie says whether this object is our library. Returns 0: symbol bindings are not audited.
[[gnu::visibility("default")]] unsigned int la_objopen(link_map *map, Lmid_t lmid,
                                                       uintptr_t *cookie) {
  *cookie = is_ours(map->l_name) ? 1 : 0;
  if (!g_started && lmid == LM_ID_BASE) count_static_tls(map);
  return 0;
}

[[gnu::visibility("default")]] void la_preinit(uintptr_t *) { g_started = true; }

// By path or by name: a name may lead to another driver before ours (DT_RPATH, or a folder that the
// program or a script has put in front of LD_LIBRARY_PATH).
[[gnu::visibility("default")]] char *la_objsearch(const char *name, uintptr_t *cookie,
                                                  unsigned int flag) {
  const char *ours = nullptr;
  if (flag == LA_SER_ORIG && *cookie != 1)
    ours = is_driver(name) ? std::getenv(kLibraryVariable) : our_runtime(name);
  return const_cast<char *>(ours != nullptr ? ours : name);
}
}
