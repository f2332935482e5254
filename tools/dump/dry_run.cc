// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dry_run.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/base/print.h"
#include "common/base/printable.h"
#include "common/base/shortage.h"
#include "common/base/units.h"
#include "tools/dump/agents.h"
#include "tools/dump/carried_files.h"
#include "tools/dump/describe_program.h"
#include "tools/dump/dump_marker.h"
#include "tools/dump/image_path.h"
#include "tools/dump/refusals.h"
#include "tools/dump/running_files.h"
#include "tools/dump/unread_datagrams.h"
#include "tools/dump/unsupported.h"
#include "tools/manifest/restorable.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr int kLooks = 5;  // a program that starts processes changes while it is looked at
constexpr size_t kMaxLineBytes = 2000;

// The agent of a stopped process would not answer.
bool is_awake(pid_t pid) {
  Result<Process> p = read_process(pid);
  return p && p->state != 'T' && p->state != 't';
}

// The program may write these files while they are compared.
void allow_changes(manifest::Manifest &m) {
  for (manifest::File &f : m.files) f.append_only |= f.writable;
  for (manifest::MappedFile &f : m.mapped_files)
    if (f.shared) f.mtime_ns.reset();
}

template <class File>
json paths_of(const std::vector<File> &files) {
  json paths = json::array();
  for (const File &f : files) paths.push_back(f.path);
  return paths;
}

json ports_of(const std::vector<manifest::Socket> &sockets) {
  std::set<std::string> ports;
  for (const manifest::Socket &s : sockets)
    ports.insert(
        fmt::format("{} {}", s.protocol == InetProtocol::Udp ? "udp" : "tcp", s.local.text()));
  return ports;
}

json needs_of(const Target &target, const manifest::Manifest &m,
              const std::vector<std::string> &devices) {
  json pids = json::array();
  u64 bytes = 0;
  for (const Process &p : target.processes) {
    pids.push_back(p.ns_pid());
    bytes += p.resident_bytes;
  }
  return {{"pids", pids},
          {"memory_bytes", bytes},
          {"files", paths_of(m.files)},
          {"mapped_files", paths_of(m.mapped_files)},
          {"ports", ports_of(m.sockets)},
          {"devices", devices},
          {"terminal", m.streams.terminal},
          {"criu_version", m.criu_version}};
}

std::string joined(const json &list) {
  std::string all;
  for (const json &item : list) all += (all.empty() ? "" : ", ") + item.get<std::string>();
  return all;
}

std::string text_of_needs(const json &needs) {
  std::string text = fmt::format("{} of memory; {} open and {} mapped files as they are now",
                                 human_bytes(needs.at("memory_bytes").get<u64>()),
                                 needs.at("files").size(), needs.at("mapped_files").size());
  if (!needs.at("ports").empty()) text += "; " + joined(needs.at("ports"));
  if (!needs.at("devices").empty()) text += "; devices like " + joined(needs.at("devices"));
  return text;
}

// One look at the program.
class Look {
 public:
  Look(DumpOptions options, Cancel &cancel, DumpMarker &marker)
      : options_(std::move(options)), cancel_(cancel), marker_(marker), agents_(cancel) {}
  Look(const Look &) = delete;

  Result<DryRun> run();
  // Another look may succeed.
  bool program_has_changed() const { return target_.root != 0 && has_changed(target_); }

 private:
  Result<> resolve();
  Result<> find_reasons(DryRun &r);
  Result<> ask_agents(Reasons &reasons, std::vector<std::string> &remarks);
  Result<> describe(DryRun &r);

  DumpOptions options_;  // with the image's path, once the program is found
  Cancel &cancel_;
  DumpMarker &marker_;
  Target target_;
  Agents agents_;
  Refusals refusals_{options_, target_};
};

Result<> Look::resolve() {
  CKPT_TRY(target_, resolve_target(options_.pid, [this] { return cancel_.check(); }));
  options_.image = image_path(options_.image, target_);
  return {};
}

