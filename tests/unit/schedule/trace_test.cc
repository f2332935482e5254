// SPDX-License-Identifier: Apache-2.0
#include "schedule/trace/trace.h"

#include "schedule/trace/measured.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::schedule;

namespace {

const char kSwf[] =
    "; Version: 2.2\n"
    "1 100 5 60 4 60 2000 4 90 -1 1 1 1 -1 -1 1 -1 -1\n"
    "\n"
    "  2 40 5 30 -1 60 -1 8 90 3000 1 1 1 -1 -1 1 -1 -1 extra columns\r\n"
    "3 50 0 -1 8 -1 -1 8 90 -1 1 1 1 -1 -1 1 -1 -1\n";

const char kPods[] =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_"
    "time,"
    "scheduled_time\n"
    "a,1,1,2,1000,A10|T4,LS,Running,10,100,40\n"
    "b,1,1,0,0,,LS,Running,10,100,40\n"
    "c,1,1,1,460,,LS,Pending,10,100,\n";

template <class T>
std::string error_of(const Result<T> &r) {
  return r ? "" : r.error().what;
}

}  // namespace

TEST_CASE("a log in the Standard Workload Format") {
  Result<Trace> t = read_swf(kSwf, {.megabytes_per_node = 10});
  REQUIRE(t);
  REQUIRE(t->jobs.size() == 2);
  CHECK(t->left_out == 1);  // it never ran
  CHECK(t->jobs[0].nodes == 4);
  CHECK(t->jobs[0].seconds == 60);
  CHECK(t->jobs[0].megabytes == doctest::Approx(4 * 2000 * 1024 / 1e6));
  CHECK(t->jobs[1].nodes == 8);  // as requested
  CHECK(t->jobs[1].megabytes == doctest::Approx(8 * 3000 * 1024 / 1e6));
  CHECK(read_swf(kSwf, {.memory_in_bytes = true})->jobs[0].megabytes == doctest::Approx(0.002));
}

TEST_CASE("a trace of Gavel") {
  const char text[] = "LM (batch size 5)\tcd x && run\t-step\t1\t300\t7.5\t2\n";
  Result<Trace> t = read_gavel(text, {.megabytes_per_node = 10, .seconds_per_step = 0.5});
  REQUIRE(t);
  CHECK(t->jobs[0].submit == 7.5);
  CHECK(t->jobs[0].seconds == 150);
  CHECK(t->jobs[0].nodes == 2);
  CHECK(t->jobs[0].megabytes == 20);
  // As Gavel publishes them, and with a mode of training.
  for (const char *line : {"LM\tcmd\twd\t-step\t1\t300\t2\t1.0\t-1\t7.5\n",
                           "LM\tcmd\twd\t-step\t1\t300\t2\tstatic\t1.0\t-1\t7.5\n"}) {
    CAPTURE(line);
    Result<Trace> later = read_gavel(line, {.seconds_per_step = 0.5});
    REQUIRE(later);
    CHECK(later->jobs[0].submit == 7.5);
    CHECK(later->jobs[0].seconds == 150);
    CHECK(later->jobs[0].nodes == 2);
  }
}

