// SPDX-License-Identifier: Apache-2.0
//
// What Slurm prints. slurm-22.05/ is the output of Slurm 22.05.8: a job that has returned 86, one
// that runs on two nodes, one that begins later; node n2 is drained. There is no recorded output of
// a later version here, only the form of values that its documentation describes.
#include "tools/schedd/queue.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "tools/schedd/resources.h"
#include "tools/schedd/tag.h"

using namespace ckpt;
using namespace ckpt::tools;

namespace {

std::string recorded(const std::string &name) {
  std::ifstream in(std::string(CKPT_SOURCE) + "/tests/unit/tools/slurm-22.05/" + name);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
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

TEST_CASE("the queue of Slurm 22.05") {
  Result<std::vector<QueuedJob>> jobs = parse_queue(recorded("squeue.json"));
  REQUIRE(jobs);
  REQUIRE(jobs->size() == 3);
  const QueuedJob &left = (*jobs)[0], &runs = (*jobs)[1], &later = (*jobs)[2];
  CHECK(left.state == "SPECIAL_EXIT");
  CHECK(left.held);
  CHECK(left.restarts == 1);
  CHECK(left.comment == "ckpt:seconds=60,mb=200,held");
  CHECK(runs.state == "RUNNING");
  CHECK_FALSE(runs.held);
  CHECK(runs.on == Hosts{"n1", "n2"});
  CHECK(runs.nodes == 2);
  CHECK(runs.limit == 120);
  CHECK(runs.started - runs.submitted == 1);
  CHECK(runs.needs.cores == 4);
  CHECK(runs.needs.megabytes == 400);
  CHECK_FALSE(runs.exclusive);
  CHECK(later.needs.cores == 1);
  CHECK(later.needs.megabytes == 500);
  CHECK(later.state == "PENDING");
  CHECK(later.required == Hosts{"n2"});
  CHECK_FALSE(later.limit);
  CHECK(later.eligible - later.submitted == 60);
}

TEST_CASE("the nodes of Slurm 22.05") {
  Result<std::vector<QueueNode>> nodes = parse_nodes(recorded("nodes.txt"));
  REQUIRE(nodes);
  REQUIRE(nodes->size() == 2);
  CHECK((*nodes)[0].name == "n1");
  CHECK((*nodes)[0].usable);
  CHECK((*nodes)[0].in_use);
  CHECK((*nodes)[0].has.cores == 2);
  CHECK((*nodes)[0].has.gpus == 0);
  CHECK((*nodes)[0].has.megabytes == 500);
  CHECK((*nodes)[1].features == Hosts{"fast", "gpu"});
  CHECK_FALSE((*nodes)[1].usable);
}

TEST_CASE("values of later versions: states are lists, numbers may be unset or without a bound") {
  Result<std::vector<QueuedJob>> jobs = parse_queue(R"({"jobs": [{"job_id": 7,
      "job_state": ["RUNNING", "COMPLETING"], "comment": "ckpt", "nodes": "n1",
      "start_time": {"set": true, "infinite": false, "number": 5},
      "time_limit": {"set": true, "infinite": true, "number": 0},
      "priority": {"set": true, "infinite": false, "number": 0},
      "node_count": {"set": false, "infinite": false, "number": 0}}]})");
  REQUIRE(jobs);
  CHECK((*jobs)[0].state == "RUNNING");
  CHECK((*jobs)[0].started == 5);
  CHECK_FALSE((*jobs)[0].limit);
  CHECK((*jobs)[0].held);
  CHECK((*jobs)[0].nodes == 1);
}

TEST_CASE("output that is not a queue is an error") {
  for (const char *text : {"", "[]", "{}", R"({"jobs": 1})"})
    CHECK(error_of(parse_queue(text)) == "squeue --json did not print a list of jobs");
  for (const char *text : {R"({"jobs": [{"job_id": 0, "job_state": "RUNNING"}]})",
                           R"({"jobs": [{"job_id": 1, "job_state": []}]})"})
    CHECK(error_of(parse_queue(text)) == "a job has no number or no state");
  CHECK(error_of(parse_nodes("NodeName=n1 CPUAlloc=0")) ==
        "scontrol show nodes: node n1 has no state");
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
       {"ckpt", "ckpt:seconds=60,mb=200,held",
        "ckpt:seconds=60,memory_gb=5.5,host_to_device_gb=1,device_to_host_gb=2,held",
        "ckpt:seconds=60,memory_gb=5,done=0.2500,at=9,slow=1.52",
        "ckpt:seconds=1.5,done=0.2500,placed=5,until=6,leaving=7,planned=2.5,stays"}) {
    Result<std::optional<Tag>> tag = parse_tag(text);
    REQUIRE(tag);
    REQUIRE(*tag);
    CHECK(text_of(**tag) == text);
  }
  for (const char *other : {"", "mine", "ckpting", "my ckpt"}) CHECK_FALSE(*parse_tag(other));
  CHECK(error_of(parse_tag("ckpt:seconds=x")) == "seconds=x is not a number");
  CHECK(error_of(parse_tag("ckpt:seconds=0")) == "seconds=0 is not a run time");
  CHECK(error_of(parse_tag("ckpt:done=-1")) == "done=-1 is not a number");
  CHECK(error_of(parse_tag("ckpt:mb=1e300")) == "mb=1e300 is not a number");
  CHECK(error_of(parse_tag("ckpt:mb=nan")) == "mb=nan is not a number");
  CHECK(error_of(parse_tag("ckpt:seconds=9,memory_gb=much")) == "memory_gb=much is not a number");
  CHECK(error_of(parse_tag("ckpt:seconds=9,host_to_device_gb=-1")) ==
        "host_to_device_gb=-1 is not a number");
  CHECK(error_of(parse_tag("ckpt:memory_gb=5")) ==
        "memory_gb, host_to_device_gb and device_to_host_gb need seconds, the run time alone");
  CHECK(error_of(parse_tag("ckpt:minutes=5")) == "minutes is not known");
}

TEST_CASE("what a job leaves behind on its nodes is forgotten, what its owner wrote is not") {
  Tag tag = **parse_tag(
      "ckpt:seconds=60,memory_gb=5,held,done=0.2500,at=9,slow=1.52,placed=5,until=6,leaving=7,"
      "planned=2.5");
  tag.forget_nodes();
  CHECK(text_of(tag) == "ckpt:seconds=60,memory_gb=5,held,done=0.2500");
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
  Result<std::vector<QueuedJob>> jobs = parse_queue(R"({"jobs": [{"job_id": 7,
      "job_state": "PENDING", "tres_req_str": "cpu=2,mem=100M,node=1", "shared": "none",
      "tres_per_task": "gres:gpu:1", "tasks": 2}]})");
  REQUIRE(jobs);
  CHECK((*jobs)[0].needs.gpus == 2);
  CHECK((*jobs)[0].needs.cores == 2);
  CHECK((*jobs)[0].exclusive);
}
