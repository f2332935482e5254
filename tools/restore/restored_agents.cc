// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/restored_agents.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/base/available_memory.h"
#include "common/base/clock.h"
#include "common/base/shortage.h"
#include "tools/agent_link/load_contents.h"
#include "tools/proc/process.h"
#include "tools/restore/restored_streams.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kConnectTimeout = 60s;
// Of the free memory, this part stays free of contents.
constexpr u64 kKeptShare = 10;

// What CRIU is going to take is not free for contents.
u64 bytes_to_keep_free(const storage::ImageReader &image, const ImageManifest &m) {
  u64 all = image.stats().raw_bytes, devices = m.device_bytes;
  return available_memory() / kKeptShare + (all > devices ? all - devices : 0);
}

}  // namespace

std::vector<std::unique_ptr<ContentsAhead>> begin_contents(
    const storage::ImageReader &image, const ImageManifest &m, unsigned threads,
    std::vector<std::unique_ptr<ContentsAhead>> earlier) {
  u32 count = static_cast<u32>(m.outcome_pipes.size());
  u64 keep_free = bytes_to_keep_free(image, m);
  std::vector<std::unique_ptr<ContentsAhead>> all;
  for (u32 i = 0; i < count; i++) {
    all.push_back(std::make_unique<ContentsAhead>(image, i));
    if (i < earlier.size()) all.back()->take_over(*earlier[i]);
    all.back()->start((threads + count - 1) / count, keep_free);
  }
  return all;
}

Result<> RestoredAgents::make_outcome_pipes() {
  pipes_.clear();
  for (size_t i = 0; i < plan_.manifest.outcome_pipes.size(); i++) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) return fail_errno("cannot create a pipe");
    UniqueFd read_end(ends[0]), write_end(ends[1]);
    pipes_.push_back({copy_of(read_end.get()), std::move(write_end)});
  }
  return {};
}

void RestoredAgents::read_ahead(std::vector<std::unique_ptr<ContentsAhead>> begun) {
  if (!plan_.no_devices_because.empty()) return;
  ahead_ = std::move(begun);
  // What comes later needs no memory before.
  if (ahead_.empty())
    ahead_ = begin_contents(*plan_.image, plan_.manifest, later_ ? 0 : idle_cores());
}

std::vector<std::pair<int, u64>> RestoredAgents::outcome_pipes() const {
  std::vector<std::pair<int, u64>> all;
  for (size_t i = 0; i < pipes_.size(); i++)
    all.emplace_back(pipes_[i].read_end.get(), plan_.manifest.outcome_pipes[i]);
  return all;
}

void RestoredAgents::handed_over() {
  for (OutcomePipe &p : pipes_) p.read_end.reset();
}

void RestoredAgents::connected(u32 agent, UniqueFd fd) {
  std::lock_guard lock(mutex_);
  connections_[agent] = std::move(fd);
  changed_.notify_all();
}

void RestoredAgents::program_ended() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

// All gates open only after the last agent is loaded, because the processes may wait for each
// other.
Result<> RestoredAgents::bring_back(pid_t stem) {
  stem_ = stem;
  agents_ = std::vector<Agent>(pipes_.size());
  std::vector<Result<>> results(pipes_.size());
  std::vector<std::thread> threads;
  threads.reserve(agents_.size());
  for (u32 i = 0; i < agents_.size(); i++) {
    Result<std::thread> thread = start_thread(
        [&, i] { results[i] = guarded([&] { return bring_back_one(i, agents_[i]); }); });
    if (thread)
      threads.push_back(std::move(*thread));
    else
      results[i] = Failure(std::move(thread).error());
  }
  for (std::thread &t : threads) t.join();
  for (u32 i = 0; i < agents_.size(); i++)
    if (!results[i]) CKPT_CHECK(failed(i, std::move(results[i]).error()));
  for (u32 i = 0; i < agents_.size(); i++)
    if (results[i])
      if (Result<> r = agents_[i].client->resume(); !r) CKPT_CHECK(failed(i, r.error()));
  for (const Agent &a : agents_) compile_seconds_ = std::max(compile_seconds_, a.compile_seconds);
  note_times();
  agents_.clear();
  return {};
}

