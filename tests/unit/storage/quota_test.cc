// SPDX-License-Identifier: Apache-2.0
//
// When the quota of a real file system is reached, the old image remains intact. tmpfs supports
// quotas only if the kernel was built with them; otherwise the test uses btrfs in a file, where a
// subvolume has a limit that applies to all users.
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

constexpr uid_t kUser = 65534;  // quotas do not apply to root

bool succeeds(const std::string &command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// A folder with a limit of 4 MiB.
class LimitedFolder {
 public:
  LimitedFolder() {
    mounted_ = mount_tmpfs() || mount_btrfs();
    if (mounted_) REQUIRE(::chmod(path().c_str(), 0777) == 0);
  }
  LimitedFolder(const LimitedFolder &) = delete;
  LimitedFolder &operator=(const LimitedFolder &) = delete;
  ~LimitedFolder() {
    if (mounted_) CHECK(::umount2(root().c_str(), 0) == 0);
  }
  // Why the folder could not be created, or "".
  const std::string &missing() const { return missing_; }
  std::string path() const { return is_tmpfs_ ? root() : root() + "/limited"; }

 private:
  std::string root() const { return tmp_ / "disk"; }

  bool mount_tmpfs() {
    std::filesystem::create_directory(root());
    ::chmod(tmp_.path().c_str(), 0755);
    constexpr const char *kOptions = "size=64m,usrquota,usrquota_block_hardlimit=4m";
    is_tmpfs_ = ::mount("ckpt-test", root().c_str(), "tmpfs", 0, kOptions) == 0;
    if (!is_tmpfs_) missing_ = fmt::format("a tmpfs with usrquota: {}", std::strerror(errno));
    return is_tmpfs_;
  }

  bool mount_btrfs() {
    std::string disk = tmp_ / "disk.img";
    write_file(disk, {});
    std::filesystem::resize_file(disk, 160u << 20);
    for (const std::string &command :
         {"mkfs.btrfs -q -M " + disk, "mount -o loop " + disk + " " + root()})
      if (!succeeds(command)) return note_missing(command);
    for (const std::string &command :
         {"btrfs quota enable " + root(), "btrfs subvolume create " + path(),
          "btrfs qgroup limit 4M " + path()}) {
      if (succeeds(command)) continue;
      ::umount2(root().c_str(), 0);
      return note_missing(command);
    }
    missing_.clear();
    return true;
  }

  bool note_missing(const std::string &command) {
    missing_ += "; failed: " + command;
    return false;
  }

  TempFolder tmp_;
  bool is_tmpfs_ = false, mounted_ = false;
  std::string missing_;
};

enum class Outcome { Written, OverQuota, Failed };

Outcome write_as(uid_t user, const std::string &path, const NamedBytes &streams) {
  pid_t pid = ::fork();
  if (pid == 0) {
    if (::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(1);
    Result<> r = write_image(path, streams, {.overwrite = true});
    if (r) ::_exit(0);
    ::_exit(r.error().what.find("Disk quota exceeded") != std::string::npos ? 42 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!WIFEXITED(status)) return Outcome::Failed;
  if (WEXITSTATUS(status) == 0) return Outcome::Written;
  return WEXITSTATUS(status) == 42 ? Outcome::OverQuota : Outcome::Failed;
}

std::vector<std::string> names_in(const std::string &folder) {
  std::vector<std::string> out;
  for (const auto &e : std::filesystem::directory_iterator(folder))
    out.push_back(e.path().filename());
  return out;
}

TEST_CASE("the old image survives when a quota is reached") {
  LimitedFolder folder;
  if (!folder.missing().empty()) {
    std::string why = "SKIPPED: quota (" + folder.missing() + ")";
    MESSAGE(why);
    return;
  }
  const std::string image = folder.path() + "/image";
  const NamedBytes old = {{"old", random_bytes(1000, 1)}};
  REQUIRE(write_as(kUser, image, old) == Outcome::Written);
  CHECK(write_as(kUser, image, {{"a", random_bytes(8u << 20, 1)}}) == Outcome::OverQuota);
  check_holds(image, old);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"image"});
}

}  // namespace
}  // namespace ckpt::test
