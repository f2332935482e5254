// SPDX-License-Identifier: Apache-2.0
//
// The verbs of the life cycle for OpenCL. Only the contents of memory objects need saving: all
// other state lies in the application's memory, which CRIU saves.
#include "libckpt-ocl/client/lifecycle/participant.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "libckpt-ocl/client/command/callbacks.h"
#include "libckpt-ocl/client/command/command.h"
#include "libckpt-ocl/client/entry/devices.h"
#include "libckpt-ocl/client/entry/kernel.h"
#include "libckpt-ocl/client/entry/program.h"
#include "libckpt-ocl/client/lifecycle/arriving_contents.h"
#include "libckpt-ocl/client/lifecycle/manager_requests.h"
#include "libckpt-ocl/client/lifecycle/owed_contents.h"
#include "libckpt-ocl/client/lifecycle/recreation.h"
#include "libckpt-ocl/client/lifecycle/requirements.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/client/slices/sliced_kernel.h"
#include "libckpt-ocl/client/transfer/shared_memory.h"

namespace ckpt::ocl {
namespace {

std::unordered_map<std::string, Mem *> mems_by_region() {
  std::unordered_map<std::string, Mem *> all;
  for (Mem *m : registry().all<Mem>()) all.emplace(region_name(*m), m);
  return all;
}

Result<> give_staging(int fd, u64 bytes) {
  CKPT_CHECK(link().send_fd(kStagingFd, fd));
  Writer w;
  w.put(bytes);
  if (link().round_trip(Op::Staging, 0, w.bytes()) != CL_SUCCESS)
    return fail("the OpenCL proxy cannot map the tool's staging memory; its log names the reason");
  return {};
}

// Moves bytes between a memory object and the tool's staging memory.
Result<> move(Op op, const Mem &m, u64 offset, u64 bytes, u64 place) {
  Writer w;
  w.put(m.number).put(offset).put(bytes).put(place).put(u8{1});
  cl_int status = link().round_trip(op, 0, w.bytes());
  if (status != CL_SUCCESS)
    return fail("cannot {} {} {} of {} bytes: OpenCL error {}",
                op == Op::ReadContents ? "read" : "write", m.image ? "image" : "buffer", m.number,
                m.size, status);
  return {};
}

Result<> save_buffer(Mem &m, agent::Sink &sink) {
  CKPT_TRY(u32 region, sink.region(region_name(m), m.size));
  for (u64 at = 0; at < m.size; at += sink.slot_bytes()) {
    u32 bytes = static_cast<u32>(std::min<u64>(sink.slot_bytes(), m.size - at));
    CKPT_TRY(agent::Slot slot, sink.acquire());
    CKPT_CHECK(move(Op::ReadContents, m, at, bytes, u64{slot.index} * sink.slot_bytes()));
    CKPT_CHECK(sink.put(region, at, slot, bytes));
  }
  return {};
}

// No increment may refer to this image for contents that it does not hold, or that only CRIU has.
std::vector<Mem *> roots_to_save() {
  std::vector<Mem *> roots;
  for (Mem *m : registry().all<Mem>()) {
    if (m->parent) continue;
    if (saved_with_pages(*m) || m->excluded)
      m->written = true;
    else
      roots.push_back(m);
  }
  return roots;
}

Result<> save_memory(Mem &m, OwedContents &owed, agent::Sink &sink) {
  CKPT_TRY(bool left, owed.take(m, sink));
  if (!left) CKPT_CHECK(save_buffer(m, sink));
  m.written = false;
  return {};
}

Result<> save_all(bool increment, agent::Sink &sink) {
  std::vector<Mem *> changed;
  for (Mem *m : roots_to_save())
    if (increment && !m->written.load())
      CKPT_CHECK(sink.same(region_name(*m), m->size));
    else
      changed.push_back(m);
  CKPT_TRY(OwedContents owed, OwedContents::offer(sink, changed));
  for (Mem *m : changed) CKPT_CHECK(save_memory(*m, owed, sink));
  return owed.begin();
}

std::vector<std::string> failed_requirements(const std::string &requirements) {
  Bytes reply;
  std::vector<std::string> reasons;
  if (link().round_trip(Op::CheckRequirements, 0, Writer().str(requirements).bytes(), &reply) !=
      CL_SUCCESS)
    return {};
  Reader r(reply);
  for (u32 n = r.get<u32>(); n > 0 && r.ok(); n--) reasons.emplace_back(r.str());
  return reasons;
}

// The check that ckpt-restore makes before a restore. If the Manager assigns the device, no tool
// makes it, so it is made here. Returns the reasons against the device, or an empty string.
std::string reasons_against(const std::string &device, const Greeting &greeting) {
  if (greeting.platforms.empty())
    return fmt::format("the OpenCL device {} is not visible to this program", device);
  return fmt::format("{}", fmt::join(failed_requirements(requirements_as_json()), "; "));
}

// Variables at program scope (OpenCL C 2.0 and 3.0) lie in no buffer, so nothing can read them. No
// device advertises them, but a program may use them without a query.
//
// The gate is open: a program may be destroyed before the proxy gets the query; it then has none.
void find_program_scope_variables(std::vector<std::string> &reasons) {
  std::vector<std::pair<u64, u64>> built;  // numbers of a program and of a device
  registry().each<Program>([&](Program &p) {
    for (Device *d : p.devices)
      if (p.was_built && d->shows_3_0()) built.emplace_back(p.number, d->number);
  });
  for (auto [program, device] : built) {
    if (size_t bytes = program_scope_bytes(program, device); bytes > 0)
      reasons.push_back(fmt::format(
          "OpenCL program {} keeps {} bytes in variables at program scope, which cannot be saved",
          program, bytes));
  }
}

// Whether the compiler finds all that a program includes among the files that were kept.
void find_missing_headers(std::vector<std::string> &reasons) {
  std::string doubtful = doubtful_programs_as_json();
  if (doubtful.empty()) return;
  for (const std::string &why : failed_requirements(doubtful))
    reasons.push_back(
        fmt::format("an OpenCL program includes a file that was not found when it was built, so a "
                    "restore could not build it: {}",
                    why));
  if (!reasons.empty()) return;
  registry().each<Program>([](Program &p) {
    std::lock_guard lock(p.mutex);
    p.missed_files.clear();
  });
}

class OpenCl final : public agent::Participant {
 public:
  // Creates what forked() uses: a fork in the middle of its creation would leave it half made.
  OpenCl() {
    link();
    gate();
  }

