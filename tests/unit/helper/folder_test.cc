// SPDX-License-Identifier: Apache-2.0
//
// What a helper's folder has while requests are served, and what killed workers leave there.
#include "helper/folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/proc/stat.h"
#include "common/proc/status.h"
#include "helper/made_namespaces.h"
#include "helper/streams.h"

using namespace ckpt;
using namespace ckpt::helper;
namespace fs = std::filesystem;

namespace {

struct Folder {
  std::string path = "/tmp/ckpt-helper-test-XXXXXX";
  Folder() { (void)!::mkdtemp(path.data()); }
  ~Folder() { fs::remove_all(path); }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path), {}));
  }
};

// A child that has done `act` and was killed.
template <class Act>
void in_killed_child(Act act) {
  pid_t child = ::fork();
  if (child == 0) {
    act();
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
}

u64 own(const char *name) { return proc::namespace_inode(::getpid(), name); }

}  // namespace

TEST_CASE("a folder of streams is removed after its process was killed, and not before") {
  Folder folder;
  std::optional<StreamFolder> live =
      StreamFolder::create(folder.path, StreamFolder::For::Dump).value();
  in_killed_child([&] {
    for (auto purpose : {StreamFolder::For::Dump, StreamFolder::For::Restore})
      if (auto made = StreamFolder::create(folder.path, purpose))
        new StreamFolder(std::move(*made));
  });
  REQUIRE(folder.entries() == 3);
  remove_leftovers(folder.path);
  CHECK(folder.entries() == 1);
  CHECK(fs::exists(live->path()));
  live.reset();
  CHECK(folder.entries() == 0);
}

TEST_CASE("a folder that is just being made is not removed") {
  Folder folder;
  fs::create_directory(folder.path + "/criu-abcdef");
  fs::permissions(folder.path + "/criu-abcdef", fs::perms::owner_all);
  remove_leftovers(folder.path);
  CHECK(folder.entries() == 1);
}

TEST_CASE("a namespace is known as made while its first process lives") {
  Folder folder;
  std::optional<MadeNamespace> made = MadeNamespace::remember(folder.path, ::getpid()).value();
  CHECK(is_made_namespace(folder.path, own("pid"), own("mnt")));
  CHECK(!is_made_namespace(folder.path, own("pid"), own("mnt") + 1));
  remove_leftovers(folder.path);
  CHECK(folder.entries() == 1);
  made.reset();
  CHECK(!is_made_namespace(folder.path, own("pid"), own("mnt")));
}

TEST_CASE("the mark of a namespace that has ended vouches for no other with the same numbers") {
  Folder folder;
  std::string mark = fmt::format("{}/namespace-{}-{}", folder.path, own("pid"), own("mnt"));
  u64 started = proc::start_ticks_of(::getpid()).value();
  const std::string kTexts[]{"", "1", "999999999 1\n",
                             fmt::format("{} {}\n", ::getpid(), started + 1)};
  for (const std::string &text : kTexts) {
    std::ofstream(mark) << text;
    CHECK_MESSAGE(!is_made_namespace(folder.path, own("pid"), own("mnt")), text);
    remove_leftovers(folder.path);
    CHECK(folder.entries() == 0);
  }
}

TEST_CASE("what is not a helper's stays in its folder") {
  Folder folder;
  for (const char *name : {"lock", "criu", "other-namespace-1-2"})
    std::ofstream(folder.path + "/" + name);
  remove_leftovers(folder.path);
  CHECK(folder.entries() == 3);
}
