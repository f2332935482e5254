// SPDX-License-Identifier: Apache-2.0
#include "fatbin/summary.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>

#include "common/base/cores.h"
#include "common/base/parallel.h"
#include "common/base/shortage.h"
#include "common/base/units.h"
#include "fatbin/cubin.h"
#include "fatbin/examination.h"
#include "fatbin/ptx.h"

namespace ckpt::fatbin {
namespace {

constexpr u64 kMaxExpansion = 100;
constexpr u64 kLeastBudget = u64{1} << 30;
constexpr size_t kMaxNameBytes = 512u << 20;  // of all kernels, variables and references

Result<CodeFacts> facts_of(const Entry &entry, const Payload &payload) {
  switch (entry.kind) {
    case Kind::Elf: return facts_of_cubin(payload.bytes());
    case Kind::Ptx: return facts_of_ptx(payload.text());
    default: return fail("entries of kind {} are not supported", static_cast<u16>(entry.kind));
  }
}

std::string described(const Entry &e) {
  return fmt::format("{} entry of {}", name_of(e.kind), e.target());
}

struct Job {
  const Entry *entry;
  size_t container_index, entry_index;
  Scope scope;
};

std::vector<Job> jobs_of(const Image &image) {
  std::vector<Job> jobs;
  std::vector<std::vector<Scope>> scopes = scopes_of(image);
  for (size_t i = 0; i < scopes.size(); ++i)
    for (size_t k = 0; k < scopes[i].size(); ++k) {
      const Container &c = image.containers()[i];
      if (scopes[i][k] != Scope::Nothing) jobs.push_back({&c.entries[k], i, k, scopes[i][k]});
    }
  return jobs;
}

// Merges the facts of entries. They may arrive in any order; the result does not depend on it.
class Merger {
 public:
  explicit Merger(const Image &image) : single_(image.containers().size() == 1) {}

  Result<> add(size_t order, const Job &job, const CodeFacts &f) {
    add_instructions(f);
    if (job.scope == Scope::Instructions) return {};
    if (f.is_device_runtime) return {};  // rule 4 in examination.cc
    out_.prints |= f.prints;
    out_.launches |= f.launches;
    if (job.scope == Scope::All && !f.heap_function.empty())
      note_heap(order, HeapUse::Yes, heap_reason(job, f));
    for (const Kernel &k : f.kernels) CKPT_CHECK(add_kernel(order, k, target(job, f)));
    for (const Variable &v : f.variables) CKPT_CHECK(add_variable(order, v, target(job, f)));
    for (const Reference &r : f.references) CKPT_CHECK(add_reference(r));
    return {};
  }

  void add_unexamined(size_t order, const Job &job, std::string reason) {
    if (job.scope == Scope::All) note_heap(order, HeapUse::Assumed, reason);
    out_.unexamined.push_back({job.container_index, job.entry_index, std::move(reason)});
  }

  // `any`: whether there was an entry to examine.
  Summary take(bool any) {
    if (out_.heap.reason.empty())
      out_.heap.reason = any ? "no device code calls malloc" : "there is no device code";
    bool open = !out_.unexamined.empty() || !all_in_ptx();
    auto use = [&](bool yes) { return yes ? Use::Yes : open ? Use::Unknown : Use::No; };
    out_.textures = use(textures_);
    out_.surfaces = use(surfaces_);
    std::ranges::sort(out_.unexamined, {},
                      [](const Unexamined &u) { return std::pair(u.container, u.entry); });
    return std::move(out_);
  }

 private:
  void add_instructions(const CodeFacts &f) {
    textures_ |= f.uses_textures.value_or(false);
    surfaces_ |= f.uses_surfaces.value_or(false);
    std::unordered_set<size_t> &seen = f.uses_textures ? in_ptx_ : in_cubins_;
    for (const Kernel &k : f.kernels) seen.insert(std::hash<std::string>()(k.name));
  }
  // Without the PTX of a kernel its instructions are unknown.
  bool all_in_ptx() const {
    return std::ranges::all_of(in_cubins_, [&](size_t name) { return in_ptx_.contains(name); });
  }

  std::string place(const Job &job) const {
    std::string what = "the " + described(*job.entry);
    return single_ ? what : fmt::format("{} in fat binary {}", what, job.container_index);
  }

  std::string heap_reason(const Job &job, const CodeFacts &f) const {
    return fmt::format("{} calls {}{}", place(job), f.heap_function,
                       f.relocatable || job.entry->is_unit()
                           ? " (before linking, which may remove the call)"
                           : "");
  }

  static std::string target(const Job &job, const CodeFacts &f) {
    return job.entry->kind == Kind::Elf ? f.target : job.entry->target();
  }

  // Yes goes before Assumed, and an earlier entry before a later one.
  void note_heap(size_t order, HeapUse use, std::string reason) {
    bool stronger = use == HeapUse::Yes && out_.heap.use != HeapUse::Yes;
    bool first = use == out_.heap.use && order < heap_order_;
    if (out_.heap.use == HeapUse::No || stronger || first) {
      out_.heap = {use, std::move(reason)};
      heap_order_ = order;
    }
  }

