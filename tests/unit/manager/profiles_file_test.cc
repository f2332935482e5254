// SPDX-License-Identifier: Apache-2.0
//
// The file of profiles.
#include "manager/daemon/report/profiles_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "common/base/log.h"

using namespace ckpt;
using namespace ckpt::manager;

namespace {

class ProfilesFolder {
 public:
  ProfilesFolder() {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
    log::set_level(log::Level::Error);
  }
  ~ProfilesFolder() {
    log::set_level(log::Level::Warn);
    std::filesystem::remove_all(path_);
  }
  std::string file() const { return path_ + "/profiles.json"; }
  void put(const std::string &text) const { std::ofstream(file()) << text; }
  size_t profiles() const {
    Result<std::vector<ProfileFacts>> r = read_profiles(file());
    return r ? r->size() : ~size_t{0};
  }
  std::string why_not() const {
    Result<std::vector<ProfileFacts>> r = read_profiles(file());
    return r ? "" : r.error().what;
  }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "profiles-XXXXXX";
};

const std::string kOne =
    R"({"hash": 7, "name": "a", "calls": 1, "peak_bytes": 2, "copied_bytes": 3, "observed_seconds": 4})";

std::string with(const std::string &profile) {
  return R"({"version": 2, "profiles": [)" + profile + "]}";
}

std::string changed(const std::string &from, const std::string &to) {
  std::string profile = kOne;
  size_t at = profile.find(from);
  REQUIRE(at != std::string::npos);
  return with(profile.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("profiles are read as they were written") {
  ProfilesFolder folder;
  Result<std::vector<ProfileFacts>> none = read_profiles(folder.file());
  REQUIRE(none);
  CHECK(none->empty());
  std::vector<ProfileFacts> all{{~u64{0}, "no text \xff", 5, u64{1} << 40, 1.5e12, 0.25},
                                {1, "", 0, 0, 0, 0}};
  REQUIRE(write_profiles(folder.file(), all));
  Result<std::vector<ProfileFacts>> again = read_profiles(folder.file());
  REQUIRE(again);
  REQUIRE(again->size() == 2);
  CHECK((*again)[0].hash == ~u64{0});
  CHECK((*again)[0].name.starts_with("no text "));
  CHECK((*again)[0].calls == 5);
  CHECK((*again)[0].peak == u64{1} << 40);
  CHECK((*again)[0].copied == 1.5e12);
  CHECK((*again)[0].observed == 0.25);
  CHECK_FALSE(write_profiles(folder.file() + "/no/folder", all));
}

TEST_CASE("a malformed file of profiles is refused with a reason") {
  ProfilesFolder folder;
  folder.put(with(kOne));
  CHECK(folder.why_not() == "");
  for (const char *text :
       {"", "[]", "{", "{}", R"({"version": 2})", R"({"version": 1, "profiles": []})",
        R"({"version": 2, "profiles": {}})"}) {
    folder.put(text);
    CHECK(folder.why_not().ends_with("is not a file of profiles of this version of ckptd"));
  }
  for (auto [from, to] :
       std::initializer_list<std::pair<const char *, const char *>>{{"7", "0"},
                                                                    {"7", "-1"},
                                                                    {"7", "\"7\""},
                                                                    {"\"a\"", "1"},
                                                                    {"4", "1e30"},
                                                                    {"3", "-3"},
                                                                    {"peak", "top"}}) {
    folder.put(changed(from, to));
    CHECK(folder.profiles() == 0);
  }
  folder.put(with(kOne + ", 5"));
  CHECK(folder.profiles() == 1);
  folder.put(std::string((1 << 20) + 1, ' '));
  CHECK(folder.why_not().ends_with("is larger than 1 MiB"));
}

TEST_CASE("changed profiles are written after a while, and at the end") {
  ProfilesFolder folder;
  ProfilesFile file(folder.file());
  REQUIRE(file.load(Time{0}));
  CHECK(folder.profiles() == 0);
  WorkloadProfiles profiles;
  ProfileIndex a = profiles.find(Time{0}, 7, "a").index;
  CHECK(file.timeout(profiles, Time{0}) == -1);
  profiles.ended(a, 5, 6);
  CHECK(file.timeout(profiles, std::chrono::minutes(4)) == 6 * 60'000);
  CHECK(file.timeout(profiles, std::chrono::minutes(11)) == 0);
  file.save(profiles, std::chrono::minutes(11));
  CHECK(folder.profiles() == 1);
  CHECK(file.timeout(profiles, std::chrono::minutes(11)) == -1);
  // A failed write is tried again.
  profiles.ended(a, 5, 7);
  std::filesystem::create_directory(folder.file() + ".new");
  file.save(profiles, std::chrono::minutes(12));
  CHECK(file.timeout(profiles, std::chrono::minutes(12)) == 10 * 60'000);
  std::filesystem::remove(folder.file() + ".new");
  file.save(profiles, std::chrono::minutes(13));
  REQUIRE(read_profiles(folder.file()));
  CHECK((*read_profiles(folder.file()))[0].peak == 7);
  CHECK_FALSE(ProfilesFile(folder.file() + "/no/folder").load(Time{0}));
  ProfilesFile nowhere("");
  REQUIRE(nowhere.load(Time{0}));
  CHECK(nowhere.timeout(profiles, Time{0}) == -1);
}
