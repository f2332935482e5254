// SPDX-License-Identifier: Apache-2.0
//
// The verbs of the life cycle. The program's memory holds all but the contents of device memory:
// the ledger says how to make the objects again, on whatever device.
#include "remote/cuda/client/lifecycle/participant.h"

#include <dlfcn.h>

#include <filesystem>

#include "agent/participant/participant.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "driver-checkpoint/forked_child.h"
#include "remote/cuda/client/code/textures.h"
#include "remote/cuda/client/lifecycle/chosen_devices.h"
#include "remote/cuda/client/lifecycle/contents.h"
#include "remote/cuda/client/lifecycle/copies_ahead.h"
#include "remote/cuda/client/lifecycle/quiesce.h"
#include "remote/cuda/client/lifecycle/replay.h"
#include "remote/cuda/client/lifecycle/requirements.h"
#include "remote/cuda/client/link/gate.h"
#include "remote/cuda/client/link/native.h"
#include "remote/cuda/client/memory/host_memory.h"
#include "remote/cuda/client/memory/shared_memory.h"
#include "remote/cuda/client/memory/virtual_memory.h"
#include "remote/cuda/client/objects/event_times.h"

namespace ckpt::remote::cuda {
namespace {

// As /proc/self/maps has it: a program may have opened "libcuda.so", which is a symbolic link.
std::string own_path() {
  static const int kHere = 0;
  Dl_info info{};
  if (::dladdr(&kHere, &info) == 0 || !info.dli_fname) return "";
  std::error_code e;
  std::filesystem::path real = std::filesystem::canonical(info.dli_fname, e);
  return e ? info.dli_fname : real.string();
}

void append_obstacles(std::vector<std::string> &blockers) {
  if (std::string obstacle = texture_obstacle(); !obstacle.empty())
    blockers.push_back(std::move(obstacle));
  for (const Ledger::Object &o : ledger().objects()) {
    if (!o.code || o.code->needs().obstacle.empty()) continue;
    const CodeNeeds &n = o.code->needs();
    blockers.push_back(
        fmt::format("the code with the kernel \"{}\" cannot be saved: {}", n.kernel, n.obstacle));
  }
}

u64 bytes_on(const std::vector<KnownDevice> &devices) {
  u64 bytes = 0;
  for (const KnownDevice &d : devices) bytes += d.bytes;
  return bytes;
}

class RemoteCuda final : public agent::Participant {
 public:
  const char *name() const override { return "cuda"; }
  bool answers_for(std::string_view path) const override {
    return path == path_ || own_driver().answers_for(path);
  }
  Calls calls() override {
    agent::Gate::Entered e = gate().entered();
    return {e.count, e.last, e.copied};
  }
  std::optional<agent::Traffic> traffic() const override { return link().traffic.read(); }
  u64 held_bytes() override { return bytes_on(link().connected() ? read_devices() : devices_); }
  Result<std::string> requirements_now() override {
    return requirements_as_json(link().connected() ? read_devices() : devices_);
  }

  void preflight(std::vector<std::string> &blockers) override {
    if (link().lost() != CUDA_SUCCESS)
      blockers.push_back("its CUDA device is lost, with the contents: " + link().why_lost());
    else if (kernel_failed())
      blockers.push_back("a kernel of it has failed, so that every call returns that error");
    else
      append_obstacles(blockers);
  }

  void copy_ahead(u32 rounds, u64 most, const std::function<bool()> &stop) override {
    // Beside a driver in this process a copy takes as long later.
    if (!link().native()) copies_ahead().copy(rounds, most, stop);
  }
  void drop_ahead() override { copies_ahead().drop(); }
  // A driver in this process ends with all its objects, and so do their contents.
  bool keeps_contents() const override { return keeps_contents_; }
  u64 lost_bytes() const override { return bytes_on(devices_); }

  void remarks(std::vector<std::string> &all) override {
    if (!why_not_here_.empty())
      all.push_back("its CUDA calls go to ckpt-cuda-server, not to a driver in its process: " +
                    why_not_here_);
  }

  Result<> quiesce(Clock::time_point deadline) override {
    gate().close();
    keeps_contents_ = !link().native();
    CKPT_CHECK(quiesce_devices(deadline));
    CKPT_CHECK(shared_memory().settle());
    devices_ = read_devices();
    return {};
  }

  Result<> save(agent::Sink &sink) override {
    note_event_times();
    return save_contents(sink);
  }
  std::string requirements() override { return requirements_as_json(devices_); }
  void devices(std::vector<std::string> &all) override {
    for (const KnownDevice &d : link().connected() ? read_devices() : devices_)
      if (d.used) all.push_back(d.name);
  }
  std::string place() const override {
    std::string only;
    for (const KnownDevice &d : devices_)
      if (d.used) only = only.empty() ? d.uuid : "several";
    return only == "several" ? "" : only;
  }

