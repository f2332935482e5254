// SPDX-License-Identifier: Apache-2.0
//
// GPUs that serve CUDA, OpenCL or both, and programs that need one or the other.
#include "tests/unit/manager/fake_node.h"

using namespace ckpt;
using namespace ckpt::manager;
using managed::kAllApis;
using managed::kCuda;
using managed::kOpenCl;

namespace {

Settings small() {
  Settings s;
  s.context_bytes = 10;
  s.min_residency = Time{0};
  return s;
}

// GPU0 serves CUDA, GPU1 OpenCL without measurements, GPU2 both.
std::vector<Gpu> cuda_opencl_and_both() {
  std::vector<Gpu> all = Node::gpus({100, 100, 100});
  all[1].apis = kOpenCl;
  all[1].measured = false;
  all[2].apis = kAllApis;
  return all;
}

std::vector<Gpu> cuda_and_opencl() {
  std::vector<Gpu> all = cuda_opencl_and_both();
  all.pop_back();
  return all;
}

// Devices that serve OpenCL only, without measurements.
std::vector<Gpu> of_opencl(const std::vector<u64> &bytes) {
  std::vector<Gpu> all = Node::gpus(bytes);
  for (Gpu &gpu : all) {
    gpu.apis = kOpenCl;
    gpu.measured = false;
  }
  return all;
}

Orders arrive(Node &n, ProgramId p, u32 apis) {
  n.say(p, in::Uses{apis});
  n.join(p);
  return n.say(p, in::Connect{});
}

// A program with `bytes` on an OpenCL device.
void start(Node &n, ProgramId p, GpuIndex gpu, u64 bytes) {
  REQUIRE(told(arrive(n, p, kOpenCl)) == Told{fmt::format("{} Connect GPU{}", p, gpu)});
  n.say(p, in::ContextCheck{});
  REQUIRE(told(n.say(p, in::CudaMalloc{900, bytes})) == Told{fmt::format("{} GoAhead 900", p)});
  n.say(p, in::MallocDone{900, bytes});
}

u64 free_on(const Node &n, size_t gpu) { return n.policy.accounting().gpus[gpu].free; }

}  // namespace

TEST_CASE("a program is assigned a GPU that serves it") {
  Node n(small(), cuda_opencl_and_both());
  CHECK(told(arrive(n, 1, kOpenCl)) == Told{"1 Connect GPU1"});
  CHECK(told(arrive(n, 2, kCuda)) == Told{"2 Connect GPU0"});
  CHECK(told(arrive(n, 3, kAllApis)) == Told{"3 Connect GPU2"});
  // The same after Join.
  n.join(4);
  n.say(4, in::Uses{kOpenCl});
  CHECK(told(n.say(4, in::Connect{})) == Told{"4 Connect GPU1"});
}

TEST_CASE("where memory is not measured, the reports of programs count") {
  Node n(small(), cuda_and_opencl());
  start(n, 1, 1, 60);
  CHECK(free_on(n, 1) == 40);
  start(n, 2, 1, 30);
  CHECK(told(n.say(2, in::CudaMalloc{1, 20})) == Told{"2 Suspend"});
  CHECK(free_on(n, 1) == 10);
  CHECK(told(n.say(2, in::SuspendDone{30})) == Told{});
  CHECK(free_on(n, 1) == 40);
  CHECK(told(n.say(1, in::CudaFree{50})) == Told{"2 Migrate GPU1"});
  CHECK(told(n.say(2, in::MigDone{30})) == Told{"2 GoAhead 1"});
  // A request that was granted is not counted twice when it is used.
  n.say(2, in::MallocDone{1, 50});
  CHECK(free_on(n, 1) == 0);
  // Memory of unmanaged programs counts against it.
  n.policy.measured(1, 70, true);
  n.say(1, in::Fin{});
  CHECK(free_on(n, 1) == 20);
  // The cost of a context is not learned there, nor passed to the next Manager.
  Orders confirmed = n.say(2, in::ContextCheck{});
  CHECK_FALSE(std::get<out::CCheckOk>(confirmed.at(0).message).known);
}

TEST_CASE("an OpenCL program resumes only on a device that serves OpenCL") {
  Node n(small(), cuda_and_opencl());
  start(n, 1, 1, 60);
  start(n, 2, 1, 30);
  n.say(2, in::CudaMalloc{1, 20});
  CHECK(told(n.say(2, in::SuspendDone{30})) == Told{});  // GPU0 is empty
  CHECK(told(n.after(Time{1'000'000})) == Told{});
  // Not even when memory is short; a request too large for GPU1 is denied.
  CHECK(told(n.say(1, in::CudaMalloc{1, 50})) == Told{"1 OutOfMemory 1"});
  CHECK(told(n.say(1, in::Fin{})) == Told{"2 Migrate GPU1"});
}

