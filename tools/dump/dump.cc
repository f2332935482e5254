// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dump.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "ckpt_config.h"
#include "common/base/log.h"
#include "storage/format/uuid.h"
#include "storage/ops/prune.h"
#include "storage/read/image_reader.h"
#include "tools/dump/manifest.h"
#include "tools/session/tree.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kGoneWithin = 60s;  // a large program's memory takes a while to free

std::string joined(const Reasons &reasons) {
  std::string all;
  for (const std::string &r : reasons) all += "\n  - " + r;
  return all;
}

std::string default_image_name(const Target &t) {
  return fmt::format("ckpt-{}-{}.img", t.processes.front().command, t.processes.front().ns_pid());
}

void make_absolute(std::string &path) {
  fs::path absolute = fs::absolute(path).lexically_normal();
  path = absolute.has_filename() ? absolute.string() : absolute.parent_path().string();
}

// A program that goes on need not wait for compression and the disk, as long as there is memory
// for a copy of what it has: a quarter of what the machine could give now.
size_t background_bytes() {
  constexpr u64 kLeast = 128u << 20, kPart = 4;
  std::ifstream in("/proc/meminfo");
  std::string name, unit;
  for (u64 kib; in >> name >> kib; std::getline(in, unit))
    if (name == "MemAvailable:") return std::max(kLeast, kib * 1024 / kPart);
  return kLeast;
}

Result<> ask_keeper(int fd, protocol::Type type, const std::string &image) {
  CKPT_CHECK(send_message(fd, static_cast<u16>(type), Writer().str(image).bytes()));
  CKPT_CHECK(set_receive_timeout(fd, 10s));
  CKPT_TRY(std::optional<Message> m, receive_message(fd));
  if (!m) return fail("the session keeper did not answer");
  if (static_cast<protocol::Type>(m->type) == protocol::Type::Ok) return {};
  Reader r = m->reader();
  return fail("{}", r.str());
}

}  // namespace

Result<DumpReport> Dump::run() {
  CKPT_CHECK(begin());
  OnCancel guard(cancel_, [this] {
    storage::ImageWriter *image = live_image_;
    if (image && in_pipe()) image->abandon();  // its reader may never take another byte
  });
  Result<> done = checkpoint();
  if (Result<> cancelled = cancel_.check(); !done && !cancelled) done = cancelled;
  if (!done) {
    undo(done.error());
    return Failure(done.error());
  }
  CKPT_CHECK(finish());
  report_.stats = image_->stats();
  report_.unchanged_bytes = agents_.unchanged_bytes();
  phases_.end();
  report_.phases = phases_.json();
  return std::move(report_);
}

// Nothing of the program is touched here.
Result<> Dump::begin() {
  // Which program, which processes, which agents?
  step("resolve");
  CKPT_CHECK(resolve());
  // Every reason why this would fail, at once.
  step("preflight");
  CKPT_CHECK(preflight());
  // The image, beside its final name.
  CKPT_CHECK(open_image());
  // The keeper wakes the program should we die from here on.
  return announce();
}

// The program stands still. Any failure is undone.
Result<> Dump::checkpoint() {
  // Calls to devices wait, kernels finish.
  step("quiesce");
  paused_at_ = Phases::Clock::now();
  CKPT_CHECK(agents_.quiesce(std::chrono::seconds(options_.timeout_seconds)));
  // Device memory goes into the image.
  step("save");
  CKPT_CHECK(agents_.save(*image_));
  // Nothing of a driver stays in any process.
  step("detach");
  CKPT_CHECK(agents_.detach());
  // All that is left is CRIU's.
  step("criu");
  CKPT_CHECK(cancel_.check());
  CKPT_CHECK(dump_host_side());
  // What the restore will need to know about the program's surroundings, as they are now.
  step("record");
  CKPT_CHECK(record_stopped_program());
  // A program that goes on need not wait for the disk.
  if (options_.leave_running) CKPT_CHECK(wake());
  // The image is durable and has its name, or there is none.
  step("write");
  return write_image();
}

// The image is complete.
Result<> Dump::finish() {
  report_.durable_seconds = phases_.seconds_since(paused_at_);
  step("end");
  if (!options_.leave_running) CKPT_CHECK(end_program());
  if (options_.leave_running && options_.word_when_durable) agents_.say_continue();
  prune();
  keeper_.reset();
  return {};
}

Result<> Dump::resolve() {
  CKPT_TRY(target_, resolve_target(options_.pid));
  if (options_.image.empty()) options_.image = default_image_name(target_);
  if (!in_pipe()) make_absolute(options_.image);
  for (const Process &p : target_.processes)
    if (p.state == 'T') stopped_before_.insert(p.pid);
  report_.image = options_.image;
  report_.pid = target_.root;
  report_.processes = target_.processes.size();
  return {};
}

Result<> Dump::preflight() {
  Reasons reasons;
  check_rights(reasons);
  if (Result<Criu> criu = find_criu())
    criu_ = *criu;
  else
    reasons.push_back(criu.error().text());
  if (!in_pipe()) check_destination(target_, options_.image, options_.overwrite, reasons);
  check_processes(target_, reasons);
  check_descriptors(target_, reasons);
  check_unix_sockets(target_, reasons);
  check_drivers(target_, reasons);
  // A stopped agent cannot answer; that it is stopped is among the reasons already.
  if (reasons.empty()) {
    CKPT_CHECK(agents_.connect(target_));
    agents_.preflight(reasons);
    report_.remarks = agents_.remarks();
  }
  if (reasons.empty()) return {};
  return fail_with_hint(fmt::format("the program cannot be checkpointed now:{}", joined(reasons)),
                        "nothing was touched; the program runs on");
}

