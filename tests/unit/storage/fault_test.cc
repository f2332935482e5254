// SPDX-License-Identifier: Apache-2.0
//
// Whatever fails, and wherever the writer is killed: the old image or the new one, never half.
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

bool holds(const std::string &path, const NamedBytes &streams) {
  auto image = ImageReader::open(path);
  if (!image || (*image)->streams().size() != streams.size()) return false;
  for (const auto &[name, bytes] : streams) {
    Result<Bytes> read = read_stream(**image, name);
    if (!read || *read != bytes) return false;
  }
  return true;
}

Result<> write_new(const std::string &path, FileSystem &fs, bool overwrite) {
  return write_image(path, kNew, {.threads = 2, .overwrite = overwrite, .file_system = &fs});
}

bool is_as_before(const std::string &path, bool overwrite) {
  return overwrite ? holds(path, kOld) : !std::filesystem::exists(path);
}

// Returns false once `call` is more than a writer makes.
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
  // Only where removing failed may something be left, and the next writer removes it.
  if (fs.struck() != "unlinkat") CHECK(tmp.names().size() == (r || overwrite ? 1 : 0));
  must(write_image(tmp / "image", kNew, {.overwrite = true}));
  CHECK(holds(tmp / "image", kNew));
  CHECK((tmp.names().size() == 1 || fs.struck() == "unlinkat"));
  return !fs.struck().empty();
}

TEST_CASE("every call of the writer to the file system fails once") {
  log::set_level(log::Level::Off);
  for (bool overwrite : {false, true})
    for (int error : {EIO, ENOSPC, EDQUOT, EROFS}) {
      int call = 0;
      while (try_fault(call, error, overwrite)) ++call;
      CHECK(call > 10);
    }
  log::set_level(log::Level::Warn);
}

TEST_CASE("short writes are finished") {
  TempFolder tmp;
  FaultyFileSystem fs(0, Fault::Short);
  must(write_new(tmp / "image", fs, false));
  CHECK(holds(tmp / "image", kNew));
}

// In a child, which is killed at its `call`-th call. Returns false once it made fewer.
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

TEST_CASE("kill -9 at every call: the old image or the new one; the next writer cleans up") {
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

TEST_CASE("an error sticks, and nothing hangs after it") {
  TempFolder tmp;
  FaultyFileSystem fs(3, Fault::Fail, EIO);  // the first chunk: mkdtemp, openat, header before it
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

// A tmpfs of its own, with `options`; false (and said) where that is not permitted.
bool mount_tmpfs(const TempFolder &tmp, const char *options, const std::string &what) {
  if (::mount("ckpt-test", tmp.path().c_str(), "tmpfs", 0, options) == 0) return true;
  std::string why =
      fmt::format("SKIPPED: {} (a tmpfs with {}: {})", what, options, std::strerror(errno));
  MESSAGE(why);
  return false;
}

TEST_CASE("a real file system that becomes read-only") {
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

TEST_CASE("a real disk that fills up") {
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

TEST_CASE("what a killed writer left is removed, and nothing that a link leads to") {
  TempFolder tmp;
  must(write_image(tmp / "other", kOld));
  std::filesystem::create_directory(tmp / "image.partial-abcdef");
  write_file(tmp / "image.partial-abcdef/chunks.ckpt", {});
  std::filesystem::create_directory_symlink("other", tmp / "image.partial-ghijkl");
  must(write_image(tmp / "image", kNew));
  CHECK_FALSE(std::filesystem::exists(tmp / "image.partial-abcdef"));
  CHECK(holds(tmp / "other", kOld));
  if (::geteuid() != 0) return;
  must(write_image(tmp / "image.partial-mnopqr", kOld));  // another user's
  REQUIRE(::chown((tmp / "image.partial-mnopqr").c_str(), 65534, 65534) == 0);
  must(write_image(tmp / "image", kNew, {.overwrite = true}));
  CHECK(holds(tmp / "image.partial-mnopqr", kOld));
}

TEST_CASE("what may be replaced, and what not") {
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
  CHECK(r.error().what.find("holds other files") != std::string::npos);
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

TEST_CASE("a writer that lives is not taken for a dead one") {
  TempFolder tmp;
  auto first = must(ImageWriter::create(tmp / "image", {}));
  auto second = must(ImageWriter::create(tmp / "image", {}));
  CHECK(tmp.names().size() == 2);
  must(first->finish({{"n", 1}}));
  CHECK_FALSE(second->finish({{"n", 2}}));  // it must not replace what it did not see
  second.reset();
  CHECK(must(ImageReader::open(tmp / "image"))->manifest()["n"] == 1);
  CHECK(tmp.names() == std::vector<std::string>{"image"});
}

}  // namespace
}  // namespace ckpt::test
