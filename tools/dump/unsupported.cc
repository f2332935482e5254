// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/unsupported.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "common/base/clock.h"
#include "common/proc/status.h"
#include "common/proc/system_call.h"
#include "tools/dump/memory_files.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kExecTimeout = 1s;

// "a socket of the family vsock (40)", or "" for one that CRIU can dump (criu/sockets.c).
std::string unsupported_kind(int socket) {
  auto option = [socket](int name) {
    int value = -1;
    socklen_t size = sizeof value;
    ::getsockopt(socket, SOL_SOCKET, name, &value, &size);
    return value;
  };
  static const std::map<int, const char *> kNames{
      {AF_VSOCK, "vsock"}, {AF_ALG, "kernel crypto"}, {AF_CAN, "CAN"}, {AF_BLUETOOTH, "Bluetooth"},
      {AF_TIPC, "TIPC"},   {AF_XDP, "XDP"},           {AF_RDS, "RDS"}, {AF_SMC, "SMC"}};
  int family = option(SO_DOMAIN), type = option(SO_TYPE), protocol = option(SO_PROTOCOL);
  if (family == AF_UNIX || family == AF_NETLINK || family == AF_PACKET || family < 0) return {};
  if (family != AF_INET && family != AF_INET6) {
    auto name = kNames.find(family);
    return fmt::format("a socket of the family {} ({})",
                       name == kNames.end() ? "with the number" : name->second, family);
  }
  if (type == SOCK_RAW || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ||
      protocol == IPPROTO_UDPLITE)
    return {};
  constexpr int kMptcp = 262;  // IPPROTO_MPTCP
  if (protocol == kMptcp) return "a Multipath TCP socket (Go programs: GODEBUG=multipathtcp=0)";
  return fmt::format("an IP socket of protocol {}", protocol);
}

// SysV memory lies in an IPC namespace, which CRIU saves only as a whole. That of the machine is
// shared with all programs.
bool has_sysv_memory(pid_t pid) {
  std::vector<ProcMapping> all = mappings_of(pid);
  return std::any_of(all.begin(), all.end(),
                     [](const ProcMapping &m) { return m.path.starts_with("/SYSV"); });
}

void check_system_v_memory(const Target &target, Reasons &reasons) {
  pid_t outside = target.processes.front().parent;
  for (const Process &p : target.processes)
    if (namespace_of(p.pid, "ipc") == namespace_of(outside, "ipc") && has_sysv_memory(p.pid))
      reasons.push_back(
          name_of(p) +
          " has System V shared memory in the IPC namespace of the machine, which CRIU cannot "
          "checkpoint: detach the memory (shmdt), or start the program as root with ckpt-run and "
          "without --share-ipc, so that it gets its own IPC namespace");
}

// It cannot be stopped until its child has called exec.
void check_vfork(const Target &target, Reasons &reasons) {
  auto end = Clock::now() + kExecTimeout;
  for (const Process &p : target.processes) {
    while (waits_in_vfork(p.pid) && Clock::now() < end) std::this_thread::sleep_for(5ms);
    if (waits_in_vfork(p.pid))
      reasons.push_back(name_of(p) +
                        " waits in vfork until its child calls exec, and cannot be stopped before: "
                        "try again later");
  }
}

// One process of an MPI job that has its mpirun outside the program.
void check_mpi_rank(const Target &target, Reasons &reasons) {
  // Set by mpirun for each rank: Open MPI, PMIx, and MPICH's hydra and Slurm by PMI.
  for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (!environment_of(target.keeper, name).empty())
      return reasons.push_back(
          fmt::format("the program is rank {} of an MPI job, and cannot be checkpointed without "
                      "the others: start the whole job with one ckpt-run (ckpt-run mpirun -n 4 "
                      "PROGRAM, instead of mpirun -n 4 ckpt-run PROGRAM)",
                      environment_of(target.keeper, name)));
}

}  // namespace

// fork(2) by the C library is clone(2) too, but returns at once: only vfork(2), posix_spawn(3) and
// clone(2) with CLONE_VFORK wait, in state D.
bool waits_in_vfork(pid_t pid) {
  Result<Process> p = read_process(pid);
  if (!p || p->state != 'D') return false;
  std::optional<proc::SystemCall> c = proc::system_call_of(pid, pid);
  return c && (c->number == SYS_vfork || c->number == SYS_clone || c->number == SYS_clone3);
}

void check_main_threads(const Target &target, Reasons &reasons) {
  for (const Process &p : target.processes)
    if (only_main_thread_has_ended(p))
      reasons.push_back(
          name_of(p) +
          ": the main thread has ended while others run, which CRIU cannot checkpoint: "
          "let main() wait for the other threads, instead of pthread_exit");
}

void check_socket_kinds(const Target &target, Closables &reasons) {
  std::set<u64> seen;
  for (const Process &p : target.processes)
    for (const Descriptor &d : descriptors_of(p.pid)) {
      if (d.kind != Descriptor::Kind::Socket || !seen.insert(d.inode).second) continue;
      UniqueFd socket = duplicate_descriptor(p.pid, d.fd);
      if (std::string kind = socket ? unsupported_kind(socket.get()) : ""; !kind.empty())
        reasons.push_back(
            {p.pid, fmt::format("{}: descriptor {} is {}, which CRIU cannot checkpoint: close "
                                "it first",
                                name_of(p), d.fd, kind)});
    }
}

void remark_landlock(const Target &target, std::vector<std::string> &remarks) {
  constexpr long kVersion = 1;  // LANDLOCK_CREATE_RULESET_VERSION
  auto gave_up_privileges = [](pid_t pid) {
    Result<proc::Status> s = proc::read_status(pid);
    return s && s->no_new_privileges;
  };
  bool kernel_has_it = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersion) > 0;
  if (!kernel_has_it || gave_up_privileges(target.keeper)) return;
  for (const Process &p : target.processes)
    if (gave_up_privileges(p.pid))
      remarks.push_back(
          name_of(p) +
          " has set no_new_privs, as programs do that restrict themselves by Landlock: if it has "
          "done so, a restored copy is not restricted, because the kernel does not show the rules");
}

void check_unsupported(const Target &target, Reasons &reasons) {
  check_system_v_memory(target, reasons);
  check_vfork(target, reasons);
  check_mpi_rank(target, reasons);
  MemoryFiles::of(target).check_not_shared_with_others(target, reasons);
}

}  // namespace ckpt::tools
