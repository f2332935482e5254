// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/supplied_files.h"

#include <sys/stat.h>

#include <filesystem>

#include "tests/unit/storage/support.h"
#include "tools/manifest/carried_files.h"

using namespace ckpt;
using namespace ckpt::test;
using namespace ckpt::tools;
namespace fs = std::filesystem;

namespace {

constexpr const char *kPath = "/usr/lib/own.so";

// An image with one carried file, which is missing here; and the folder of a session.
struct ImageWithFile {
  TempFolder folder;
  Bytes contents = random_bytes(5000, 1);
  std::unique_ptr<ImageReader> image;
  ImageManifest manifest;
  std::string session = folder / "session", outside = folder / "outside";

  ImageWithFile() {
    must(write_image(folder / "image", {{"carried-files/0", contents}}));
    image = must(ImageReader::open(folder / "image"));
    fs::create_directory(session);
    fs::create_directory(outside);
    ImageManifest::CarriedFile f;
    f.path = kPath;
    f.mode = 0751;
    f.stream = "carried-files/0";
    f.size = 9000;  // a hole at its end
    f.extents = {{0, contents.size()}};
    manifest.carried_files = {f};
    manifest.supplied = {f.path};
  }
  Result<> write() const { return SuppliedFiles().write(manifest, *image, session); }
};

}  // namespace

TEST_CASE("a supplied file has its contents, its size and its mode") {
  ImageWithFile made;
  must(made.write());
  std::string here = supplied_path(made.session, 0, kPath);
  Bytes whole = made.contents;
  whole.resize(9000);
  CHECK(read_file(here) == whole);
  struct stat st {};
  REQUIRE(::stat(here.c_str(), &st) == 0);
  CHECK((st.st_mode & 07777) == 0751);
}

TEST_CASE("no link in the session's folder leads a supplied file out of it") {
  for (const char *link : {"files", "files/0", "files/0/usr", "files/0/usr/lib"})
    for (bool absolute : {true, false}) {
      ImageWithFile made;
      fs::path name = fs::path(made.session) / link;
      fs::create_directories(name.parent_path());
      fs::path up = fs::path(made.outside).lexically_relative(name.parent_path());
      fs::create_directory_symlink(absolute ? fs::path(made.outside) : up, name);
      CHECK_FALSE(made.write());
      CHECK(fs::is_empty(made.outside));
    }
}

TEST_CASE("a supplied file never takes the place of another one, nor writes to what a link names") {
  ImageWithFile made;
  fs::path here = supplied_path(made.session, 0, kPath);
  fs::create_directories(here.parent_path());
  fs::create_symlink(made.outside + "/new", here);
  CHECK_FALSE(made.write());
  CHECK(fs::is_empty(made.outside));
  fs::remove(here);
  write_file(here, random_bytes(10, 2));
  CHECK_FALSE(made.write());
  CHECK(read_file(here) == random_bytes(10, 2));
}