Result<DryRun> Look::run() {
  CKPT_CHECK(resolve());
  bool waited = false;
  CKPT_CHECK(marker_.wait_for_turn(target_.keeper, target_.session_socket, cancel_, waited));
  if (waited) CKPT_CHECK(resolve());
  DryRun r{.pid = target_.root,
           .processes = target_.processes.size(),
           .program = target_.processes.front().command,
           .reasons = {},
           .remarks = {},
           .needs = json::object(),
           .carried = {},
           .manifest = json::object()};
  check_main_threads(target_, r.reasons);
  if (!r.reasons.empty()) return r;
  CKPT_CHECK(find_reasons(r));
  CKPT_CHECK(describe(r));
  return r;
}

Result<> Look::find_reasons(DryRun &r) {
  r.reasons = refusals_.from_outside();
  Closables closables = refusals_.find_closables();
  std::vector<std::string> of_agents;
  CKPT_CHECK(ask_agents(r.reasons, of_agents));
  for (const Closable &c : closables)
    if (refusals_.may_close().contains(c.pid))
      r.remarks.push_back("refused unless a callback of the program closes it: " + c.why);
    else
      r.reasons.push_back(c.why);
  std::ranges::move(of_agents, std::back_inserter(r.remarks));
  remark_landlock(target_, r.remarks);
  remark_unread_datagrams(target_, read_descriptors(target_), r.remarks);
  return {};
}

Result<> Look::ask_agents(Reasons &reasons, std::vector<std::string> &remarks) {
  if (!is_awake(target_.keeper)) return {};
  for (size_t i = 0; i < target_.agents.size(); i++) {
    if (!is_awake(target_.agent_pids[i])) continue;
    Result<> connected = agents_.connect_to(target_.agent_pids[i], target_.agents[i]);
    if (!connected && has_changed(target_)) return connected;
    if (!connected) reasons.push_back(connected.error().text());
  }
  refusals_.ask(agents_, reasons, remarks);
  return {};
}

Result<> Look::describe(DryRun &r) {
  FileHashes hashes;
  manifest::Manifest running = describe_running(target_, refusals_.criu(), hashes);
  CarriedChoice choice(target_, refusals_.rights().for_files(), options_.carried());
  CKPT_TRY(CarriedList carried,
           CarriedList::of(choice, read_descriptors(target_), options_.for_another_machine));
  running.carried_files = std::move(carried.files);
  leave_out_undescribed(running);
  carried.files = running.carried_files;
  if (options_.with_files) r.carried = std::move(carried);
  r.needs = needs_of(target_, running, agents_.devices());
  allow_changes(running);
  r.manifest = api::json_of(running);
  CKPT_TRY(ImageManifest m, ImageManifest::parse(r.manifest));
  CriuFiles files = files_as_criu_saves_them(target_);
  check_running_program({.manifest = m,
                         .criu = files,
                         .prefix = target_.files,
                         .user = refusals_.rights().for_files()},
                        r.reasons);
  return {};
}

}  // namespace

Result<DryRun> dry_run(const DumpOptions &options, Cancel &cancel) {
  DumpMarker marker;
  for (int number = 1;; number++) {
    Look look(options, cancel, marker);
    Result<DryRun> r = guarded([&] { return look.run(); });
    CKPT_CHECK(cancel.check());
    if (r || number == kLooks || !look.program_has_changed()) return r;
    log::debug("the dry run is started again");
  }
}

json as_json(const DryRun &r) {
  json report{{"pid", r.pid},
              {"program", r.program},
              {"processes", r.processes},
              {"possible", r.reasons.empty()},
              {"reasons", r.reasons},
              {"remarks", r.remarks},
              {"needs", r.needs}};
  if (r.carried) report["carried"] = as_json(*r.carried);
  return report;
}

void print_dry_run(const DryRun &r) {
  print("program  {} ({}), {} process{}; it was not touched\n", r.pid, printable(r.program),
        r.processes, r.processes == 1 ? "" : "es");
  print("dump     {}\n", r.reasons.empty() ? "possible now" : "would be refused");
  if (!r.needs.empty())
    print("restore  needs {}\n", printable(text_of_needs(r.needs), kMaxLineBytes));
  if (r.carried) print_carried(*r.carried);
  for (const std::string &remark : r.remarks)
    print("remark   {}\n", printable(remark, kMaxLineBytes));
}

Error refusal_of(const DryRun &r) {
  return {fmt::format("the program cannot be checkpointed now:{}", as_list(r.reasons)),
          "the program was not touched and keeps running"};
}

}  // namespace ckpt::tools
