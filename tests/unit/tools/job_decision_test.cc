// SPDX-License-Identifier: Apache-2.0
#include "tools/job/decision.h"

#include <stdlib.h>

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "tools/job/ends.h"
#include "tools/job/job_folder.h"

using namespace ckpt;
using namespace ckpt::tools;

namespace {

struct Folder {
  std::string path = "/tmp/ckpt-job-XXXXXX";
  Folder() { REQUIRE(::mkdtemp(path.data())); }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("of many proposals at once one holds, and all read it") {
  Folder folder;
  for (int round = 0; round < 50; round++) {
    std::string path = fmt::format("{}/{}", folder.path, round);
    std::atomic<int> complete = 0;
    std::vector<std::thread> all;
    constexpr int kProcesses = 8;
    for (int i = 0; i < kProcesses; i++)
      all.emplace_back([&, i] {
        nlohmann::json mine = i % 2 ? abandoned("x") : nlohmann::json{{"result", "complete"}};
        Result<nlohmann::json> holds = decide(path, mine);
        if (holds && is_complete(*holds)) complete++;
      });
    for (std::thread &t : all) t.join();
    CHECK((complete == 0 || complete == kProcesses));
  }
}

TEST_CASE("a malformed decision is an error, and a missing file is no decision") {
  Folder folder;
  std::string path = folder.path + "/decision";
  CHECK(read_decision(path)->is_null());
  std::ofstream(path) << "[[[[[[[[[[[[[[[[";
  CHECK_FALSE(read_decision(path));
  std::ofstream(path) << "[]";
  CHECK_FALSE(read_decision(path));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/etc/passwd", path);
  CHECK_FALSE(read_decision(path));
}

TEST_CASE("only complete checkpoints count, and a new one removes those that are undecided") {
  Folder parent;
  Result<JobFolder> job = JobFolder::create(parent.path + "/job");
  REQUIRE(job);
  REQUIRE(job->begin_checkpoint() == 1u);
  REQUIRE(decide(job->decision(1), {{"result", "complete"}}));
  REQUIRE(job->begin_checkpoint() == 2u);
  CHECK(job->complete() == std::vector<unsigned>{1});
  REQUIRE(job->begin_checkpoint() == 3u);
  CHECK_FALSE(std::filesystem::exists(job->checkpoint(2)));
  // A process that still waits for its decision learns that there is none.
  CHECK_FALSE(decide(job->decision(2), {{"result", "complete"}}));
}

TEST_CASE("a folder with other contents is no job's, and what is not of the job stays in one") {
  Folder parent;
  std::string folder = parent.path + "/job", year = folder + "/2024";
  std::filesystem::create_directories(year);
  std::ofstream(year + "/precious") << "x";
  CHECK_FALSE(JobFolder::create(folder));
  CHECK_FALSE(std::filesystem::exists(folder + "/key"));
  std::filesystem::rename(year, parent.path + "/2024");
  Result<JobFolder> job = JobFolder::create(folder);
  REQUIRE(job);
  std::filesystem::rename(parent.path + "/2024", year);
  std::filesystem::create_directories(folder + "/notes.removed");
  std::filesystem::create_directories(folder + "/7");
  REQUIRE(JobFolder::create(folder));
  REQUIRE(job->begin_checkpoint() == 2025u);
  REQUIRE(job->begin_checkpoint() == 2026u);
  CHECK_FALSE(std::filesystem::exists(job->checkpoint(2025)));
  CHECK(std::filesystem::exists(year + "/precious"));
  CHECK_FALSE(std::filesystem::exists(year + "/decision"));
  CHECK(std::filesystem::exists(folder + "/notes.removed"));
  CHECK(std::filesystem::exists(folder + "/7"));
}

TEST_CASE("a checkpoint that cannot be read is not passed over for an older one") {
  Folder parent;
  Result<JobFolder> job = JobFolder::create(parent.path + "/job");
  REQUIRE(job);
  REQUIRE(job->begin_checkpoint() == 1u);
  REQUIRE(decide(job->decision(1), {{"result", "complete"}, {"members", {"a"}}}));
  REQUIRE(job->begin_checkpoint() == 2u);
  CHECK(job->check_readable());
  Result<JobStart> start = how_to_start(*job, "a");
  REQUIRE(start);
  CHECK((*start == JobStart::Restore));
  std::ofstream(job->decision(2)) << "x";
  CHECK_FALSE(job->check_readable());
  CHECK_FALSE(how_to_start(*job, "a"));
}

TEST_CASE("one coordinator has the lock, and only a second one finds it taken") {
  Folder parent;
  Result<JobFolder> job = JobFolder::create(parent.path + "/job");
  REQUIRE(job);
  {
    Result<std::optional<UniqueFd>> first = job->lock(), second = job->lock();
    REQUIRE(first);
    CHECK(first->has_value());
    REQUIRE(second);
    CHECK_FALSE(second->has_value());
  }
  std::filesystem::remove(parent.path + "/job/lock");
  std::filesystem::create_directory(parent.path + "/job/lock");
  CHECK_FALSE(job->lock());
}

TEST_CASE("a name belongs to one living member, and its file can be replaced") {
  Folder parent;
  Result<JobFolder> job = JobFolder::create(parent.path + "/job");
  REQUIRE(job);
  MemberAddress here{{"10.0.0.1"}, 80, 5};
  {
    Result<Registration> first = Registration::make(*job, "a", here);
    REQUIRE(first);
    CHECK_FALSE(Registration::make(*job, "a", here));
    here.restoring = 0;
    REQUIRE(first->change(here));
    CHECK_FALSE(Registration::make(*job, "a", here));
    MemberAddress read = (*job->members())["a"];
    CHECK(read.restoring == 0);
    CHECK(read.lives);
    CHECK(read.port == 80);
  }
  CHECK(job->members()->empty());
  std::ofstream(job->member_file("a")) << R"({"addresses": [], "port": 80, "restoring": 0})";
  CHECK_FALSE((*job->members())["a"].lives);
  CHECK(Registration::make(*job, "a", here));
  std::ofstream(job->member_file("b")) << R"({"addresses": 7, "port": 80, "restoring": 0})";
  CHECK_FALSE(job->members());
}