TEST_CASE("Alibaba's lists of pods and nodes") {
  Result<Trace> t = read_pods(kPods, {});
  REQUIRE(t);
  REQUIRE(t->jobs.size() == 1);
  CHECK(t->left_out == 2);
  CHECK(t->jobs[0].seconds == 60);
  Result<std::vector<ResourceClass>> nodes =
      read_gpu_nodes("sn,cpu_milli,memory_mib,gpu,model\nx,1,1,2,T4\ny,1,1,8,A10\nz,1,1,4,T4\n");
  REQUIRE(nodes);
  CHECK(nodes->size() == 2);
  CHECK((*nodes)[0].nodes == 6);
  Workload w = workload_of(*t, {{"T4", 6, {}}, {"V100", 4, {}}}, {2, 1});
  CHECK(w.run_time(0, 0) == 30'000);
  CHECK(w.run_time(0, 1) == 0);  // not one of its models
}

TEST_CASE("jobs of comma-separated values") {
  Result<Trace> t = read_jobs_csv(
      "seconds,submit,nodes,megabytes,classes\n60,5,2,300,T4|A10\n60,7,,,\n0,1,1,1,\n",
      {.megabytes_per_node = 10});
  REQUIRE(t);
  REQUIRE(t->jobs.size() == 2);
  CHECK(t->left_out == 1);
  CHECK(t->jobs[0].nodes == 2);
  CHECK(t->jobs[0].megabytes == 300);
  CHECK(t->jobs[0].kinds == "T4|A10");
  CHECK(t->jobs[1].nodes == 1);
  CHECK(t->jobs[1].megabytes == 10);
  CHECK(read_jobs_csv("submit,seconds\n1,2\n", {})->jobs.size() == 1);
}

TEST_CASE("tasks that were measured") {
  const std::string header = "name,seconds,memory_gb,host_to_device_gb,device_to_host_gb\n";
  Result<std::vector<ContentionTask>> t = read_tasks_csv(header + "a,2,1,0,0\nb,3,1,0.5,0\n");
  REQUIRE(t);
  CHECK_FALSE((*t)[0].uses_gpu);
  CHECK((*t)[1].uses_gpu);
  CHECK((*t)[1].host_to_device_gb == 0.5);
  CHECK(error_of(read_tasks_csv(header + "a,0,1,0,0\n")) == "line 2: a task takes time");
  CHECK(error_of(read_tasks_csv(header + "a,1,-1,0,0\n")) ==
        "line 2: column memory_gb is not a measure");
  CHECK(error_of(read_tasks_csv("name,seconds\na,1\n")) == "line 1: there is no column memory_gb");
  CHECK(error_of(read_tasks_csv(header)) == "there is no task");
  CHECK(tasks_csv(*t) == header + "a,2,1,0,0\nb,3,1,0.5,0\n");
}

TEST_CASE("jobs are sorted by submission, which starts at 0") {
  Result<Trace> t = read_swf(kSwf, {});
  Workload w = workload_of(*t, {{"n", 8, {}}}, {1});
  CHECK(w.jobs[0].nodes == 8);
  CHECK(w.jobs[0].submit == 0);
  CHECK(w.jobs[1].submit == 60'000);
}

TEST_CASE("spaces around values, and a mark of UTF-8") {
  Result<Trace> t = read_jobs_csv("\xef\xbb\xbf submit ,seconds,classes\r\n 1,\t2 , \r\n", {});
  REQUIRE(t);
  CHECK(t->jobs[0].submit == 1);
  CHECK(t->jobs[0].seconds == 2);
  CHECK(t->jobs[0].kinds.empty());
}

TEST_CASE("bad input is an error with its line") {
  CHECK(error_of(read_swf("; x\n1 2 3\n", {})) == "line 2: 3 columns instead of 18");
  CHECK(error_of(read_swf("1 x 5 60 4 60 2000 4 90 -1 1 1 1 -1 -1 1 -1 -1", {})) ==
        "line 1: column 2 is not a number");
  CHECK(error_of(read_swf("1 1 5 nan 4 60 2000 4 90 -1 1 1 1 -1 -1 1 -1 -1", {})) ==
        "line 1: column 4 is not a number");
  CHECK(error_of(read_swf("1 1 5 60 4e15 60 2000 4 90 -1 1 1 1 -1 -1 1 -1 -1", {})) ==
        "line 1: the job is larger or longer than any cluster's");
  CHECK(error_of(read_gavel("a\tb\n", {})).starts_with("line 1: 2 columns instead of 7, 10 or 11"));
  CHECK(error_of(read_gavel("a\tb\tc\t1\tx\t1\t1\n", {})).starts_with("line 1: steps"));
  CHECK(error_of(read_pods("a,b\n1,2\n", {})) == "line 1: there is no column num_gpu");
  CHECK(error_of(read_pods("a,b\n1\n", {})) == "line 2: 1 columns instead of 2");
  CHECK(error_of(read_jobs_csv("submit\n1\n", {})) == "line 1: there is no column seconds");
  CHECK(error_of(read_jobs_csv("submit,seconds\n1,2\n1,x\n", {})) ==
        "line 3: column seconds is not a number");
  CHECK(error_of(read_jobs_csv("submit,seconds,nodes\n1,2,1e9\n", {})) ==
        "line 2: the job is larger or longer than any cluster's");
  CHECK(error_of(read_jobs_csv("submit,seconds,nodes\n1,2,1.5\n", {})) == "line 2: 1.5 nodes");
  CHECK(error_of(read_jobs_csv("submit,seconds\n1,2\n1,-2\n", {})) ==
        "line 3: a value is negative");
  CHECK(error_of(read_jobs_csv("submit,submit,seconds\n", {})) ==
        "line 1: the column submit is there twice");
  CHECK(error_of(read_gavel("a\tb\tc\t1\t5\t1\t1.5\n", {})) == "line 1: 1.5 GPUs");
  CHECK(error_of(read_swf("1 1 5 60 4.5 60 2000 4 90 -1 1 1 1 -1 -1 1 -1 -1", {})) ==
        "line 1: 4.5 processors");
  CHECK(error_of(read_gpu_nodes("gpu,model\nx,T4\n")) == "line 2: column gpu is not a number");
  CHECK(error_of(read_gpu_nodes("gpu,model\n0,T4\n")) == "no node has a GPU");
}
