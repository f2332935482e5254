// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/affinity.h"

#include <map>

#include "common/base/log.h"
#include "tools/proc/process.h"

namespace ckpt::tools {
namespace {

// By the ID of a thread in its own PID namespace.
using ByThread = std::map<pid_t, const Affinity *>;

ByThread by_thread(const std::vector<ImageManifest::ThreadAffinity> &affinities) {
  ByThread all;
  for (const ImageManifest::ThreadAffinity &p : affinities)
    for (pid_t thread : p.threads) all[thread] = &p.processors;
  return all;
}

// One warning for each process, however many threads it has.
void bind_threads(const Process &p, const ByThread &chosen) {
  Result<> done;
  for (auto [thread, ns_thread] : thread_ids_of(p.pid))
    if (auto it = chosen.find(ns_thread); it != chosen.end())
      if (Result<> bound = it->second->apply_to(thread); !bound) done = std::move(bound);
  if (!done)
    log::warn("{}: a thread could not be bound to its processors again ({}), and may run on all",
              name_of(p), done.error().what);
}

}  // namespace

void restore_affinities(pid_t root, const ImageManifest &manifest) {
  std::map<pid_t, ByThread> chosen;
  for (const ImageManifest::ProcessEntry &p : manifest.processes)
    if (!p.affinities.empty()) chosen[p.pid] = by_thread(p.affinities);
  if (chosen.empty()) return;
  for (const Process &p : ProcessTable::read().tree(root))
    if (auto it = chosen.find(p.ns_pid()); it != chosen.end()) bind_threads(p, it->second);
}

}  // namespace ckpt::tools
