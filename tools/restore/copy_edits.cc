// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/copy_edits.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <climits>
#include <cstring>
#include <filesystem>

#include "tools/manifest/template_rules.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// Field numbers of CRIU's images/*.proto.
struct FileEntry {
  static constexpr u32 kId = 2, kRegular = 3, kInetSocket = 4, kUnixSocket = 16;
};
struct RegularFileEntry {
  static constexpr u32 kFlags = 2, kPosition = 3, kName = 6, kSize = 8, kMode = 10;
};
struct InetSocketEntry {
  static constexpr u32 kFamily = 3, kProtocol = 5, kState = 6, kPort = 7, kAddress = 11;
};
struct UnixSocketEntry {
  static constexpr u32 kName = 11, kUnlinked = 15;
};

constexpr std::string_view kMark = ".ckpt-";

std::string without_mark(const std::string &name) {
  size_t at = name.rfind(kMark);
  bool is_mark = at != name.npos && at + kMark.size() < name.size() &&
                 name.find_first_not_of("0123456789", at + kMark.size()) == name.npos;
  return is_mark ? name.substr(0, at) : name;
}

std::string nearest_folder(const std::string &path) {
  fs::path folder = fs::path(path).parent_path();
  std::error_code ec;
  while (folder.has_relative_path() && !fs::is_directory(folder, ec)) folder = folder.parent_path();
  return folder.string();
}

// The kernel has the bytes of an address in network order, and CRIU copies them in words.
Endpoint endpoint_of(const ProtoMessage &s) {
  std::vector<u64> words = s.numbers(InetSocketEntry::kAddress);
  Endpoint e;
  e.v6 = s.number(InetSocketEntry::kFamily) == AF_INET6 && words.size() == 4;
  e.port = static_cast<u16>(s.number(InetSocketEntry::kPort));
  for (size_t i = 0; i < words.size() && i < 4; i++) {
    u32 word = static_cast<u32>(words[i]);
    std::memcpy(e.address.data() + 4 * i, &word, 4);
  }
  return e;
}

// "::ffff:127.0.0.1", as an IPv6 socket names an address of IPv4.
bool is_mapped(const Endpoint &e) {
  static constexpr u8 kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return e.v6 && std::memcmp(e.address.data(), kPrefix, sizeof kPrefix) == 0;
}

Endpoint unmapped(const Endpoint &e) {
  if (!is_mapped(e)) return e;
  Endpoint v4{.v6 = false, .address = {}, .port = e.port};
  std::memcpy(v4.address.data(), e.address.data() + 12, 4);
  return v4;
}

std::vector<u64> words_of(const Endpoint &e, bool mapped) {
  std::array<u8, 16> bytes = e.address;
  if (mapped) {
    std::memset(bytes.data(), 0, 10);
    std::memset(bytes.data() + 10, 0xff, 2);
    std::memcpy(bytes.data() + 12, e.address.data(), 4);
  }
  std::vector<u64> words;
  for (size_t i = 0; i < (e.v6 || mapped ? 4u : 1u); i++) {
    u32 word = 0;
    std::memcpy(&word, bytes.data() + 4 * i, 4);
    words.push_back(word);
  }
  return words;
}

bool is_connection(const ProtoMessage &s) {
  u64 state = s.number(InetSocketEntry::kState);
  return s.number(InetSocketEntry::kProtocol) == IPPROTO_TCP && state != InetSocket::Listen &&
         state != InetSocket::Close;
}

// As the kernel has names: a path with the zero byte at its end, an abstract name after one.
Bytes kernel_name(const std::string &name) {
  bool is_path = name.starts_with('/');
  std::string bytes = is_path ? name + '\0' : '\0' + name.substr(1);
  ByteView all = view(bytes);
  return Bytes(all.begin(), all.end());
}

}  // namespace

std::string marked_name(const std::string &path, pid_t mark) {
  std::string suffix = fmt::format("{}{}", kMark, mark), base = fs::path(path).filename().string();
  base = without_mark(base).substr(0, NAME_MAX - suffix.size());
  std::string folder = nearest_folder(path);
  return (folder == "/" ? "" : folder) + "/" + base + suffix;
}

void mark_links(ImageManifest &m, pid_t mark) {
  for (ImageManifest::Link &l : m.links)
    if (!is_private_to_copy(l.path)) l.path = marked_name(l.path, mark);
}

CopyEdits::CopyEdits(const ImageManifest &m, const CriuFiles &criu, const Copy &copy)
    : copy_(copy), outputs_(output_files(m)) {
  for (const auto &[id, f] : criu.files) {
    if (f.ghost || f.link) marked_.insert(id);
    if (f.link) marked_.insert(f.link);
    if (!f.unix_name.empty()) unix_names_[id] = f.unix_name;
  }
}

void CopyEdits::edit(ProtoMessage &file) const {
  u32 id = static_cast<u32>(file.number(FileEntry::kId));
  file.edit_each(FileEntry::kRegular, [&](ProtoMessage &f) { edit_regular_file(id, f); });
  file.edit_each(FileEntry::kInetSocket, [&](ProtoMessage &s) { edit_inet_socket(s); });
  file.edit_each(FileEntry::kUnixSocket, [&](ProtoMessage &s) { edit_unix_socket(id, s); });
}

void CopyEdits::edit_regular_file(u32 id, ProtoMessage &f) const {
  std::string name(text(f.bytes(RegularFileEntry::kName)));
  struct stat st {};
  if (marked_.contains(id)) {
    if (!is_private_to_copy(name))
      f.set_bytes(RegularFileEntry::kName, view(marked_name(name, copy_.mark)));
  } else if (outputs_.contains(name) &&
             (f.number(RegularFileEntry::kFlags) & O_ACCMODE) != O_RDONLY &&
             ::stat(copy_.output.c_str(), &st) == 0) {
    f.set_bytes(RegularFileEntry::kName, view(copy_.output));
    f.set_number(RegularFileEntry::kPosition, 0);
    f.set_number(RegularFileEntry::kSize, static_cast<u64>(st.st_size));
    f.set_number(RegularFileEntry::kMode, st.st_mode);
  }
}

void CopyEdits::edit_inet_socket(ProtoMessage &s) const {
  Endpoint old = endpoint_of(s);
  if (old.port == 0 || is_connection(s)) return;
  std::optional<Endpoint> instead = copy_.addresses.instead_of(unmapped(old), copy_.facts.number);
  if (!instead) return;
  s.set_number(InetSocketEntry::kPort, instead->port);
  s.set_numbers(InetSocketEntry::kAddress, words_of(*instead, is_mapped(old)));
}

// All sockets of a name: that which listens, and those that it has accepted.
void CopyEdits::edit_unix_socket(u32 id, ProtoMessage &s) const {
  if (s.number(UnixSocketEntry::kUnlinked)) {
    std::string name(text(s.bytes(UnixSocketEntry::kName)));
    name.resize(std::min(name.find('\0'), name.size()));
    std::string marked = marked_name(name, copy_.mark);
    bool fits = marked.size() < sizeof sockaddr_un::sun_path;
    if (name.starts_with('/') && !is_private_to_copy(name) && fits)
      s.set_bytes(UnixSocketEntry::kName, kernel_name(marked));
    return;
  }
  auto name = unix_names_.find(id);
  if (name == unix_names_.end()) return;
  if (auto instead = copy_.addresses.instead_of(name->second, copy_.facts.number))
    s.set_bytes(UnixSocketEntry::kName, kernel_name(*instead));
}

}  // namespace ckpt::tools