Result<> Dump::open_image() {
  manifest_ = {{"program", executable_of(target_.root)},
               {"argv", arguments_of(target_.root)},
               {"cwd", working_folder_of(target_.root)},
               {"created", utc_now()},
               {"ckpt_version", CKPT_VERSION},
               {"protocol", protocol::kVersion},
               {"criu_version", criu_.version},
               {"host", describe_host()},
               {"root_pid", target_.processes.front().ns_pid()},
               {"session_dir", session_folder_of(target_.root)},
               {"mapped_files", describe_mapped_files(target_)}};
  for (const Process &p : target_.processes) expected_ += p.resident_bytes;
  if (in_pipe()) {
    CKPT_TRY(image_, storage::ImageWriter::create_in_pipe(STDOUT_FILENO, writer_options()));
  } else {
    CKPT_TRY(image_, storage::ImageWriter::create(options_.image, writer_options()));
  }
  if (const storage::ImageReader *parent = image_->parent())
    manifest_["parent"] = {{"name", fs::path(parent->path()).filename().string()},
                           {"uuid", storage::uuid_text(parent->index().uuid)}};
  live_image_ = image_.get();
  return {};
}

storage::ImageWriter::Options Dump::writer_options() const {
  storage::ImageWriter::Options o{.overwrite = options_.overwrite, .parent = options_.parent};
  if (options_.key) o.key = &*options_.key;
  o.copy_puts = options_.leave_running;
  if (options_.leave_running) o.memory_bytes = background_bytes();
  if (options_.memory_mib) o.memory_bytes = *options_.memory_mib << 20;
  return o;
}

// The new image is safe whatever becomes of the old ones, so this is no failure of the dump.
void Dump::prune() const {
  if (!options_.keep) return;
  const storage::Key *key = options_.key ? &*options_.key : nullptr;
  Result<storage::PruneReport> done =
      storage::prune_chain(options_.image, *options_.keep, {.key = key});
  if (!done) log::warn("older images were not pruned: {}", done.error().text());
}

Result<> Dump::announce() {
  step("begin");
  CKPT_TRY(keeper_, connect_unix(target_.session_socket));
  return ask_keeper(keeper_.get(), protocol::Type::DumpBegin, options_.image);
}

// Pipes, sizes of files: exact, because nobody can change them now.
Result<> Dump::record_stopped_program() {
  // Processes have come and gone until CRIU stopped them.
  target_.processes = ProcessTable::read().tree(target_.root);
  if (target_.processes.empty()) return fail("the program is gone");
  CKPT_CHECK(no_new_agents());
  report_.processes = target_.processes.size();
  DescriptorTable table = read_descriptors(target_);
  manifest_["processes"] = describe_processes(target_, stopped_before_);
  manifest_["streams"] = describe_streams(target_, table);
  manifest_["files"] = describe_files(table);
  manifest_["agents"] = agents_.describe();
  manifest_["participants"] = agents_.describe_needs();
  std::vector<OuterPipe> pipes = find_outer_pipes(target_, table, agents_.outcome_pipes());
  manifest_["pipes"] = describe_pipes(pipes);
  for (const OuterPipe &p : pipes) {
    if (!p.program_reads) continue;
    CKPT_TRY(Bytes unread, peek_unread(p));
    CKPT_TRY(storage::StreamId id, image_->stream(pipe_stream(p.inode)));
    CKPT_CHECK(image_->append(id, unread));
  }
  return {};
}

// One that came after we had looked was asked nothing, and its copy would belong to no session.
Result<> Dump::no_new_agents() const {
  for (const Process &p : target_.processes)
    if (runs_agent(p.pid) && !target_.has_agent(p.pid))
      return fail_with_hint(
          fmt::format("process {} ({}) used ckpt or a device for the first time in "
                      "the middle of the checkpoint",
                      p.pid, p.command),
          "try again");
  return {};
}

Result<> Dump::write_image() {
  manifest_["phases"] = phases_.json();
  return image_->finish(manifest_);
}

Result<> Dump::wake() {
  continue_tree(target_.root, stopped_before_);
  stopped_ = false;
  awake_ = true;
  if (!options_.word_when_durable) agents_.say_continue();
  report_.pause_seconds = phases_.seconds_since(paused_at_);
  return {};
}

// The keeper hears that the image is complete before its program dies. Then until the PIDs are
// free: a restore right after this must find them so.
Result<> Dump::end_program() {
  if (Result<> told = ask_keeper(keeper_.get(), protocol::Type::DumpDone, options_.image); !told)
    log::warn("{}", told.error().what);
  for (const Process &p : target_.processes) ::kill(p.pid, SIGKILL);
  auto deadline = Phases::Clock::now() + kGoneWithin;
  for (const Process &p : target_.processes)
    while (read_process(p.pid)) {
      if (Phases::Clock::now() > deadline)
        return fail("the image {} is complete, but process {} does not end", options_.image, p.pid);
      std::this_thread::sleep_for(2ms);
    }
  report_.pause_seconds = phases_.seconds_since(paused_at_);
  return {};
}

void Dump::undo(const Error &why) {
  log::debug("undoing: {}", why.what);
  if (stopped_) continue_tree(target_.root, stopped_before_);
  agents_.undo(why.what);
  live_image_ = nullptr;
  image_.reset();
  keeper_.reset();
}

void Dump::step(const std::string &name) {
  phases_.begin(name);
  std::lock_guard lock(phase_mutex_);
  phase_ = name;
}

std::string Dump::phase() const {
  std::lock_guard lock(phase_mutex_);
  return phase_;
}

u64 Dump::bytes_done() const {
  storage::ImageWriter *image = live_image_;
  return image ? image->stats().raw_bytes : 0;
}

}  // namespace ckpt::tools
