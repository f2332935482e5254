// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/agents.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "common/base/log.h"
#include "common/base/shortage.h"
#include "tools/agent_link/requirements.h"
#include "tools/dump/residue.h"

namespace ckpt::tools {

using protocol::Depth;

Result<> Agents::connect(const Target &target) {
  for (size_t i = 0; i < target.agents.size(); i++)
    CKPT_CHECK(connect_to(target.agent_pids[i], target.agents[i]));
  return {};
}

Result<> Agents::connect_to(pid_t process, const std::string &socket) {
  CKPT_TRY(AgentClient client, AgentClient::connect(process, socket));
  CKPT_TRY(AgentClient::Welcome welcome, client.hello("ckpt-dump"));
  CKPT_TRY(StagingSlots staging, StagingSlots::create());
  all_.push_back(std::make_unique<Agent>(Agent{
      process, std::move(client), std::move(welcome), std::move(staging), {}, {}, {}, {}, 0}));
  return {};
}

void Agents::preflight(Reasons &reasons) {
  for (const auto &a : all_) {
    Result<std::vector<std::string>> theirs = a->client.preflight();
    if (!theirs)
      reasons.push_back(fmt::format("process {}: {}", a->host_pid, theirs.error().text()));
    else
      for (std::string &r : *theirs)
        reasons.push_back(fmt::format("process {}: {}", a->host_pid, r));
  }
}

std::vector<std::string> Agents::remarks() {
  std::vector<std::string> all;
  for (const auto &a : all_)
    for (const std::string &r : a->client.remarks().value_or(std::vector<std::string>{}))
      all.push_back(fmt::format("process {}: {}", a->host_pid, r));
  return all;
}

std::vector<std::string> Agents::devices() {
  std::set<std::string> all;
  for (const auto &a : all_) {
    std::vector<std::string> names = a->client.devices().value_or(std::vector<std::string>{});
    all.insert(names.begin(), names.end());
  }
  return {all.begin(), all.end()};
}

std::set<pid_t> Agents::with_callbacks() {
  std::set<pid_t> pids;
  for (const auto &a : all_)
    if (a->client.has_before_callbacks()) pids.insert(a->host_pid);
  return pids;
}

Result<> Agents::for_each(const std::function<Result<>(Agent &, u32)> &f) {
  std::vector<Result<>> results(all_.size());
  std::vector<std::thread> threads;
  threads.reserve(all_.size());
  for (u32 i = 0; i < all_.size(); i++) {
    Result<std::thread> thread = start_thread([&, i] {
      int fd = all_[i]->client.fd();
      OnCancel guard(cancel_, [fd] { ::shutdown(fd, SHUT_RDWR); });
      results[i] = guarded([&] { return f(*all_[i], i); });
    });
    if (thread)
      threads.push_back(std::move(*thread));
    else
      results[i] = Failure(std::move(thread).error());
  }
  for (std::thread &t : threads) t.join();
  CKPT_CHECK(cancel_.check());
  for (u32 i = 0; i < all_.size(); i++)
    if (!results[i])
      return Failure(
          std::move(results[i].error()).in(fmt::format("process {}", all_[i]->host_pid)));
  return {};
}

Result<> Agents::quiesce(std::chrono::milliseconds timeout) {
  return for_each([timeout](Agent &a, u32) -> Result<> {
    CKPT_CHECK(a.client.quiesce(timeout));
    a.waits = a.client.waits();
    // An API that was being started when the connection was made has become a participant since.
    CKPT_TRY(a.welcome, a.client.hello("ckpt-dump"));
    return {};
  });
}

Result<> Agents::prepare(u64 bytes) {
  return for_each([bytes](Agent &a, u32) -> Result<> {
    (void)a.client.prepare(bytes);
    return {};
  });
}

Result<> Agents::copy_ahead(u32 rounds) {
  if (rounds == 0) return {};
  return for_each([rounds](Agent &a, u32) -> Result<> {
    (void)a.client.copy_ahead(rounds);
    return {};
  });
}

Result<> Agents::look(storage::ImageWriter &image, bool ends, const storage::Key *key) {
  return for_each([&, ends, key](Agent &a, u32) -> Result<> {
    if (!a.client.survey(image.seed()) || !ends || !image.parent()) return {};
    return offer_parent(a, *image.parent(), key);
  });
}

// Without it, all chunks are copied.
Result<> Agents::offer_parent(Agent &a, const storage::ImageReader &parent,
                              const storage::Key *key) {
  std::optional<u32> number = agent_number_in(parent, a.welcome.pid);
  if (!number) return {};
  Result<std::unique_ptr<ParentReader>> reader = ParentReader::start(parent, *number, key);
  if (!reader)
    log::warn("all chunks of device memory are read: {}", reader.error().what);
  else if (*reader != nullptr && (*reader)->give_to(a.client))
    a.parent = std::move(*reader);
  return {};
}

// Without one, device memory is copied while the program is paused.
Result<> Agents::start_owners() {
  return for_each([](Agent &a, u32) -> Result<> {
    if (std::string why_not = a.client.start_owner(); !why_not.empty())
      log::warn("process {}: {}", a.host_pid, why_not);
    return {};
  });
}

Result<> Agents::allow_owed() {
  return for_each([](Agent &a, u32) -> Result<> {
    a.client.allow_owed();
    return {};
  });
}

// Where the process that copies has ended, the program may need its contents, and must learn
// whether they are there.
bool Agents::later_while_it_runs() const {
  bool some = false;
  for (const auto &a : all_) {
    const LaterContents *later = a->saved.later.get();
    if (later != nullptr && (!a->saved.while_it_runs || later->in_doubt())) return false;
    some = some || (later != nullptr && !later->have_come());
  }
  return some;
}

bool Agents::any_later() const {
  return std::ranges::any_of(all_, [](const auto &a) { return a->saved.later != nullptr; });
}

Result<> Agents::wait_for_later() {
  for (const auto &a : all_) {
    if (!a->saved.later) continue;
    OnCancel guard(cancel_, [later = a->saved.later.get()] { later->cancel(); });
    Result<> come = tools::wait_for_later(a->saved);
    CKPT_CHECK(cancel_.check());
    if (!come) return Failure(std::move(come.error()).in(fmt::format("process {}", a->host_pid)));
  }
  return {};
}

void Agents::end_owners() {
  for (const auto &a : all_)
    if (a->saved.later) a->saved.later->drop();
}

void Agents::end_parent_readers() {
  for (const auto &a : all_)
    if (a->parent) a->parent->end();
}

Result<> Agents::write_kept(storage::ImageWriter &image) {
  for (const auto &a : all_) CKPT_CHECK(tools::write_kept(a->saved, image));
  return {};
}

Result<> Agents::save(storage::ImageWriter &image, bool later) {
  return for_each([&](Agent &a, u32 number) -> Result<> {
    std::optional<u32> in_parent;
    if (image.parent()) in_parent = agent_number_in(*image.parent(), a.welcome.pid);
    CKPT_TRY(a.saved, save_agent(a.client, a.staging, image, number, in_parent, progress_, later));
    return {};
  });
}

std::map<std::string, double> Agents::waits() const {
  std::map<std::string, double> longest;
  for (const auto &a : all_)
    for (const auto &[name, seconds] : a->waits) longest[name] = std::max(longest[name], seconds);
  return longest;
}

u64 Agents::device_bytes() const {
  u64 sum = 0;
  for (const auto &a : all_) sum += a->saved.bytes;
  return sum;
}

u64 Agents::unchanged_bytes() const {
  u64 sum = 0;
  for (const auto &a : all_) sum += a->saved.unchanged_bytes;
  return sum;
}

u64 Agents::zero_bytes() const {
  u64 sum = 0;
  for (const auto &a : all_) sum += a->saved.zero_bytes;
  return sum;
}

std::vector<std::string> Agents::blind() const {
  std::vector<std::string> all;
  for (const auto &a : all_)
    for (const std::string &why : a->saved.blind)
      all.push_back(fmt::format("process {}: {}", a->host_pid, why));
  return all;
}

// Locking takes no time worth mentioning, unless there is another process to wait for.
Result<> Agents::lock() {
  if (all_.size() < 2) return {};
  return for_each([](Agent &a, u32) { return a.client.lock(); });
}

Result<> Agents::keep(const std::string &folder) {
  if (all_.size() < 2) return {};
  return for_each([&](Agent &a, u32) { return a.client.keep(folder); });
}

Result<u64> Agents::suspend(const std::string &folder, const std::string &session, Depth depth) {
  CKPT_CHECK(keep(folder));
  if (depth == Depth::Full) CKPT_CHECK(lock());
  std::vector<std::optional<u64>> bytes(all_.size());
  Result<> done = for_each([&](Agent &a, u32 number) -> Result<> {
    CKPT_TRY(bytes[number], a.client.suspend(folder, depth));
    return {};
  });
  u64 sum = 0;
  for (u32 i = 0; i < all_.size(); i++) {
    sum += bytes[i].value_or(0);
    if (!done && bytes[i])
      if (Result<> r = all_[i]->client.wake(session); !r)
        log::error(std::move(r.error()).in(fmt::format("process {}", all_[i]->host_pid)));
  }
  if (!done) return Failure(done.error());
  return sum;
}

bool Agents::suspended() const {
  return !empty() && std::ranges::all_of(all_, [](const auto &a) {
    return a->welcome.state == protocol::State::Suspended;
  });
}

Depth Agents::depth() {
  auto at_memory = [](const auto &a) { return a->client.depth() == Depth::Memory; };
  return std::ranges::any_of(all_, at_memory) ? Depth::Memory : Depth::Full;
}

void Agents::check_depth(Depth depth, Reasons &reasons) {
  if (depth == Depth::Full) return;
  for (const auto &a : all_)
    if (!a->client.depth())
      reasons.push_back(fmt::format(
          "process {}: it runs with an earlier version of ckpt, which cannot give back memory "
          "alone: use --suspend",
          a->host_pid));
}

// In all processes before the first of them is checkpointed by its driver, as in suspend().
Result<u64> Agents::deepen() {
  std::vector<Agent *> there;
  for (const auto &a : all_)
    if (a->client.depth() == Depth::Memory) there.push_back(a.get());
  std::atomic<u64> bytes = 0;
  auto is_there = [&](Agent &a) { return std::ranges::find(there, &a) != there.end(); };
  if (there.size() > 1)
    CKPT_CHECK(for_each(
        [&](Agent &a, u32) { return is_there(a) ? a.client.lock_suspended() : Result<>(); }));
  CKPT_CHECK(for_each([&](Agent &a, u32) -> Result<> {
    if (!is_there(a)) return {};
    CKPT_TRY(u64 kept, a.client.deepen());
    bytes += kept;
    return {};
  }));
  return bytes.load();
}

Result<> Agents::detach() {
  CKPT_CHECK(lock());
  CKPT_CHECK(for_each([this](Agent &a, u32) { return detach_one(a); }));
  Reasons residue;
  for (const auto &a : all_) check_residue(a->host_pid, residue);
  if (residue.empty()) return {};
  return fail("the program did not release its devices: {}", fmt::join(residue, "; "));
}

Result<> Agents::detach_one(Agent &a) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return fail_errno("cannot create a pipe");
  UniqueFd read_end(ends[0]);
  a.outcome_pipe.reset(ends[1]);
  struct stat st {};
  if (::fstat(read_end.get(), &st) < 0) return fail_errno("cannot read the inode of a pipe");
  a.outcome_inode = st.st_ino;
  CKPT_TRY(std::string requirements, a.client.detach(read_end.get()));
  if (!requirements.empty()) a.saved.requirements = std::move(requirements);
  return {};
}

