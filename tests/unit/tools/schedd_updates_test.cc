// SPDX-License-Identifier: Apache-2.0
//
// What scontrol prints is from 22.05.8 and 24.11.5, which print the same; the last test runs a
// scontrol that is a script.
#include "tools/schedd/updates.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace ckpt;
using namespace ckpt::tools;

namespace {

using Lines = std::vector<std::string>;

const Lines kCommands = {"update JobId=3 StartTime=now+5", "update JobId=999999 StartTime=now+5",
                         "update JobId=4 ReqNodeList=nix", "release 888888",
                         "update JobId=6 StartTime=now+5"};
constexpr std::string_view kOutput =
    "scontrol: update JobId=3 StartTime=now+5\n"
    "scontrol: update JobId=999999 StartTime=now+5\n"
    "Invalid job id specified for job 999999\n"
    "scontrol: update JobId=4 ReqNodeList=nix\n"
    "Invalid node name specified for job 4\n"
    "scontrol: release 888888\n"
    "Invalid job id specified for job 888888\n"
    "slurm_suspend error: Invalid job id specified\n"
    "scontrol: update JobId=6 StartTime=now+5\n"
    "scontrol: \n";

// Executes what it reads, or its arguments: any job that is named in $REFUSED is refused.
constexpr const char *kScontrol = R"(#!/bin/sh
do_it() {
  echo "$*" >>"$CALLS"
  for r in $REFUSED; do
    case " $* " in *"JobId=$r "*) echo "Access denied for job $r" >&2; code=1;; esac
  done
}
code=0
if [ $# -gt 0 ]; then echo alone >>"$CALLS"; do_it "$@"; exit $code; fi
while read -r line; do [ -n "$SILENT" ] || echo "scontrol: $line"; do_it $line; done
exit $code
)";

// A folder with this scontrol, first in PATH.
class FakeSlurm {
 public:
  explicit FakeSlurm(const char *refused) {
    char name[] = "/tmp/ckpt-updates-XXXXXX";
    folder_ = ::mkdtemp(name);
    std::ofstream(folder_ + "/scontrol") << kScontrol;
    std::filesystem::permissions(folder_ + "/scontrol", std::filesystem::perms::owner_all);
    ::setenv("PATH", (folder_ + ":" + path_).c_str(), 1);
    ::setenv("CALLS", (folder_ + "/calls").c_str(), 1);
    ::setenv("REFUSED", refused, 1);
  }
  ~FakeSlurm() {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("SILENT");
    std::filesystem::remove_all(folder_);
  }
  Lines calls() const {
    std::ifstream in(folder_ + "/calls");
    Lines all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }

 private:
  const std::string path_ = std::getenv("PATH");
  std::string folder_;
};

}  // namespace

TEST_CASE("what scontrol prints after a command belongs to that command") {
  std::optional<Lines> answers = answers_in(kOutput, kCommands, true);
  REQUIRE(answers);
  CHECK(*answers == Lines{"", "Invalid job id specified for job 999999",
                          "Invalid node name specified for job 4",
                          "Invalid job id specified for job 888888; slurm_suspend error: Invalid "
                          "job id specified",
                          ""});
  // An answer that looks like a command is none.
  answers =
      answers_in("scontrol: update JobId=1\nscontrol: update JobId=3\nscontrol: update JobId=2\n",
                 {"update JobId=1", "update JobId=2"}, true);
  REQUIRE(answers);
  CHECK(*answers == Lines{"scontrol: update JobId=3", ""});
}

TEST_CASE("commands that scontrol has not read have no answer") {
  const std::string_view cut = kOutput.substr(0, kOutput.find("scontrol: release"));
  CHECK_FALSE(answers_in(cut, kCommands, true));
  std::optional<Lines> answers = answers_in(cut, kCommands, false);
  REQUIRE(answers);
  CHECK((*answers)[0].empty());
  CHECK((*answers)[2] == "Invalid node name specified for job 4");
  CHECK((*answers)[3] == "Slurm did not answer in time");
  CHECK((*answers)[4] == "Slurm did not answer in time");
  // The one that was being executed, too.
  answers = answers_in("scontrol: update JobId=3 StartTime=now+5\n", kCommands, false);
  CHECK((*answers)[0] == "Slurm did not answer in time");
}

TEST_CASE("a job's refusal is its own, and the others are changed") {
  FakeSlurm slurm("7 9");
  Updates updates;
  for (u64 job = 5; job < 10; job++) updates.set(job, {"StartTime=now+120"});
  updates.release(6);
  updates.set(5, {"StartTime=now", "ReqNodeList=n1"});  // in place of the first
  std::map<u64, std::string> failures = updates.run();
  CHECK(failures ==
        std::map<u64, std::string>{{7, "Access denied for job 7"}, {9, "Access denied for job 9"}});
  CHECK(slurm.calls() ==
        Lines{"update JobId=5 StartTime=now ReqNodeList=n1", "update JobId=6 StartTime=now+120",
              "release 6", "update JobId=7 StartTime=now+120", "update JobId=8 StartTime=now+120",
              "update JobId=9 StartTime=now+120"});
  CHECK(updates.run().empty());
  CHECK(slurm.calls().size() == 6);
}

TEST_CASE("what scontrol could read in another way is given to it alone") {
  FakeSlurm slurm("");
  Updates updates;
  updates.set(1, {"Comment=ckpt [ckpt: exit code 85]"});
  updates.set(2, {"Comment=a\nupdate JobId=4 Priority=0"});
  updates.set(3, {"StartTime=now"});
  CHECK(updates.run().empty());
  CHECK(slurm.calls() == Lines{"alone", "update JobId=1 Comment=ckpt [ckpt: exit code 85]", "alone",
                               "update JobId=2 Comment=a", "update JobId=4 Priority=0", "alone",
                               "update JobId=3 StartTime=now"});
}

TEST_CASE("a scontrol that does not repeat its commands is asked again, one by one") {
  FakeSlurm slurm("2");
  ::setenv("SILENT", "1", 1);
  Updates updates;
  for (u64 job : {1, 2, 3}) updates.set(job, {"StartTime=now"});
  std::map<u64, std::string> failures = updates.run();
  REQUIRE(failures.size() == 1);
  CHECK(failures.contains(2));
  CHECK(slurm.calls().size() == 3 + 6);
}
