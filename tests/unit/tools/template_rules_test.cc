// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/template_rules.h"

#include <doctest/doctest.h>
#include <fcntl.h>

namespace ckpt::test {
using namespace tools;
namespace {

bool names(const Reasons &reasons, const std::string &what) {
  return reasons.size() == 1 && reasons[0].find(what) != std::string::npos;
}

Reasons shared_files(const ImageManifest &m, const CriuFiles &criu = {}) {
  Reasons reasons;
  check_shared_files(m, criu, reasons);
  return reasons;
}

ImageManifest::File written(const std::string &path) {
  ImageManifest::File f{};
  f.path = path;
  f.writable = true;
  return f;
}

}  // namespace

TEST_CASE("connections and FIFOs to other programs make no template") {
  ImageManifest m;
  Reasons reasons;
  m.sockets = {{InetProtocol::Tcp, false, *Endpoint::parse("127.0.0.1", 80), {}}};
  check_template(m, reasons);
  CHECK(reasons.empty());
  m.sockets[0].remote = *Endpoint::parse("10.0.0.1", 443);
  check_template(m, reasons);
  CHECK(names(reasons, "10.0.0.1"));
  reasons.clear();
  m.sockets.clear();
  m.fifos = {{"/run/fifo", 5, true}};
  check_template(m, reasons);
  CHECK(names(reasons, "/run/fifo"));
}

TEST_CASE("copies do not share files that they write") {
  ImageManifest m;
  m.files = {written("/tmp/a")};
  CHECK(names(shared_files(m), "/tmp/a"));
  m.files[0].append_only = true;
  CHECK(shared_files(m).empty());
  m.files = {written("/dev/shm/a"), written("/tmp/out")};
  m.file_at[2] = "/tmp/out";
  CHECK(shared_files(m).empty());
  m.memory_files.emplace_back().path = "/run/memory";
  CHECK(names(shared_files(m), "/run/memory"));
}

TEST_CASE("a mapping through which others see what is written is a file that is written") {
  CriuFiles criu;
  criu.files[3].path = "/tmp/map";
  for (auto [is_private, flags, shared] :
       {std::tuple{false, O_RDWR, true}, std::tuple{false, O_RDONLY, false},
        std::tuple{true, O_RDWR, false}}) {
    criu.processes[1].mappings = {{0, 4096, 3, is_private, static_cast<u32>(flags)}};
    CHECK(shared_files({}, criu).empty() == !shared);
  }
}

TEST_CASE("memory without a name is each copy's own") {
  CriuFiles criu;
  criu.files[3].path = "";
  criu.processes[1].mappings = {{0, 4096, 3, false, O_RDWR}};
  CHECK(shared_files({}, criu).empty());
}

TEST_CASE("locks on named files are the program's, those on unlinked files each copy's") {
  CriuFiles criu;
  criu.processes[1].descriptors = 5;
  criu.descriptors[5][4] = 3;
  criu.files[3].path = "/tmp/lock";
  criu.locks = {{1, 4}};
  Reasons reasons;
  check_shared_locks(criu, reasons);
  CHECK(names(reasons, "/tmp/lock"));
  reasons.clear();
  criu.files[3].ghost = 1;
  check_shared_locks(criu, reasons);
  CHECK(reasons.empty());
  criu.locks[0].fd = 9;
  check_shared_locks(criu, reasons);
  CHECK(names(reasons, "descriptor 9"));
}

}  // namespace ckpt::test
