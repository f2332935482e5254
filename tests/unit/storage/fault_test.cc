// SPDX-License-Identifier: Apache-2.0
//
// Whatever call fails, and wherever the writer is killed, the path shows the old image or the new
// one, never a part of one.
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "tests/unit/storage/faulty_file_system.h"
#include "tests/unit/storage/support.h"

namespace ckpt::test {
namespace {

using Fault = FaultyFileSystem::Fault;

const NamedBytes kOld = {{"old", random_bytes(1000, 1)}};
const NamedBytes kNew = {{"new", smooth_bytes(3 * kChunkBytes + 5, 2)}, {"small", zeros(7)}};

Result<> write_new(const std::string &path, FileSystem &fs, bool overwrite) {
  return write_image(path, kNew, {.threads = 2, .overwrite = overwrite, .file_system = &fs});
}

bool is_as_before(const std::string &path, bool overwrite) {
  return overwrite ? holds(path, kOld) : !std::filesystem::exists(path);
}

// Returns false if the writer makes fewer than `call` calls.
bool try_fault(int call, int error, bool overwrite) {
  TempFolder tmp;
  if (overwrite) must(write_image(tmp / "image", kOld));
  FaultyFileSystem fs(call, Fault::Fail, error);
  Result<> r = write_new(tmp / "image", fs, overwrite);
  CAPTURE(call);
  CAPTURE(fs.struck());
  if (r) CHECK(holds(tmp / "image", kNew));
  if (!r) CHECK(is_as_before(tmp / "image", overwrite));
  if (!r) CHECK(r.error().what.find(std::strerror(error)) != std::string::npos);
  // Files may remain only if their removal failed, and the next writer removes them.
  if (fs.struck() != "unlinkat") CHECK(tmp.names().size() == (r || overwrite ? 1 : 0));
  must(write_image(tmp / "image", kNew, {.overwrite = true}));
  CHECK(holds(tmp / "image", kNew));
  CHECK((tmp.names().size() == 1 || fs.struck() == "unlinkat"));
  return !fs.struck().empty();
}

TEST_CASE("the writer survives the failure of each of its calls") {
  log::set_level(log::Level::Off);
  for (bool overwrite : {false, true})
    for (int error : {EIO, ENOSPC, EDQUOT, EROFS}) {
      int call = 0;
      while (try_fault(call, error, overwrite)) ++call;
      CHECK(call > 10);
    }
  log::set_level(log::Level::Warn);
}

TEST_CASE("short writes are completed") {
  TempFolder tmp;
  FaultyFileSystem fs(0, Fault::Short);
  must(write_new(tmp / "image", fs, false));
  CHECK(holds(tmp / "image", kNew));
}

// Writes in a child, which is killed at call number `call`. Returns false if it makes fewer calls.
bool killed_at(int call, const std::string &path, bool overwrite) {
  pid_t pid = ::fork();
  if (pid == 0) {
    FaultyFileSystem fs(call, Fault::Kill);
    ::_exit(write_new(path, fs, overwrite) ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  if (!WIFSIGNALED(status)) CHECK(WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

TEST_CASE(
    "after kill -9 at any call there is the old image or the new one, and the next writer cleans "
    "up") {
  for (bool overwrite : {false, true}) {
    bool killed = true;
    for (int call = 0; killed; ++call) {
      CAPTURE(call);
      TempFolder tmp;
      if (overwrite) must(write_image(tmp / "image", kOld));
      killed = killed_at(call, tmp / "image", overwrite);
      CHECK((is_as_before(tmp / "image", overwrite) || holds(tmp / "image", kNew)));
      must(write_image(tmp / "image", kNew, {.overwrite = true}));
      CHECK(holds(tmp / "image", kNew));
      CHECK(tmp.names() == std::vector<std::string>{"image"});
    }
  }
}

TEST_CASE("every call after an error returns it, and nothing hangs") {
  TempFolder tmp;
  FaultyFileSystem fs(3, Fault::Fail, EIO);  // the first chunk, after mkdtemp, openat and header
  auto writer =
      must(ImageWriter::create(tmp / "image", {.memory_bytes = kChunkBytes, .file_system = &fs}));
  StreamId a = must(writer->stream("a")), b = must(writer->stream("b"));
  Bytes bytes = random_bytes(kChunkBytes, 1);
  Result<> r;
  int done = 0, calls = 0;
  for (; calls < 1000 && r; ++calls)
    r = writer->put(a, static_cast<u64>(calls) * kChunkBytes, bytes, [&] { ++done; });
  REQUIRE_FALSE(r);
  CHECK(r.error().what.find("chunks.ckpt: Input/output error") != std::string::npos);
  CHECK(writer->append(b, bytes).error().what == r.error().what);
  CHECK(writer->stream("c").error().what == r.error().what);
  CHECK(writer->finish({{"a", 1}}).error().what == r.error().what);
  writer.reset();
  CHECK(done == calls);
  CHECK(tmp.names().empty());
}

// Mounts a tmpfs on the folder. Returns false, with a message, if that is not permitted.
bool mount_tmpfs(const TempFolder &tmp, const char *options, const std::string &what) {
  if (::mount("ckpt-test", tmp.path().c_str(), "tmpfs", 0, options) == 0) return true;
  std::string why =
      fmt::format("SKIPPED: {} (a tmpfs with {}: {})", what, options, std::strerror(errno));
  MESSAGE(why);
  return false;
}

TEST_CASE("the old image survives when the file system becomes read-only") {
  TempFolder tmp;
  if (!mount_tmpfs(tmp, "size=16m", "read-only")) return;
  {
    must(write_image(tmp / "image", kOld));
    REQUIRE(::mount(nullptr, tmp.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
    Result<> r = write_image(tmp / "image", kNew, {.overwrite = true});
    REQUIRE_FALSE(r);
    CHECK(r.error().what.find("Read-only file system") != std::string::npos);
    CHECK(holds(tmp / "image", kOld));
    CHECK_FALSE(write_image(tmp / "other", kNew));
  }
  CHECK(::umount(tmp.path().c_str()) == 0);
}

TEST_CASE("the old image survives when the disk fills up") {
  TempFolder tmp;
  if (!mount_tmpfs(tmp, "size=4m", "disk full")) return;
  {
    must(write_image(tmp / "image", kOld));
    Result<> r =
        write_image(tmp / "image", {{"a", random_bytes(8u << 20, 1)}}, {.overwrite = true});
    REQUIRE_FALSE(r);
    CHECK(r.error().what.find("No space left on device") != std::string::npos);
    CHECK(holds(tmp / "image", kOld));
    CHECK(tmp.names() == std::vector<std::string>{"image"});
  }
  CHECK(::umount(tmp.path().c_str()) == 0);
}

TEST_CASE("files of a killed writer are removed, but not those behind a link or of another user") {
  TempFolder tmp;
  must(write_image(tmp / "other", kOld));
  std::filesystem::create_directory(tmp / "image.partial-abcdef");
  write_file(tmp / "image.partial-abcdef/chunks.ckpt", {});
  std::filesystem::create_directory_symlink("other", tmp / "image.partial-ghijkl");
  must(write_image(tmp / "image", kNew));
  CHECK_FALSE(std::filesystem::exists(tmp / "image.partial-abcdef"));
  CHECK(holds(tmp / "other", kOld));
  if (::geteuid() != 0) return;
  must(write_image(tmp / "image.partial-mnopqr", kOld));  // belongs to another user
  REQUIRE(::chown((tmp / "image.partial-mnopqr").c_str(), 65534, 65534) == 0);
  must(write_image(tmp / "image", kNew, {.overwrite = true}));
  CHECK(holds(tmp / "image.partial-mnopqr", kOld));
}

TEST_CASE("only images and empty folders can be replaced") {
  TempFolder tmp;
  must(write_image(tmp / "image", kOld));
  CHECK_FALSE(write_image(tmp / "image", kNew));
  CHECK(holds(tmp / "image", kOld));
  must(write_image(tmp / "image/", kNew, {.overwrite = true}));
  CHECK(holds(tmp / "image", kNew));

  std::filesystem::create_directory(tmp / "home");
  must(write_image(tmp / "home/letters", kOld));
  Result<> r = write_image(tmp / "home", kNew, {.overwrite = true});
  REQUIRE_FALSE(r);
  CHECK(r.error().what.find("files that do not belong to an image") != std::string::npos);
  CHECK(holds(tmp / "home/letters", kOld));

  std::filesystem::create_directory(tmp / "empty");
  CHECK_FALSE(write_image(tmp / "empty", kNew));
  must(write_image(tmp / "empty", kNew, {.overwrite = true}));
  write_file(tmp / "file", {});
  CHECK_FALSE(write_image(tmp / "file", kNew, {.overwrite = true}));
  for (const std::string &bad : {tmp / ".", tmp / "..", std::string("/"), std::string()})
    CHECK_FALSE(write_image(bad, kNew, {.overwrite = true}));
  CHECK_FALSE(write_image(tmp / "absent/image", kNew));
  CHECK(tmp.names() == std::vector<std::string>{"empty", "file", "home", "image"});
}

TEST_CASE("the folder of a live writer is not removed") {
  TempFolder tmp;
  auto first = must(ImageWriter::create(tmp / "image", {}));
  auto second = must(ImageWriter::create(tmp / "image", {}));
  CHECK(tmp.names().size() == 2);
  must(first->finish({{"n", 1}}));
  CHECK_FALSE(second->finish({{"n", 2}}));  // it must not replace an image that appeared meanwhile
  second.reset();
  CHECK(must(ImageReader::open(tmp / "image"))->manifest()["n"] == 1);
  CHECK(tmp.names() == std::vector<std::string>{"image"});
}

}  // namespace
}  // namespace ckpt::test
