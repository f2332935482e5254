// SPDX-License-Identifier: Apache-2.0
//
// As root, because the files have several owners.
#include "tools/manifest/open_rights.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace ckpt::test {
using namespace tools;
namespace {

constexpr uid_t kUser = 61234;
constexpr gid_t kGroup = 61240;

// A folder of the user's with one file, which a program has open.
struct Program {
  std::string folder = "/tmp/ckpt-open-rights-XXXXXX";
  ImageManifest manifest;
  CriuFiles criu;

  Program() {
    REQUIRE(::mkdtemp(folder.data()));
    own(folder, kUser, kUser, 0755);
    REQUIRE(::close(::creat(path().c_str(), 0600)) == 0);
    criu.files[1] = {.path = "/file"};
  }
  ~Program() { std::filesystem::remove_all(folder); }

  std::string path() const { return folder + "/file"; }
  static void own(const std::string &path, uid_t uid, gid_t gid, mode_t mode) {
    REQUIRE(::chown(path.c_str(), uid, gid) == 0);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  }
  void ghost(uid_t uid, gid_t gid, u32 mode) {
    criu.files[1].ghost = 7;
    criu.ghosts[7] = {uid, gid, S_IFREG | mode};
  }
  Reasons reasons(uid_t uid = kUser) const {
    Reasons all;
    RestorableImage image{.manifest = manifest, .criu = criu, .prefix = folder};
    image.user = {uid, uid, {kGroup}};
    check_open_rights(image, all);
    return all;
  }
  bool refused() const { return !reasons().empty(); }
};

struct Case {
  uid_t uid;
  gid_t gid;
  mode_t mode;
  u32 flags;
  bool refused;
};

constexpr Case kNamed[] = {
    {kUser, kUser, 0600, O_RDWR, false},   {kUser, kUser, 0444, O_RDONLY, false},
    {kUser, kUser, 0444, O_RDWR, true},    {kUser, kUser, 0444, O_WRONLY | O_APPEND, true},
    {kUser, kUser, 0000, O_RDONLY, true},  {kUser, kUser, 0000, O_PATH, false},
    {kUser, kUser, 0200, O_WRONLY, false}, {0, 0, 0644, O_WRONLY, true},
    {0, 0, 0644, O_RDONLY, false},         {0, 0, 0666, O_WRONLY, false},
    {0, kGroup, 0660, O_WRONLY, false},    {0, kUser + 1, 0660, O_WRONLY, true},
};

// An unlinked file gets its owner back, so the rights of its group do not count.
constexpr Case kUnlinked[] = {
    {kUser, kUser, 0600, O_RDWR, false},   {kUser, kGroup, 0600, O_RDWR, false},
    {kUser, kUser, 0444, O_RDONLY, false}, {kUser, kUser, 0444, O_WRONLY, true},
    {kUser, kUser, 0266, O_RDONLY, true},  {0, 0, 0666, O_RDONLY, true},
    {kUser, 0, 0600, O_RDWR, true},
};

}  // namespace

TEST_CASE("a file with a name is opened as the user" * doctest::skip(::geteuid() != 0)) {
  Program p;
  for (const Case &c : kNamed) {
    CAPTURE(c.uid);
    CAPTURE(c.mode);
    CAPTURE(c.flags);
    Program::own(p.path(), c.uid, c.gid, c.mode);
    p.criu.files[1].flags = c.flags;
    CHECK(p.refused() == c.refused);
    CHECK(p.reasons(0).empty());
  }
}

TEST_CASE("an unlinked file is made and opened as the user" * doctest::skip(::geteuid() != 0)) {
  Program p;
  for (const Case &c : kUnlinked) {
    CAPTURE(c.uid);
    CAPTURE(c.gid);
    CAPTURE(c.mode);
    p.ghost(c.uid, c.gid, c.mode);
    p.criu.files[1].flags = c.flags;
    CHECK(p.refused() == c.refused);
  }
  p.ghost(kUser, kUser, 0600);
  Program::own(p.folder, 0, 0, 0755);
  CHECK(p.refused());
}

TEST_CASE("a mapping needs what it was opened with" * doctest::skip(::geteuid() != 0)) {
  Program p;
  Program::own(p.path(), kUser, kUser, 0444);
  p.criu.processes[10].mappings = {{0x1000, 0x2000, 1, false, O_RDONLY}};
  CHECK(!p.refused());
  p.criu.processes[10].mappings.push_back({0x2000, 0x3000, 1, false, O_RDWR});
  CHECK(p.refused());
}

TEST_CASE("a folder that the user may not search hides the file" *
          doctest::skip(::geteuid() != 0)) {
  Program p;
  Program::own(p.path(), kUser, kUser, 0600);
  Program::own(p.folder, 0, 0, 0700);
  REQUIRE(p.reasons().size() == 1);
  CHECK(p.reasons()[0].find("may not search") != std::string::npos);
}

TEST_CASE("CRIU opens a FIFO for both" * doctest::skip(::geteuid() != 0)) {
  Program p;
  REQUIRE(::unlink(p.path().c_str()) == 0);
  REQUIRE(::mkfifo(p.path().c_str(), 0600) == 0);
  p.criu.files[1].flags = O_WRONLY;
  Program::own(p.path(), 0, 0, 0622);
  CHECK(p.refused());
  Program::own(p.path(), 0, 0, 0666);
  CHECK(!p.refused());
}

TEST_CASE("a file with another name is opened by that one" * doctest::skip(::geteuid() != 0)) {
  Program p;
  Program::own(p.path(), kUser, kUser, 0444);
  p.criu.files[2] = p.criu.files[1];  // the name, of which no rights are asked
  p.criu.files[1] = {.path = "/gone", .flags = O_RDWR, .link = 2};
  p.criu.files[2].flags = O_RDWR;
  CHECK(p.reasons().size() == 1);
  p.manifest.links = {{"/file", "/file.kept"}};
  REQUIRE(::rename(p.path().c_str(), (p.path() + ".kept").c_str()) == 0);
  CHECK(p.reasons().size() == 1);
  Program::own(p.path() + ".kept", kUser, kUser, 0600);
  CHECK(!p.refused());
}

TEST_CASE("a UNIX socket is bound in a folder of the user's" * doctest::skip(::geteuid() != 0)) {
  Program p;
  p.criu.files[1] = {.socket = "/socket"};
  CHECK(!p.refused());
  Program::own(p.folder, 0, 0, 0755);
  CHECK(p.refused());
}

TEST_CASE("what is missing, and files of processes, are no matter of rights" *
          doctest::skip(::geteuid() != 0)) {
  Program p;
  p.criu.files[1] = {.path = "/missing", .flags = O_RDWR};
  p.criu.files[2] = {.path = "/proc/1/mem", .flags = O_RDWR};
  p.criu.files[3] = {.path = "", .flags = O_RDWR};
  CHECK(!p.refused());
}

}  // namespace ckpt::test