void Agents::undo(const std::string &why) {
  for (u32 i = 0; i < all_.size(); i++) {
    // An agent that did not answer the detach may have detached nevertheless. It then waits for its
    // outcome.
    if (all_[i]->outcome_pipe)
      (void)send_outcome(all_[i]->outcome_pipe.get(), protocol::Outcome::Failed, i, why);
    all_[i]->outcome_pipe.reset();
    all_[i]->client = AgentClient(UniqueFd());
    all_[i]->saved.later.reset();  // it uses the image
  }
}

void Agents::send_continue(bool owed) {
  for (u32 i = 0; i < all_.size(); i++) {
    auto outcome = owed && all_[i]->saved.while_it_runs ? protocol::Outcome::ContinueOwed
                                                        : protocol::Outcome::Continue;
    if (Result<> r = send_outcome(all_[i]->outcome_pipe.get(), outcome, i, ""); !r)
      log::warn("process {}: {}", all_[i]->host_pid, r.error().what);
    all_[i]->outcome_pipe.reset();
  }
}

bool Agents::any_detached() const {
  return std::ranges::any_of(all_, [](const auto &a) { return a->outcome_inode != 0; });
}

std::set<u64> Agents::outcome_pipes() const {
  std::set<u64> inodes;
  for (const auto &a : all_) inodes.insert(a->outcome_inode);
  return inodes;
}

std::vector<int> Agents::outcome_pipe_ends() const {
  std::vector<int> ends;
  for (const auto &a : all_) ends.push_back(a->outcome_pipe.get());
  return ends;
}

std::vector<manifest::Agent> Agents::describe() const {
  std::vector<manifest::Agent> list;
  for (const auto &a : all_)
    list.push_back({a->welcome.pid, a->outcome_inode, a->saved.bytes, a->welcome.version,
                    a->welcome.participants});
  return list;
}

std::vector<manifest::Requirement> Agents::describe_requirements() const {
  std::vector<manifest::Requirement> list;
  for (u32 i = 0; i < all_.size(); i++)
    for (auto &[api, needs] :
         parse_requirements(all_[i]->saved.requirements, all_[i]->welcome.participants))
      list.push_back({i, std::move(api), std::move(needs)});
  return list;
}

}  // namespace ckpt::tools
