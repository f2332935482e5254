// SPDX-License-Identifier: Apache-2.0
//
// The verbs of the life cycle for OpenCL. Everything but the contents of buffers lives in the
// application's memory and needs no saving.
#include "libckpt-ocl/client/participant.h"

#include "common/base/log.h"
#include "libckpt-ocl/client/devices.h"
#include "libckpt-ocl/client/enqueue.h"
#include "libckpt-ocl/client/info.h"
#include "libckpt-ocl/client/kernel.h"
#include "libckpt-ocl/client/link.h"
#include "libckpt-ocl/client/needs.h"
#include "libckpt-ocl/client/notify.h"
#include "libckpt-ocl/client/tenancy.h"

namespace ckpt::ocl {
namespace {

constexpr std::string_view kRegionPrefix = "mem-";

std::string region_name(const Mem &m) { return fmt::format("{}{}", kRegionPrefix, m.number); }

std::unordered_map<std::string, Mem *> mems_by_region() {
  std::unordered_map<std::string, Mem *> all;
  for (Mem *m : registry().all<Mem>()) all.emplace(region_name(*m), m);
  return all;
}

Result<> give_staging(int fd, u64 bytes) {
  CKPT_CHECK(link().send_fd(kStagingFd, fd));
  Writer w;
  w.put(bytes);
  if (link().ask(Op::Staging, 0, w.bytes()) != CL_SUCCESS)
    return fail("the OpenCL proxy cannot map the tool's staging memory");
  return {};
}

// Moves bytes between a buffer and the tool's staging memory.
Result<> move(Op op, const Mem &m, u64 offset, u64 bytes, u64 place) {
  Writer w;
  w.put(m.number).put(offset).put(bytes).put(place).put(u8{1});
  cl_int status = link().ask(op, 0, w.bytes());
  if (status != CL_SUCCESS)
    return fail("cannot {} {} {} of {} bytes: OpenCL error {}", op == Op::Peek ? "read" : "write",
                m.image ? "image" : "buffer", m.number, m.size, status);
  return {};
}

Result<> save_buffer(Mem &m, agent::Sink &sink) {
  CKPT_TRY(u32 region, sink.region(region_name(m), m.size));
  for (u64 at = 0; at < m.size; at += sink.slot_bytes()) {
    u32 bytes = static_cast<u32>(std::min<u64>(sink.slot_bytes(), m.size - at));
    CKPT_TRY(agent::Slot slot, sink.acquire());
    CKPT_CHECK(move(Op::Peek, m, at, bytes, u64{slot.index} * sink.slot_bytes()));
    CKPT_CHECK(sink.put(region, at, slot, bytes));
  }
  return {};
}

Result<> save_memory(Mem &m, bool increment, agent::Sink &sink) {
  if (m.parent) return {};
  if (m.excluded) {  // this image does not have it, so no later one may refer to it here
    m.written = true;
    return {};
  }
  bool same = increment && !m.written.load();
  CKPT_CHECK(same ? sink.same(region_name(m), m.size) : save_buffer(m, sink));
  m.written = false;
  return {};
}

// Every step of every live object, in the order in which they were taken: a kernel comes after the
// build of its program, and a link after the compilation of what it links.
Result<> make_everything_again() {
  std::map<u64, std::pair<Object *, const LifeStep *>> steps;
  for (Object *o : registry().all(Kind::None))
    for (const LifeStep &step : o->life) steps[step.when] = {o, &step};
  for (auto &[when, what] : steps) {
    auto [o, step] = what;
    cl_int status = link().ask(step->op, o->number, step->payload);
    if (status != CL_SUCCESS)
      return fail("cannot make object {} of kind {} again on the new device: OpenCL error {}",
                  o->number, static_cast<int>(o->kind), status);
  }
  return {};
}

// What ckpt-restore asks before a restore. Nobody asks that for the Manager, who gives us the
// device.
std::string why_not_here(const std::string &device, const Greeting &greeting) {
  if (greeting.platforms.empty())
    return fmt::format("the OpenCL device {} is none of this program's", device);
  Bytes reply;
  std::string reasons;
  if (link().ask(Op::CheckNeeds, 0, Writer().str(needs_as_json()).bytes(), &reply) != CL_SUCCESS)
    return {};
  Reader r(reply);
  for (u32 n = r.get<u32>(); n > 0 && r.ok(); n--)
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", r.str());
  return reasons;
}

// Variables at program scope (OpenCL C 2.0 and 3.0) are in no buffer: nothing can fetch them. We do
// not show a device that has them, but a program need not ask.
// The gate is open: what is asked for may be gone when the proxy hears of it, and then has none.
void global_variables(std::vector<std::string> &reasons) {
  constexpr cl_program_build_info kParam = CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE;
  std::vector<std::pair<u64, u64>> built;  // numbers of a program and of a device
  registry().each<Program>([&](Program &p) {
    for (Device *d : p.devices)
      if (p.was_built && d->shows_3_0()) built.emplace_back(p.number, d->number);
  });
  for (auto [program, device] : built) {
    Bytes value;
    size_t bytes = 0;
    if (remote_info(InfoOf::ProgramBuild, program, device, kParam, value) != CL_SUCCESS) continue;
    std::memcpy(&bytes, value.data(), std::min(value.size(), sizeof bytes));
    if (bytes > 0)
      reasons.push_back(fmt::format(
          "OpenCL program {} keeps {} bytes in variables at program scope, which cannot be saved",
          program, bytes));
  }
}

class OpenCl final : public agent::Participant {
 public:
  // What forked() needs is there from now on: a fork during its making would never see it made.
  OpenCl() {
    link();
    gate();
  }

