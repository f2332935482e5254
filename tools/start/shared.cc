// SPDX-License-Identifier: Apache-2.0
#include "tools/start/shared.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "common/base/words.h"
#include "common/proc/file.h"
#include "tools/manifest/template_rules.h"
#include "tools/restore/recorded_sockets.h"

namespace ckpt::tools {
namespace {

// "TCP 127.0.0.1 port 80"
std::string text_of(const ImageManifest::Socket &s) {
  return fmt::format("{} {}", s.protocol == InetProtocol::Udp ? "UDP" : "TCP", s.local.text());
}

// The names to which the program's UNIX sockets are bound, without those that each copy has of its
// own.
std::set<std::string> unix_names(const CriuFiles &criu) {
  std::set<std::string> names;
  for (const auto &[id, f] : criu.files)
    if (!f.unix_name.empty() && !is_private_to_copy(f.unix_name)) names.insert(f.unix_name);
  return names;
}

// How --listen names the address.
std::string option_for(const ImageManifest::Socket &s) {
  return fmt::format("--listen {}=FIRST-LAST", s.local.port);
}

void check_ranges(const SharedCheck &c, Reasons &reasons) {
  for (const AddressChange &a : c.addresses.changes()) {
    u32 ports = u32{a.last_port} - a.first_port + 1u;
    if (!a.is_unix() && ports != 1 && ports < c.copies)
      reasons.push_back(fmt::format("--listen {} has {} ports for {} copies: name a range of {}",
                                    a.given, ports, c.copies, c.copies));
  }
}

void check_unused(const SharedCheck &c, Reasons &reasons) {
  std::set<std::string> names = unix_names(c.criu);
  for (const AddressChange &a : c.addresses.changes()) {
    bool used = a.is_unix() ? names.contains(a.old_name)
                            : std::ranges::any_of(c.manifest.sockets, [&a](const auto &s) {
                                return a.matches(s.local);
                              });
    if (used) continue;
    std::string all;
    for (const ImageManifest::Socket &s : c.manifest.sockets) all += ", " + text_of(s);
    for (const std::string &name : names) all += ", " + name;
    reasons.push_back(fmt::format("--listen {}: the program has no such address; it has {}",
                                  a.given, all.empty() ? "none" : all.substr(2)));
  }
}

bool overlap(const ImageManifest::Socket &a, const ImageManifest::Socket &b) {
  static constexpr std::array<u8, 16> kAny{};
  bool any = a.local.address == kAny || b.local.address == kAny;
  return a.protocol == b.protocol && a.local.port == b.local.port && (any || a.local == b.local);
}

ImageManifest::Socket of_copy(const SharedCheck &c, ImageManifest::Socket s, u32 number) {
  s.local = c.addresses.instead_of(s.local, number).value_or(s.local);
  return s;
}

// Two sockets of one copy may have one address, as they have in the program.
void check_ports(const SharedCheck &c, Reasons &reasons) {
  if (c.copies < 2) return;
  std::vector<ImageManifest::Socket> of_others;
  std::set<std::string> told;
  for (u32 number = 1; number <= c.copies; number++) {
    std::vector<ImageManifest::Socket> own;
    for (const ImageManifest::Socket &s : c.manifest.sockets) {
      own.push_back(of_copy(c, s, number));
      bool shared = std::ranges::any_of(
          of_others, [&own](const auto &other) { return overlap(own.back(), other); });
      if (shared && told.insert(text_of(s)).second)
        reasons.push_back(
            fmt::format("the program uses {}, which only one copy can have: give each copy another "
                        "port ({})",
                        text_of(s), option_for(s)));
    }
    of_others.insert(of_others.end(), own.begin(), own.end());
  }
}

void check_names(const SharedCheck &c, Reasons &reasons) {
  for (const std::string &name : unix_names(c.criu)) {
    std::string first = c.addresses.instead_of(name, 1).value_or(name);
    if (c.copies > 1 && c.addresses.instead_of(name, 2).value_or(name) == first)
      reasons.push_back(fmt::format(
          "the program uses the UNIX socket {0}, which only one copy can have: give each copy "
          "another name (--listen {0}=NEW, with %n for the copy's number)",
          name));
  }
}

// Abstract names of this network namespace, and paths, as /proc/net/unix has them at the end of a
// line.
std::set<std::string> names_in_use() {
  std::set<std::string> names;
  const std::string sockets = proc::text_of_machine("net/unix");
  for (std::string_view line : lines_of(sockets))
    if (size_t at = line.find_first_of("/@"); at != line.npos) names.emplace(line.substr(at));
  return names;
}

void check_names_are_free(const SharedCheck &c, Reasons &reasons) {
  std::set<std::string> in_use = names_in_use();
  for (const std::string &name : unix_names(c.criu))
    for (u32 number = 1; number <= c.copies; number++) {
      std::optional<std::string> instead = c.addresses.instead_of(name, number);
      std::string own = instead.value_or(name);
      struct stat st {};
      // CRIU would remove the file of that name. That of a socket which has ended is a left-over.
      bool is_file = instead && own.starts_with('/') && ::lstat(own.c_str(), &st) == 0;
      if (in_use.contains(own) || is_file)
        reasons.push_back(fmt::format(
            "the UNIX socket {} is in use here: end the program that has it, remove its file, or "
            "choose another name (--listen)",
            own));
      if (!instead) break;
    }
}

void check_ports_are_free(const SharedCheck &c, Reasons &reasons) {
  ImageManifest all;
  for (u32 number = 1; number <= c.copies; number++)
    for (const ImageManifest::Socket &s : c.manifest.sockets)
      all.sockets.push_back(of_copy(c, s, number));
  check_sockets(all, reasons);
}

}  // namespace

void check_shared(const SharedCheck &c, Reasons &reasons) {
  if (!c.criu.complete)
    reasons.push_back("the image's list of files is too large to be compared for several copies");
  size_t before = reasons.size();
  check_ranges(c, reasons);
  if (reasons.size() != before) return;
  check_unused(c, reasons);
  check_ports(c, reasons);
  check_names(c, reasons);
  if (c.copies > 1) check_shared_locks(c.criu, reasons);
  if (c.copies > 1 && !c.share_files) check_shared_files(c.manifest, c.criu, reasons);
  if (reasons.size() != before) return;
  check_ports_are_free(c, reasons);
  check_names_are_free(c, reasons);
}

void use_addresses(ImageManifest &m, const Addresses &addresses, u32 number) {
  for (ImageManifest::Socket &s : m.sockets)
    s.local = addresses.instead_of(s.local, number).value_or(s.local);
}

}  // namespace ckpt::tools
