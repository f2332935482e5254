// SPDX-License-Identifier: Apache-2.0
#include "tools/run/linked_driver.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/io.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char *kDriver = "libcuda.so.1";
constexpr size_t kMaxDynamic = 1u << 20, kMaxName = 4096, kMaxLibraries = 1000;

template <class T>
bool read_object(int fd, T &object, u64 offset) {
  return ::pread(fd, &object, sizeof object, static_cast<off_t>(offset)) == sizeof object;
}

// What the dynamic section of an ELF file says about libraries.
struct Dynamic {
  std::vector<std::string> needed;
  std::string rpath;  // empty where there is a DT_RUNPATH, which goes behind LD_LIBRARY_PATH
};

class DynamicFile {
 public:
  explicit DynamicFile(const std::string &path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    Elf64_Ehdr head{};
    if (!fd_ || !read_object(fd_.get(), head, 0) ||
        std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof(Elf64_Phdr))
      return;
    for (u64 i = 0; i < head.e_phnum; i++) {
      Elf64_Phdr p{};
      if (!read_object(fd_.get(), p, head.e_phoff + i * sizeof p)) return;
      headers_.push_back(p);
    }
  }

  Dynamic read() const {
    std::vector<Elf64_Dyn> entries;
    for (const Elf64_Phdr &p : headers_)
      if (p.p_type == PT_DYNAMIC)
        for (u64 at = 0; at + sizeof(Elf64_Dyn) <= std::min<u64>(p.p_filesz, kMaxDynamic);
             at += sizeof(Elf64_Dyn))
          if (Elf64_Dyn d{}; read_object(fd_.get(), d, p.p_offset + at)) entries.push_back(d);
    u64 strings = 0;
    bool runpath = false;
    for (const Elf64_Dyn &d : entries) {
      if (d.d_tag == DT_STRTAB) strings = offset_of(d.d_un.d_ptr);
      runpath |= d.d_tag == DT_RUNPATH;
    }
    Dynamic all;
    for (const Elf64_Dyn &d : entries) {
      if (d.d_tag == DT_NEEDED) all.needed.push_back(name_at(strings + d.d_un.d_val));
      if (d.d_tag == DT_RPATH && !runpath) all.rpath = name_at(strings + d.d_un.d_val);
    }
    return all;
  }

 private:
  u64 offset_of(u64 address) const {
    for (const Elf64_Phdr &p : headers_)
      if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz)
        return p.p_offset + (address - p.p_vaddr);
    return 0;
  }
  std::string name_at(u64 offset) const {
    char name[kMaxName] = "";
    ssize_t n = ::pread(fd_.get(), name, sizeof name - 1, static_cast<off_t>(offset));
    return n > 0 ? std::string(name) : std::string();
  }

  UniqueFd fd_;
  std::vector<Elf64_Phdr> headers_;
};

// With $ORIGIN, the folder of the file.
std::vector<std::string> folders_of(const std::string &rpath, const std::string &file) {
  std::error_code ec;
  std::string origin = fs::canonical(file, ec).parent_path().string();
  std::vector<std::string> folders;
  std::istringstream in(rpath);
  for (std::string one; std::getline(in, one, ':');) {
    for (const std::string name : {"$ORIGIN", "${ORIGIN}"})
      if (size_t at = one.find(name); at != one.npos) one.replace(at, name.size(), origin);
    if (!one.empty()) folders.push_back(one);
  }
  return folders;
}

// A library is also searched in the folders of those that need it.
std::string search(const std::string &file, std::vector<std::string> folders,
                   std::set<std::string> &seen) {
  if (seen.size() >= kMaxLibraries || !seen.insert(file).second) return {};
  Dynamic d = DynamicFile(file).read();
  for (std::string &folder : folders_of(d.rpath, file)) folders.push_back(std::move(folder));
  if (folders.empty()) return {};
  for (const std::string &name : d.needed)
    for (const std::string &folder : folders) {
      std::string found = folder + "/" + name;
      if (name.empty() || ::access(found.c_str(), R_OK) != 0) continue;
      if (name == kDriver) return found;
      if (std::string driver = search(found, folders, seen); !driver.empty()) return driver;
      break;
    }
  return {};
}

}  // namespace

std::string driver_by_rpath(const std::string &executable) {
  std::set<std::string> seen;
  return search(executable, {}, seen);
}

}  // namespace ckpt::tools