  Result<> charge(size_t bytes) {
    names_ += bytes;
    if (names_ > kMaxNameBytes)
      return fail("the names of its kernels and variables exceed the limit of {}",
                  mebibytes(kMaxNameBytes));
    return {};
  }

  Result<> add_reference(const Reference &r) {
    if (r.kind == ReferenceKind::Texture) textures_ = true;
    if (r.kind == ReferenceKind::Surface) surfaces_ = true;
    CKPT_CHECK(charge(kReferenceBytes + r.name.size()));
    out_.references.emplace(r.name, r.kind);
    return {};
  }

  Result<> add_kernel(size_t order, const Kernel &k, const std::string &target) {
    CKPT_CHECK(charge(kNodeBytes + k.name.size() + k.parameters.size() * sizeof(Parameter)));
    auto [it, is_new] = out_.kernels.try_emplace(k.name, KernelSummary{k, order, {}, false});
    KernelSummary &s = it->second;
    s.targets.insert(target);
    s.differs |= s.kernel.parameters != k.parameters;
    if (order < s.first) {
      s.kernel = k;
      s.first = order;
    }
    return {};
  }

  Result<> add_variable(size_t order, const Variable &v, const std::string &target) {
    CKPT_CHECK(charge(kNodeBytes + v.name.size()));
    auto [it, is_new] = out_.variables.try_emplace(v.name, VariableSummary{v, order, {}, false});
    VariableSummary &s = it->second;
    s.targets.insert(target);
    s.differs |= s.variable != v;
    if (order < s.first) {
      s.variable = v;
      s.first = order;
    }
    return {};
  }

  static constexpr size_t kReferenceBytes = 64;
  static constexpr size_t kNodeBytes = 200;  // a map node with one target

  Summary out_;
  const bool single_;
  size_t heap_order_ = 0;
  size_t names_ = 0;
  bool textures_ = false, surfaces_ = false;
  std::unordered_set<size_t> in_ptx_, in_cubins_;  // hashes of kernel names
};

// Examines entries in several threads, each of which takes the next one, and merges their facts.
class Examiner {
 public:
  Examiner(const Image &image, const SummaryOptions &options)
      : image_(image), options_(options), jobs_(jobs_of(image)), merger_(image) {
    for (const Job &j : jobs_) total_ += j.entry->stored_bytes;
    limit_ = left_ = options.max_total_bytes ? options.max_total_bytes
                                             : std::max(kLeastBudget, total_ * kMaxExpansion);
  }

  Result<Summary> run() {
    run_parallel(thread_count(), [this](unsigned) { work(); });
    if (!failed_) return Failure(std::move(failed_).error());
    Summary summary = merger_.take(!jobs_.empty());
    summary.payload_bytes = payload_bytes_;
    return summary;
  }

 private:
  unsigned thread_count() const {
    size_t wanted = options_.threads ? options_.threads : std::min(usable_cores(), 4u);
    return static_cast<unsigned>(std::min(wanted, std::max<size_t>(jobs_.size(), 1)));
  }

  void work() {
    for (size_t i; (i = next_++) < jobs_.size();) {
      const Entry &e = *jobs_[i].entry;
      Result<CodeFacts> facts = guarded([&] { return examine(e); });
      std::lock_guard lock(mutex_);
      if (!failed_) return;
      if (facts) {
        failed_ = merger_.add(i, jobs_[i], *facts);
        payload_bytes_ += e.bytes;
      } else {
        merger_.add_unexamined(i, jobs_[i], facts.error().what);
      }
      done_ += e.stored_bytes;
      if (options_.progress) options_.progress(done_, total_);
    }
  }

  Result<CodeFacts> examine(const Entry &e) {
    if (!take_from_budget(e.bytes))
      return fail("the {} was skipped: all entries together exceed the limit of {} bytes",
                  described(e), limit_);
    CKPT_TRY(Payload payload, image_.payload(e, options_.max_payload_bytes));
    Result<CodeFacts> facts = facts_of(e, payload);
    if (facts) return facts;
    return Failure(std::move(facts).error().in(fmt::format("the {}", described(e))));
  }

  bool take_from_budget(u64 bytes) {
    std::lock_guard lock(mutex_);
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

  const Image &image_;
  const SummaryOptions &options_;
  const std::vector<Job> jobs_;
  u64 total_ = 0;
  std::atomic<size_t> next_ = 0;

  std::mutex mutex_;
  u64 limit_ = 0, left_ = 0;
  u64 done_ = 0, payload_bytes_ = 0;
  Merger merger_;
  Result<> failed_;
};

}  // namespace

Result<Summary> summarize(const Image &image, const SummaryOptions &options) {
  return Examiner(image, options).run();
}

const char *name_of(HeapUse use) {
  switch (use) {
    case HeapUse::Yes: return "yes";
    case HeapUse::Assumed: return "assumed";
    case HeapUse::No: break;
  }
  return "no";
}

const char *name_of(Use use) {
  switch (use) {
    case Use::Yes: return "yes";
    case Use::Unknown: return "unknown";
    case Use::No: break;
  }
  return "no";
}

}  // namespace ckpt::fatbin