  // What attach() has connected to has nothing that another attach() would not make again.
  Result<> detach() override {
    bool attached = std::exchange(attached_, false);
    bool split = link().is_split();
    if (split) link().close();
    if (link().native()) return leave_driver_here();
    if (!attached) return link().park(agent::session_socket());
    link().close();
    return {};
  }
  void release_devices() override {
    if (!link().parked()) return;
    if (Result<> r = link().abandon(agent::session_socket()); !r) log::warn("{}", r.error().what);
  }
  Result<> attach_again() override {
    if (!keeps_contents_) return link().native() ? Result<>() : make_again(agent::session_socket());
    CKPT_CHECK(link().reopen(agent::session_socket()));
    return shared_memory().keep();
  }

  Result<> attach(const std::string &session) override {
    Result<> r = make_again(session);
    attached_ = r.has_value();
    if (!r) link().close();
    return r;
  }
  std::chrono::milliseconds compiled() const override { return compiled_; }
  Result<> load(agent::Source &source) override { return load_contents(source); }

  void resume() override {
    attached_ = false;
    link().resume();
    shared_memory().resume();
    gate().open();
  }

  bool exclude(const void *handle) override { return memory().exclude(number_of(handle), true); }
  bool include(const void *handle) override { return memory().exclude(number_of(handle), false); }
  // Of the driver that is in the program after a move to its own node. Page-locked memory is the
  // program's own there.
  void before_fork() override {
    ckpt::cuda::note_before_fork([](u64, u64) { return false; });
  }
  void forked() override {
    ckpt::cuda::mend_forked_child();
    link().forked();
    gate().forget();
  }

 private:
  Result<> make_again(const std::string &session) {
    why_not_here_ = {};
    Result<std::vector<std::string>> ids = chosen_devices(session);
    if (ids && ChosenDevices(*ids).are_split()) return make_split(session, ChosenDevices(*ids));
    std::optional<OwnDriver::Offer> offer;
    CKPT_CHECK(link().open(session, offer));
    if (!offer) return make_objects();
    Result<> here = make_here(*offer, {});
    if (here) {
      link().close();
      return {};
    }
    why_not_here_ = here.error().what;
    log::info("calls go to ckpt-cuda-server, not to a driver in this process: {}", why_not_here_);
    return make_objects();
  }

  // Some devices of this node, and others of another one.
  Result<> make_split(const std::string &session, const ChosenDevices &chosen) {
    CKPT_TRY(OwnDriver::Offer offer, offer_for(session, chosen.ids_of(true)));
    CKPT_CHECK(link().open_for(session, chosen.ids_of(false), chosen.numbers_of(false)));
    Result<> made = make_here(offer, chosen);
    if (!made) link().close();
    return made;
  }

  // The driver of this node in this process, for all devices or for those of `chosen`. After an
  // error there is none.
  Result<> make_here(const OwnDriver::Offer &offer, const std::optional<ChosenDevices> &chosen) {
    if (std::string why = why_no_driver_here(); !why.empty()) return fail("{}", why);
    memory().free_addresses();
    Result<DeviceNumbers> devices = own_driver().start(offer);
    Result<> made;
    if (devices) {
      link().use_own_driver(chosen ? devices->spread(chosen->numbers_of(true))
                                   : std::move(*devices));
      if (chosen)
        link().split(chosen->here(), [](u64 context) { return ledger().device_of(context); });
      made = make_objects();
      for (const HostRange &r : host_memory().all())
        if (made) link().native()->lock_pages(r.context, r.base, r.bytes);
    } else {
      made = Failure(devices.error());
    }
    memory().keep_addresses();
    if (made || !link().native()) return made;
    CKPT_CHECK(leave_driver_here());
    return made;
  }

  // Calls are all made here then, and those for objects of the other side do nothing.
  static Result<> leave_driver_here() {
    link().split({});
    end_objects();
    link().native()->unlock_all_pages();
    link().native()->unmap_all();
    end_contexts();
    link().leave_own_driver();
    return own_driver().park();
  }

  Result<> make_objects() {
    forget_what_devices_said();
    ledger().forget_shapes();
    CKPT_CHECK(memory().make_again());
    CKPT_CHECK(virtual_memory().make_again());
    CKPT_CHECK(replay_ledger(compiled_));
    CKPT_CHECK(shared_memory().make_again());
    use_event_times();
    return {};
  }

  const std::string path_ = own_path();
  std::vector<KnownDevice> devices_;  // as of the last quiesce()
  std::chrono::milliseconds compiled_{};
  bool attached_ = false;       // to a new server, and the program does not run on it yet
  bool keeps_contents_ = true;  // where the program was at the last quiesce()
  std::string why_not_here_;    // why a device of this node is used by a server
};

}  // namespace

Result<> join_session(const std::function<Result<>()> &start) {
  // Lives as long as the process.
  static RemoteCuda *const kParticipant = new RemoteCuda;
  Result<> opened = fail("the session does not answer");
  Result<> joined = agent::start_participant(kParticipant, [&] {
    opened = start();
    return opened.has_value();
  });
  return joined ? opened : joined;
}

}  // namespace ckpt::remote::cuda