  const char *name() const override { return "ocl"; }

  void preflight(std::vector<std::string> &reasons) override {
    if (!link().check_alive())
      reasons.push_back("the OpenCL proxy has ended, and the contents of its buffers are lost");
    if (!reasons.empty()) return;
    find_program_scope_variables(reasons);
    find_missing_headers(reasons);
  }

  Result<> quiesce(Clock::time_point deadline) override {
    gate().close();
    link().wake_waiters();
    if (!gate().wait_empty(deadline))
      return fail_with_hint("an OpenCL call did not return in time",
                            "it may be compiling a program; try again, or with a longer --timeout");
    for (Queue *q : registry().all<Queue>()) request_marker(*q);
    link().flush_releases();
    auto late = [&] { return Clock::now() >= deadline; };
    bool alive = link().wait_until([&] { return link().idle() || late(); }, false);
    if (!alive) return fail("the OpenCL proxy has ended");
    if (!link().idle())
      return fail_with_hint("OpenCL commands are still running on the device",
                            "try again with a longer --timeout");
    return {};
  }

  Result<> save(agent::Sink &sink) override {
    CKPT_CHECK(give_staging(sink.staging_fd(), u64{sink.slot_count()} * sink.slot_bytes()));
    // Mem::written counts since the last save, so it says something about this image's parent only
    // if that is the image of the last save.
    bool increment = last_save_ != agent::ImageId{} && sink.parent() == last_save_;
    last_save_ = {};
    Result<> saved = save_all(increment, sink);
    link().round_trip(Op::StagingEnd, 0, {});
    if (saved) last_save_ = sink.image();
    return saved;
  }

  std::string requirements() override { return requirements_as_json(); }
  Result<std::string> requirements_now() override { return requirements_at_rest(); }
  std::optional<agent::Traffic> traffic() const override { return link().traffic.read(); }
  u64 held_bytes() override { return bytes_of_memory(); }
  void devices(std::vector<std::string> &all) override { append_used_devices(all); }

  Result<> detach() override {
    CKPT_CHECK(take_buffer_files());
    CKPT_CHECK(link().park());
    leave_buffer_files();
    const std::unordered_set<const Mem *> mapped = mapped_roots();
    for (Mem *m :
         registry().all<Mem>())  // an unmapped shadow holds nothing that the device does not have
      if (m->shadow.data && !m->svm && !mapped.contains(m))
        ::madvise(m->shadow.data, m->shadow.bytes, MADV_DONTNEED);
    return {};
  }