void RestoredAgents::note_times() {
  for (const Agent &a : agents_) {
    times_.connect = std::max(times_.connect, a.times.connect);
    times_.attach = std::max(times_.attach, a.times.attach);
    times_.load = std::max(times_.load, a.times.load);
  }
  for (auto &ahead : ahead_) {
    times_.ahead_bytes += ahead->bytes();
    times_.ahead_seconds = std::max(times_.ahead_seconds, ahead->seconds());
  }
}

// A process that has ended needs no device.
Result<> RestoredAgents::failed(u32 number, Error why) {
  if (process_ended(plan_.manifest.agent_pids[number])) return {};
  return Failure(std::move(why).in("the program's devices could not be restored"));
}

// The restored devices are useful only together with the others.
void RestoredAgents::continue_without_devices() { agents_.clear(); }

Result<> RestoredAgents::bring_back_one(u32 number, Agent &agent) {
  Clock::time_point begun = Clock::now();
  CKPT_CHECK(
      send_outcome(pipes_[number].write_end.get(), protocol::Outcome::Restored, number, session_));
  CKPT_TRY(UniqueFd fd, wait_for_connection(number));
  CKPT_TRY(StagingSlots staging, StagingSlots::create());
  agent.staging.emplace(std::move(staging));
  agent.client.emplace(std::move(fd));
  CKPT_CHECK(agent.client->hello("ckpt-restore"));
  if (!plan_.no_devices_because.empty()) return fail("{}", plan_.no_devices_because);
  if (auto maps = plan_.maps.find(number); maps != plan_.maps.end())
    for (auto &[api, map] : maps->second) CKPT_CHECK(agent.client->use_devices(api, map));
  agent.times.connect = seconds_since(begun);
  begun = Clock::now();
  CKPT_CHECK(agent.client->attach(session_));
  agent.times.attach = seconds_since(begun);
  agent.compile_seconds = agent.client->compile_seconds();
  begun = Clock::now();
  std::vector<bool> later;
  if (later_) {
    CKPT_TRY(later, later_(*agent.client, ahead_[number]->plan(), number));
  }
  CKPT_CHECK(load_agent(*agent.client, *agent.staging, *ahead_[number], later));
  agent.times.load = seconds_since(begun);
  return {};
}

bool RestoredAgents::process_lives(pid_t ns_pid) const {
  for (const Process &p : ProcessTable::read().tree(stem_))
    if (p.ns_pid() == ns_pid && p.state != 'Z' && p.state != 'X') return true;
  return false;
}

// An agent fails a moment before its process is seen to end, so this waits a moment.
bool RestoredAgents::process_ended(pid_t ns_pid) {
  for (auto end = Clock::now() + 2s; Clock::now() < end;) {
    if (!process_lives(ns_pid)) return true;
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, 20ms, [this] { return ended_; })) return true;
  }
  return false;
}

Result<UniqueFd> RestoredAgents::wait_for_connection(u32 number) {
  std::unique_lock lock(mutex_);
  auto deadline = Clock::now() + kConnectTimeout;
  while (!ended_ && !connections_.contains(number) && Clock::now() <= deadline) {
    changed_.wait_for(lock, 200ms);
    if (ended_ || connections_.contains(number)) continue;
    lock.unlock();
    bool lives = process_lives(plan_.manifest.agent_pids[number]);
    lock.lock();
    if (!lives) return fail("the process ended before its devices were restored");
  }
  if (ended_) return fail("the program ended before its devices were restored");
  if (!connections_.contains(number))
    return fail("agent {} of the program did not connect within {} s", number,
                kConnectTimeout.count());
  return std::move(connections_[number]);
}

}  // namespace ckpt::tools
