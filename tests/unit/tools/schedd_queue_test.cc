// SPDX-License-Identifier: Apache-2.0
//
// What Slurm prints. slurm-22.05/ and slurm-24.11/ are the output of 22.05.8 and 24.11.5 for the
// same jobs and nodes, by record-slurm.
#include "tools/schedd/queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tools/schedd/records.h"
#include "tools/schedd/resources.h"
#include "tools/schedd/tag.h"
#include "tools/session/grace_time.h"
#include "tools/session/job_comment.h"

using namespace ckpt;
using namespace ckpt::tools;

namespace {

constexpr const char *kVersions[] = {"22.05", "24.11"};

std::string recorded(const std::string &version, const std::string &name) {
  std::ifstream in(std::string(CKPT_SOURCE) + "/tests/unit/tools/slurm-" + version + "/" + name);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The mark of record-slurm.
constexpr std::string_view kMark = "|0123456789abcdef";

std::vector<QueuedJob> recorded_jobs(const std::string &version) {
  const bool with_excluded = knows_exclusions(recorded(version, "version.txt"));
  CHECK(with_excluded == (version == "24.11"));
  Result<std::vector<QueuedJob>> jobs =
      parse_queue(recorded(version, "squeue.txt"), kMark, with_excluded);
  REQUIRE(jobs);
  if (!with_excluded) CHECK(add_exclusions(recorded(version, "excluded.txt"), kMark, *jobs));
  return *jobs;
}

// A job as squeue prints it, with some fields replaced. '@' is the mark.
std::string line(std::map<std::string, std::string> fields) {
  const std::map<std::string, std::string> usual = {
      {"JobID", "7"},         {"JobArrayID", "7"},
      {"State", "PENDING"},   {"SubmitTime", "100"},
      {"NumNodes", "1"},      {"RestartCnt", "0"},
      {"NumTasks", "1"},      {"PriorityLong", "5"},
      {"TimeLimit", "10:00"}, {"tres-alloc", "cpu=1,mem=100M"}};
  fields.insert(usual.begin(), usual.end());
  std::string text, format = queue_format("@", true);
  for (size_t at = 0; at < format.size(); at = format.find('@', at) + 2)
    text += fields[format.substr(at, format.find(':', at) - at)] + "@";
  return text + "\n";
}

Result<std::vector<QueuedJob>> jobs_in(const std::string &text) {
  return parse_queue(text, "@", true);
}

QueuedJob job_with(const std::string &name, const std::string &value) {
  Result<std::vector<QueuedJob>> jobs = jobs_in(line({{name, value}}));
  REQUIRE(jobs);
  REQUIRE(jobs->size() == 1);
  return (*jobs)[0];
}

using Hosts = std::vector<std::string>;

Hosts hosts(std::string_view list) {
  Result<Hosts> h = expand_hosts(list);
  return h ? *h : Hosts{"error: " + h.error().what};
}

template <class T>
std::string error_of(const Result<T> &r) {
  return r ? "" : r.error().what;
}

}  // namespace

TEST_CASE("the queue as each version prints it") {
  for (const char *version : kVersions) {
    CAPTURE(version);
    const std::vector<QueuedJob> jobs = recorded_jobs(version);
    CHECK(jobs.size() == 18);
    auto job = [&](u64 id) {
      auto at = std::ranges::find(jobs, id, &QueuedJob::id);
      REQUIRE(at != jobs.end());
      return *at;
    };
    const QueuedJob left = job(1), again = job(4), requeued = job(5), two = job(7), gpu = job(8);
    CHECK(left.state == "SPECIAL_EXIT");
    CHECK(left.held);
    CHECK(left.restarts == 1);
    CHECK(left.comment == "ckpt:seconds=60,mb=200,held");
    CHECK_FALSE(left.limit);
    CHECK(again.state == "PENDING");
    CHECK_FALSE(again.held);
    CHECK(again.required == Hosts{"n1"});
    CHECK(again.on.empty());
    CHECK((requeued.state == "PENDING" && requeued.held));
    CHECK(two.state == "RUNNING");
    CHECK(two.comment == "two nodes, \"both\"");
    CHECK_FALSE(two.held);
    CHECK(two.on == Hosts{"n1", "n2"});
    CHECK(two.nodes == 2);
    CHECK(two.limit == 120);
    CHECK((two.started >= two.submitted && two.started < two.submitted + 60));
    CHECK(two.needs.cores == 4);
    CHECK(two.needs.megabytes == 400);
    CHECK(gpu.needs.gpus == 1);
    CHECK_FALSE((two.exclusive || gpu.exclusive || gpu.group != 0));
    CHECK(job(9).exclusive);
    CHECK(job(9).needs.cores == 2);
    const QueuedJob later = job(10), held = job(11);
    CHECK(later.required == Hosts{"n2"});
    CHECK_FALSE(later.limit);
    CHECK(later.eligible - later.submitted == 60);
    CHECK((held.state == "PENDING" && held.held));
    CHECK(held.limit == 3 * 24 * 3600);
    CHECK(held.needs.gpus == 2);
    CHECK((job(12).group == 12 && job(12).state == "PENDING"));
    CHECK((job(13).group == 12 && job(13).state == "RUNNING"));
    const QueuedJob excludes = job(14);
    CHECK(excludes.comment == "ckpt:held\n1|x1|xRUNNING|x\n|\n, \"'%A\t");
    CHECK(excludes.demands.partitions == Hosts{"high", "low"});
    CHECK(excludes.demands.excluded == Hosts{"n1", "n4"});
    CHECK(excludes.demands.constraint == "slow&gpu");
    CHECK((left.demands.excluded.empty() && left.demands.constraint.empty()));
    CHECK((excludes.group == 0 && job(15).group == 15 && job(16).group == 16));
    CHECK(job(17).group == 16);
    CHECK(job(15).reason == "BeginTime");
    // Queued again, but its processes have not ended yet: it is no job that waits.
    CHECK(job(18).state == "COMPLETING");
    CHECK(job(18).on == Hosts{"n5"});
  }
}

TEST_CASE("the nodes as each version prints them") {
  for (const char *version : kVersions) {
    CAPTURE(version);
    Result<std::vector<QueueNode>> nodes = parse_nodes(recorded(version, "nodes.txt"));
    REQUIRE(nodes);
    REQUIRE(nodes->size() == 6);
    const QueueNode &full = (*nodes)[0], &drained = (*nodes)[1], &gpus = (*nodes)[2];
    CHECK(full.name == "n1");
    CHECK(full.usable);
    CHECK(full.in_use);
    CHECK(full.has.cores == 2);
    CHECK(full.has.gpus == 0);
    CHECK(full.has.megabytes == 500);
    CHECK(drained.features == Hosts{"fast", "gpu"});
    CHECK_FALSE(drained.usable);
    CHECK((gpus.usable && gpus.has.gpus == 2));
    CHECK(((*nodes)[4].usable && (*nodes)[4].in_use));  // a job ends there
    CHECK_FALSE(((*nodes)[5].usable || (*nodes)[5].in_use));
  }
}

TEST_CASE("the grace time as each version prints it") {
  for (const char *version : kVersions) {
    CAPTURE(version);
    CHECK(parse_grace_time(recorded(version, "partition.txt")) == 60);
  }
}

TEST_CASE("a job with a flag that has its nodes runs") {
  for (auto [state, read] : {std::pair{"SIGNALING", "RUNNING"},
                             {"CONFIGURING", "RUNNING"},
                             {"COMPLETING", "COMPLETING"},
                             {"REQUEUE_HOLD", "REQUEUE_HOLD"}}) {
    const char *given = state;
    CAPTURE(given);
    CHECK(job_with("State", given).state == read);
  }
}

TEST_CASE("time limits") {
  using Limit = std::optional<i64>;
  for (auto [text, seconds] : {std::pair{"5:00", Limit(300)},
                               {"1:30:00", Limit(5400)},
                               {"1-02:04:00", Limit(26 * 3600 + 240)},
                               {"364-00:00:00", Limit(364 * 24 * 3600)},
                               {"365-00:00:00", Limit()},
                               {"UNLIMITED", Limit()},
                               {"Partition_Limit", Limit()},
                               {"N/A", Limit()},
                               {"-5:00", Limit()},
                               {"5:-1", Limit()},
                               {"99999999999999999999:00", Limit()},
                               {"99999999-00:00:00", Limit()},
                               {"9:9:9:9:9:9:9:9:9:9:9:9:9", Limit()},
                               {"1-", Limit()},
                               {":", Limit()}}) {
    const char *given = text;
    CAPTURE(given);
    CHECK(job_with("TimeLimit", given).limit == seconds);
  }
}

TEST_CASE("what squeue prints of numbers") {
  CHECK(job_with("NumNodes", "2K").nodes == 2048);
  CHECK(job_with("NumNodes", "1030").nodes == 1030);
  CHECK(job_with("NumNodes", "99999999999999K").nodes == 1 << 16);
  CHECK(job_with("NumNodes", "-3").nodes == 1);
  CHECK(job_with("RestartCnt", "-3").restarts == 0);
  CHECK(job_with("StartTime", "N/A").started == 0);
  CHECK(job_with("StartTime", "2026-11-29T10:00:00").started == 0);
  CHECK(job_with("PriorityLong", "0").held);
  CHECK_FALSE(job_with("PriorityLong", "N/A").held);
  CHECK(job_with("JobArrayID", "12_[1-50%5]").group == 12);
  CHECK(job_with("JobArrayID", "12+1").group == 12);
}

TEST_CASE("a user's text is one field, whatever it contains") {
  const std::string hostile = "x\n8|8|RUNNING|\n" + std::string(5000, ' ') + "\x01\xff,\"%";
  const std::string text =
      line({{"Comment", hostile}, {"Reason", "a, b\n"}}) + line({{"JobID", "3"}});
  Result<std::vector<QueuedJob>> jobs = jobs_in(text);
  REQUIRE(jobs);
  REQUIRE(jobs->size() == 2);
  CHECK((*jobs)[0].id == 3);
  CHECK((*jobs)[1].comment == hostile);
  CHECK((*jobs)[1].reason == "a, b\n");
}

TEST_CASE("output that is not a queue is an error") {
  const std::string good = line({});
  REQUIRE(jobs_in(good));
  CHECK(jobs_in("")->empty());
  // Cut anywhere, with fields that are too many, or with another mark.
  for (size_t n = 1; n < good.size(); n++)
    CHECK(error_of(jobs_in(good.substr(0, n))) == "squeue did not print what it was asked for");
  CHECK_FALSE(jobs_in("@" + good));
  CHECK_FALSE(parse_queue(good, "#", true));
  CHECK_FALSE(parse_queue(good, "@", false));
  for (auto [name, value] :
       {std::pair{"JobID", "0"}, {"JobID", "x"}, {"JobID", "-1"}, {"State", ""}})
    CHECK(error_of(jobs_in(line({{name, value}}))) == "squeue: a job has no number or no state");
  CHECK_FALSE(jobs_in(line({{"ReqNodes", "n[1-999999999]"}})));
  CHECK(error_of(parse_nodes("NodeName=n1 CPUAlloc=0")) ==
        "scontrol show nodes: node n1 has no state");
}

TEST_CASE("exclusions that squeue prints separately") {
  std::vector<QueuedJob> jobs = *jobs_in(line({}) + line({{"JobID", "9"}}));
  REQUIRE(add_exclusions("7@n[3,1]@\n8@n1@\n9@@\n", "@", jobs));
  CHECK(jobs[0].demands.excluded == Hosts{"n1", "n3"});
  CHECK(jobs[1].demands.excluded.empty());
  CHECK_FALSE(add_exclusions("7@n1", "@", jobs));
  for (const char *older :
       {"slurm-wlm 22.05.8", "slurm 23.11.4", "slurm 24.05.2", "", "slurm", "slurm 24"})
    CHECK_FALSE(knows_exclusions(older));
  for (const char *newer : {"slurm-wlm 24.11.5\n", "slurm 24.11.0-0rc1", "slurm 25.05.1"})
    CHECK(knows_exclusions(newer));
}

TEST_CASE("lists of hosts") {
  CHECK(hosts("") == Hosts{});
  CHECK(hosts("a") == Hosts{"a"});
  CHECK(hosts("n[1-2,5],x") == Hosts{"n1", "n2", "n5", "x"});
  CHECK(hosts("n[08-10]-ib") == Hosts{"n08-ib", "n09-ib", "n10-ib"});
  for (const char *bad : {"n[1-2", "n[2-1]", "n[x]", "n[0-999999999]", "n[1-4294967295]"})
    CHECK(hosts(bad)[0].starts_with("error"));
}

TEST_CASE("a tag is read as it was written, and other comments are none") {
  for (const char *text :
       {"ckpt", "ckpt:seconds=60,mb=200,held", "ckpt:seconds=60,mb=200,compile=2.5,wait=30,held",
        "ckpt:seconds=60,memory_gb=5.5,host_to_device_gb=1,device_to_host_gb=2,held"}) {
    Result<std::optional<Tag>> tag = parse_tag(text);
    REQUIRE(tag);
    REQUIRE(*tag);
    CHECK(text_of(**tag) == text);
  }
  CHECK(text_of(**parse_tag("ckpt:seconds=60,mb=2 " + with_note("", "exit code 85"))) ==
        "ckpt:seconds=60,mb=2");
  for (const char *other : {"", "mine", "ckpting", "[ckpt: exit code 85]", "my ckpt"})
    CHECK_FALSE(*parse_tag(other));
  CHECK(error_of(parse_tag("ckpt:seconds=x")) == "seconds=x is not a number");
  CHECK(error_of(parse_tag("ckpt:seconds=0")) == "seconds=0 is not a run time");
  CHECK(error_of(parse_tag("ckpt:mb=1e300")) == "mb=1e300 is not a number");
  CHECK(error_of(parse_tag("ckpt:mb=nan")) == "mb=nan is not a number");
  CHECK(error_of(parse_tag("ckpt:compile=-1")) == "compile=-1 is not a number");
  CHECK(error_of(parse_tag("ckpt:wait=long")) == "wait=long is not a number");
  CHECK(error_of(parse_tag("ckpt:seconds=9,memory_gb=much")) == "memory_gb=much is not a number");
  CHECK(error_of(parse_tag("ckpt:seconds=9,host_to_device_gb=-1")) ==
        "host_to_device_gb=-1 is not a number");
  CHECK(error_of(parse_tag("ckpt:memory_gb=5")) ==
        "memory_gb, host_to_device_gb and device_to_host_gb need seconds, the run time alone");
  CHECK(error_of(parse_tag("ckpt:minutes=5")) == "minutes is not known");
}

TEST_CASE("a comment says nothing of what was done with the job") {
  Result<std::optional<Tag>> tag = parse_tag(
      "ckpt:seconds=60,held,done=0.2500,at=9,slow=1.52,placed=999999999999,until=6,leaving=7,"
      "planned=2.5,stays");
  REQUIRE((tag && *tag));
  CHECK(text_of(**tag) == "ckpt:seconds=60,held");
}

TEST_CASE("what was done with jobs is read again as it was written") {
  char folder[] = "/tmp/ckpt-records-XXXXXX";
  REQUIRE(::mkdtemp(folder));
  std::string path = std::string(folder) + "/a/jobs.json";
  QueuedJob job, other;
  job.id = 7;
  job.submitted = 1000;
  other.id = 8;
  Record record = {.submitted = 1000,
                   .done = 0.25,
                   .at = 9,
                   .slow = 1.52,
                   .placed = 5,
                   .nodes = {"n1", "n2"},
                   .until = 6,
                   .leaving = 7,
                   .planned = 2.5,
                   .stays = true,
                   .not_before = 11,
                   .failed_starts = 3};
  {
    Records all = *Records::load(path);
    all.set(job, record);
    all.set(other, {.done = 1});
    REQUIRE(all.save());
    all.keep_only({job});
    REQUIRE(all.save());
  }
  Records again = *Records::load(path);
  CHECK(again.of(job) == record);
  CHECK(again.of(other) == Record{});
  record.forget_nodes();
  CHECK(
      record ==
      Record{.submitted = 1000, .done = 0.25, .stays = true, .not_before = 11, .failed_starts = 3});
  // Slurm has queued it again, which is a new time of submission.
  QueuedJob requeued = job;
  requeued.submitted = 2000;
  requeued.restarts = 1;
  CHECK(again.of(requeued).done == 0.25);
  // Slurm has given the number to another job.
  job.submitted = 2000;
  CHECK(again.of(job) == Record{.submitted = 2000});
  std::ofstream(path) << "[]";
  CHECK_FALSE(Records::load(path));
  std::filesystem::remove_all(folder);
}

TEST_CASE("resources of jobs and nodes") {
  schedule::Resources r = resources_in("cpu=4,mem=1.50G,node=1,billing=4,gres/gpu=2");
  CHECK(r.cores == 4);
  CHECK(r.megabytes == 1536);
  CHECK(r.gpus == 2);
  CHECK(resources_in("mem=2T").megabytes == 2 * 1024 * 1024);
  CHECK(resources_in("cpu=0,mem=x").cores == 1);
  for (auto [text, gpus] : {std::pair{"gpu:2", 2u},
                            {"gpu:a100:2(S:0-1),shard:8", 2},
                            {"gpu:a100:2(IDX:0,3),gpu:t4:1", 3},
                            {"gres:gpu:1", 1},
                            {"gres/gpu:a100", 1},
                            {"gres/gpu=2", 2},
                            {"gres/gpu:a100=2", 2},
                            {"gpu", 1},
                            {"(null)", 0},
                            {"gpus:3", 0},
                            {"gpu:99999999999", 0},
                            {"", 0}}) {
    const char *given = text;
    CAPTURE(given);
    CHECK(gpus_in(given) == gpus);
  }
}

TEST_CASE("the GPUs that a job asks for are found where Slurm does not account for them") {
  Result<std::vector<QueuedJob>> jobs = jobs_in(line({{"tres-alloc", "cpu=2,mem=100M,node=1"},
                                                      {"OverSubscribe", "NO"},
                                                      {"tres-per-task", "gres:gpu:1"},
                                                      {"NumTasks", "2"}}));
  REQUIRE(jobs);
  CHECK((*jobs)[0].needs.gpus == 2);
  CHECK((*jobs)[0].needs.cores == 2);
  CHECK((*jobs)[0].exclusive);
}