  void release_devices() override {
    report_memory_owner(0);
    if (Result<> r = link().abandon(agent::session_socket()); !r) log::warn("{}", r.error().what);
  }

  Result<> attach_again() override {
    CKPT_CHECK(link().reopen(agent::session_socket()));
    return map_buffer_files();
  }

  // The Manager assigns one device for all old ones.
  Result<> use_devices(std::span<const agent::DevicePair> map) override {
    device_ = map.empty() ? "" : map.back().to;
    return {};
  }

  Result<> attach(const std::string &session) override {
    unsuited_.clear();
    Result<> attached = attach_to(session, std::exchange(device_, {}));
    if (!attached) link().close();
    return attached;
  }

  std::chrono::milliseconds compiled() const override { return compiled_; }

  std::string unsuited() const override { return unsuited_; }

  std::string place() const override {
    std::set<std::string> uuids;
    for (Device *d : used_devices()) uuids.insert(d->real.uuid);
    return uuids.size() == 1 ? *uuids.begin() : "";
  }

  Result<> load(agent::Source &source) override {
    CKPT_CHECK(give_staging(source.staging_fd(), u64{source.slot_count()} * source.slot_bytes()));
    std::unordered_map<std::string, Mem *> mems = mems_by_region();
    agent::Source::Piece piece;
    for (;;) {
      CKPT_TRY(bool more, source.next(piece));
      if (!more) break;
      auto found = mems.find(piece.region);
      Mem *m = found == mems.end() ? nullptr : found->second;
      if (!m || piece.offset > m->size || piece.bytes > m->size - piece.offset)
        return fail("the image holds region \"{}\", which does not exist in this program",
                    piece.region);
      CKPT_CHECK(move(Op::WriteContents, *m, piece.offset, piece.bytes,
                      u64{piece.slot.index} * source.slot_bytes()));
      CKPT_CHECK(source.release(piece.slot));
    }
    link().round_trip(Op::StagingEnd, 0, {});
    return {};
  }

  std::vector<bool> load_later(std::span<const agent::LaterRegion> regions, int tool) override {
    return ocl::load_later(regions, tool);
  }

  void resume() override {
    close_buffer_files();
    gate().open();
  }

  bool exclude(const void *handle) override {
    if (!registry().holds(handle, Kind::Mem)) return false;
    object<Mem>(handle)->root()->excluded = true;
    return true;
  }

  bool include(const void *handle) override {
    if (!registry().holds(handle, Kind::Mem)) return false;
    object<Mem>(handle)->root()->excluded = false;
    return true;
  }

  void forked() override {
    link().forget();
    gate().forget();
    reset_callbacks();
    SharedRange::all_in_child();
    last_save_ = {};
  }

 private:
  Result<> attach_to(const std::string &session, const std::string &device) {
    CKPT_TRY(Greeting greeting, link().open(session, device));
    report_memory_owner(greeting.pid);
    forget_info(nullptr);
    for (Device *d : registry().all<Device>()) {
      d->stamp_offset = 0;
      d->stamp_floor = d->last_stamp;
      d->work_times.forget();
    }
    for (Queue *q : registry().all<Queue>()) q->window.reset();
    for (Mem *m : registry().all<Mem>()) m->owed = false;  // that was the other proxy's
    forget_arrivals();
    for (Context *c : registry().all<Context>()) c->copies = false;
    if (!device.empty()) unsuited_ = reasons_against(device, greeting);
    if (!unsuited_.empty()) return fail("{}", unsuited_);
    if (!map_devices())
      return fail(
          "the new devices cannot take the place of the old ones; the proxy's log names the "
          "reason");
    CKPT_CHECK(prepare_slices_again());
    CKPT_CHECK(recreate_objects(compiled_));
    for (Kernel *k : registry().all<Kernel>()) forget_proxy_state(*k);
    return {};
  }

  std::chrono::milliseconds compiled_{};
  std::string device_;    // UUID of the device for the next attach(); empty: the session's choice
  std::string unsuited_;  // the reasons against the devices of the last attach()
  // The image of the last complete save, in this process or in the one that it is a copy of.
  // Objects without Mem::written have not changed since.
  agent::ImageId last_save_{};
};

}  // namespace

agent::Participant *participant() {
  static OpenCl *p = new OpenCl;
  return p;
}

}  // namespace ckpt::ocl