  const char *name() const override { return "ocl"; }

  void preflight(std::vector<std::string> &reasons) override {
    if (!link().usable())
      reasons.push_back("the OpenCL driver's process is gone: its buffers are lost");
    else
      global_variables(reasons);
  }

  Result<> quiesce(std::chrono::steady_clock::time_point deadline) override {
    gate().close();
    link().wake_waiters();
    if (!gate().wait_empty(deadline))
      return fail_with_hint("an OpenCL call did not return in time",
                            "a program is being compiled, say; try again, or a longer --timeout");
    for (Queue *q : registry().all<Queue>()) settle(*q);
    link().flush_releases();
    auto late = [&] { return std::chrono::steady_clock::now() >= deadline; };
    bool alive = link().wait_until([&] { return link().idle() || late(); }, false);
    if (!alive) return fail("the OpenCL driver's process is gone");
    if (!link().idle())
      return fail_with_hint("OpenCL commands are still running on the device",
                            "wait longer with --timeout");
    return {};
  }

  Result<> save(agent::Sink &sink) override {
    CKPT_CHECK(give_staging(sink.staging_fd(), u64{sink.slot_count()} * sink.slot_bytes()));
    // What happens to be unwritten since an older save tells nothing about this image's parent.
    bool increment = last_save_ != agent::ImageId{} && sink.parent() == last_save_;
    last_save_ = {};
    Result<> saved;
    for (Mem *m : registry().all<Mem>())
      if (saved) saved = save_memory(*m, increment, sink);
    link().ask(Op::StagingEnd, 0, {});
    if (saved) last_save_ = sink.image();
    return saved;
  }

  std::string needs() override { return needs_as_json(); }

  Result<> detach() override {
    CKPT_CHECK(link().park());
    std::unordered_set<Mem *> mapped;
    std::vector<Mem *> mems = registry().all<Mem>();
    for (Mem *m : mems)
      if (!m->maps.empty()) mapped.insert(m->root());
    for (Mem *m : mems)  // what is not mapped is on the device alone
      if (m->shadow.data && !mapped.contains(m))
        ::madvise(m->shadow.data, m->shadow.bytes, MADV_DONTNEED);
    return {};
  }

  void release_devices() override {
    tell_holder(0);
    if (Result<> r = link().abandon(agent::session_socket()); !r) log::warn("{}", r.error().what);
  }

  Result<> attach_again() override { return link().reopen(agent::session_socket()); }

  // Of the Manager, which gives one device for all.
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
        return fail("the image holds a region {} that this program does not have", piece.region);
      CKPT_CHECK(move(Op::Poke, *m, piece.offset, piece.bytes,
                      u64{piece.slot.index} * source.slot_bytes()));
      CKPT_CHECK(source.release(piece.slot));
    }
    link().ask(Op::StagingEnd, 0, {});
    return {};
  }

  void resume() override { gate().open(); }

  bool exclude(const void *handle) override {
    if (!registry().holds(handle, Kind::Mem)) return false;
    object<Mem>(handle)->root()->excluded = true;
    return true;
  }

  void forked() override {
    link().forget();
    gate().forget();
    forget_callbacks();
    last_save_ = {};
  }

 private:
  Result<> attach_to(const std::string &session, const std::string &device) {
    CKPT_TRY(Greeting greeting, link().open(session, device));
    tell_holder(greeting.pid);
    forget_info(nullptr);
    for (Device *d : registry().all<Device>()) {
      d->stamp_offset = 0;
      d->stamp_floor = d->last_stamp;
    }
    if (!device.empty()) unsuited_ = why_not_here(device, greeting);
    if (!unsuited_.empty()) return fail("{}", unsuited_);
    if (!map_devices()) return fail("the new devices cannot stand for the old ones");
    CKPT_CHECK(make_everything_again());
    for (Kernel *k : registry().all<Kernel>()) forget_far_side(*k);
    return {};
  }

  std::string device_;    // for the next attach(): its UUID; empty: the session's choice
  std::string unsuited_;  // why the devices of the last one will not do
  // The image of the last save that came to its end, here or in the process of which this is a
  // copy. What is not Mem::written is as it was then.
  agent::ImageId last_save_{};
};

}  // namespace

agent::Participant *participant() {
  static OpenCl *p = new OpenCl;
  return p;
}

agent::Gate &gate() {
  static agent::Gate *g = new agent::Gate;
  return *g;
}

}  // namespace ckpt::ocl