TEST_CASE("an unsuited device is not tried again") {
  Node n(small(), of_opencl({100, 100, 100}));
  start(n, 1, 0, 60);
  start(n, 2, 1, 70);
  start(n, 4, 2, 90);
  start(n, 3, 0, 30);
  CHECK(told(n.say(3, in::CudaMalloc{1, 20})) == Told{"3 Suspend"});
  CHECK(told(n.say(3, in::SuspendDone{30})) == Told{});
  CHECK(told(n.say(2, in::Fin{})) == Told{"3 Migrate GPU1"});
  CHECK(told(n.say(3, in::Unsuited{"GPU1", "no double precision"})) == Told{});
  CHECK(n.at(3).unsuited.at(1) == "no double precision");
  CHECK(told(n.after(Time{1'000'000})) == Told{});
  // The next one is tried at once.
  CHECK(told(n.say(4, in::Fin{})) == Told{"3 Migrate GPU2"});
  // A report about a device that it was not sent to is ignored.
  CHECK(told(n.say(3, in::Unsuited{"GPU0", "why"})) == Told{});
  CHECK(told(n.say(3, in::Unsuited{"GPU2", "why"})) == Told{});
  CHECK(told(n.say(1, in::Fin{})) == Told{"3 Migrate GPU0"});
}

TEST_CASE("a request is denied if all devices that are large enough are unsuited") {
  Node n(small(), of_opencl({50, 100}));
  n.policy.measured(1, 40, true);
  start(n, 1, 0, 30);
  CHECK(told(n.say(1, in::CudaMalloc{1, 40})) == Told{"1 Suspend"});
  n.policy.measured(1, 100, false);
  CHECK(told(n.say(1, in::SuspendDone{30})) == Told{"1 Migrate GPU1"});
  CHECK(told(n.say(1, in::Unsuited{"GPU1", "why"})) == Told{});
  CHECK(told(n.after(Time{1})) == Told{"1 Migrate GPU0"});
  CHECK(told(n.say(1, in::MigDone{30})) == Told{"1 OutOfMemory 1"});
}

TEST_CASE("a program that no device of the node serves is not managed") {
  Node n(small(), Node::gpus({100}));
  CHECK(told(arrive(n, 1, kOpenCl)) == Told{"1 Connect "});
  CHECK(told(n.say(1, in::CudaMalloc{1, 1000})) == Told{"1 GoAhead 1"});
  CHECK(n.policy.accounting().assigned == 0);
  // It uses CUDA, too, which is managed.
  n.say(1, in::Uses{kCuda});
  CHECK(told(n.say(1, in::Connect{})) == Told{"1 Connect GPU0"});
  // A program that another Manager has evicted resumes where it was.
  n.say(2, in::Uses{kOpenCl});
  Orders back = n.say(2, in::Join{.version = managed::kVersion,
                                  .standing = managed::Standing::Evicted,
                                  .gpu = "GPU7",
                                  .used = 5,
                                  .kept = 5});
  CHECK(told(back) == Told{"2 Migrate "});
  CHECK(told(n.say(2, in::MigDone{5})) == Told{});
  CHECK(n.phase(2) == Phase::Assigned);
}

TEST_CASE("a further API is managed where its device serves it") {
  Node n(small(), cuda_opencl_and_both());
  arrive(n, 1, kOpenCl);
  CHECK(n.at(1).gpu() == 1);
  Orders no = n.say(1, in::AddApi{kCuda});
  CHECK_FALSE(std::get<out::ApiAdded>(no.at(0).message).managed);
  CHECK(n.at(1).apis == kOpenCl);
  arrive(n, 2, kAllApis);
  arrive(n, 3, kOpenCl);
  arrive(n, 4, kCuda);
  n.take(0, 50);
  arrive(n, 5, kCuda);
  REQUIRE(n.at(5).gpu() == 2);
  Orders yes = n.say(5, in::AddApi{kOpenCl});
  CHECK(std::get<out::ApiAdded>(yes.at(0).message).managed);
  CHECK(n.at(5).apis == kAllApis);
}

TEST_CASE("programs of one API do not keep those of the other from their GPUs") {
  Settings s = small();
  s.programs_per_gpu = 2;
  Node n(s, cuda_and_opencl());
  for (ProgramId p : {1, 2})
    CHECK(told(arrive(n, p, kCuda)) == Told{fmt::format("{} Connect GPU0", p)});
  for (ProgramId p : {3, 4}) CHECK(told(arrive(n, p, kCuda)) == Told{});
  CHECK(told(arrive(n, 5, kOpenCl)) == Told{"5 Connect GPU1"});
  CHECK(told(arrive(n, 6, kOpenCl)) == Told{"6 Connect GPU1"});
  CHECK(told(arrive(n, 7, kOpenCl)) == Told{});
}

TEST_CASE("UUIDs match in NVML's and in OpenCL's form") {
  std::vector<Gpu> gpus = Node::gpus({100, 100});
  gpus[1].uuid = "GPU-68967ae6-d0c6-b9fe-7303-a03b3fc65244";
  gpus[1].apis = kAllApis;
  Node n(small(), gpus);
  n.say(1, in::Uses{kOpenCl});
  n.say(1, in::Join{.version = managed::kVersion,
                    .standing = managed::Standing::Running,
                    .gpu = "68967AE6-d0c6-b9fe-7303-a03b3fc65244"});
  CHECK(n.at(1).gpu() == 1);
}
