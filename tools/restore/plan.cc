// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/plan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "common/base/as_user.h"
#include "helper/userfaultfds.h"
#include "storage/io/key_file.h"
#include "storage/ops/receive.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/criu/recorded_identities.h"
#include "tools/device/apis.h"
#include "tools/lazy/userfaults.h"
#include "tools/manifest/carried_files.h"
#include "tools/manifest/restorable.h"
#include "tools/manifest/template_rules.h"
#include "tools/restore/kept_links.h"
#include "tools/restore/memory_files.h"
#include "tools/restore/recorded_sockets.h"
#include "tools/restore/supplied_files.h"
#include "tools/session/isolation.h"
#include "tools/session/programs.h"

namespace ckpt::tools {
namespace {

// Where an image from a pipe is kept. Its files have no names there, and vanish with this process.
std::string spool_folder() {
  const char *folder = std::getenv("TMPDIR");
  return folder && *folder ? folder : "/var/tmp";
}

// The image came through standard input, which the program must not inherit.
void close_image_pipe() {
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(null.get(), STDIN_FILENO);
}

// The new session belongs where the program's was: $CKPT_RUNTIME_DIR may have named that folder.
void keep_runtime_folder(const std::filesystem::path &session) {
  std::string folder = session.parent_path();
  const char *standard = std::getenv("XDG_RUNTIME_DIR");
  struct stat st {};
  if (::stat(folder.c_str(), &st) == 0 && st.st_uid == ::geteuid() &&
      folder != (standard ? standard : ""))
    ::setenv("CKPT_RUNTIME_DIR", folder.c_str(), 1);
}

Result<> no_reasons(const RestoreOptions &o, const Reasons &reasons) {
  if (reasons.empty()) return {};
  std::string name = o.image == storage::kPipeImage ? "the image from the pipe" : o.image;
  return fail_with_hint(fmt::format("{} cannot be restored here:{}", name, as_list(reasons)),
                        "nothing was started");
}

// CRIU will open them with the same rights.
void check_program_files(const RestorePlan &plan, const RestoreOptions &o, Reasons &reasons) {
  Credentials user = plan.rights.for_files();
  AsUser as(user);
  CriuFiles criu = CriuFiles::of(*plan.image);
  check_image_and_machine({plan.manifest, criu, "", o.grown_files, o.ignore_processor, user},
                          reasons);
}

// What the image has of them is no reason against the restore.
void supply_files(RestorePlan &plan, const RestoreOptions &o, Reasons &reasons) {
  if (plan.manifest.carried_files.empty()) return;
  AsUser as(plan.rights.for_files());
  supply_carried_files(plan.manifest, o.copies, reasons);
  if (!plan.manifest.supplied.empty()) check_carried_contents(plan.manifest, *plan.image, reasons);
}

bool has_same_needs(const ImageManifest &a, const ImageManifest &b) {
  return std::ranges::equal(a.requirements, b.requirements, [](const auto &x, const auto &y) {
    return x.agent == y.agent && x.api == y.api && x.requirements == y.requirements;
  });
}

// With --continue-without-devices, a device that is missing is no reason against the restore.
void find_devices(RestorePlan &plan, const RestoreOptions &o, const RestorePlan *before,
                  Reasons &reasons) {
  if (before && has_same_needs(before->manifest, plan.manifest)) {
    plan.maps = before->maps;
    plan.no_devices_because = before->no_devices_because;
    return;
  }
  Reasons against;
  plan.maps = check_devices_of(plan.manifest, plan.devices, o.limits, against);
  if (!o.continue_without_devices)
    reasons.insert(reasons.end(), against.begin(), against.end());
  else if (!against.empty())
    plan.no_devices_because = against.front();
}

// A copy writes its output elsewhere, and its memory files go into a tmpfs of its own.
void leave_out_own_files(ImageManifest &m) {
  std::set<std::string> outputs = output_files(m);
  std::erase_if(m.files, [&](const ImageManifest::File &f) { return outputs.contains(f.path); });
}

std::vector<ImageManifest::StoredFile> shared_memory_files(const ImageManifest &m) {
  std::vector<ImageManifest::StoredFile> shared = m.memory_files;
  std::erase_if(shared, [](const auto &f) { return is_private_to_copy(f.path); });
  return shared;
}

// Last, because the programs at the other ends notice it.
void take_fifos(RestorePlan &plan, Reasons &reasons) {
  if (!reasons.empty()) return;
  AsUser as(plan.rights.for_files());
  plan.fifos->take(plan.manifest, reasons);
}

// The kernel lets only root see faults of system calls and forks of the program. Without the first,
// a read(2) into missing memory fails; without the second, a child reads zeros.
Result<> check_userfaults_for(const CriuRights &rights) {
  switch (rights.way) {
    case CriuRights::Way::Root: return check_userfaults();
    case CriuRights::Way::ForUser: return helper::check_userfaultfds();
    case CriuRights::Way::Helper: return ask_for_lazy();
    case CriuRights::Way::Own: break;
  }
  return fail(
      "the kernel lets no program wait for its memory in system calls and forks (CAP_SYS_PTRACE, "
      "userfaultfd(2)) unless root or ckpt-helper restores it");
}

void check_lazy(RestorePlan &plan, const RestoreOptions &o, Reasons &reasons) {
  if (o.job || o.take_over || o.stand_by) {
    reasons.push_back(
        "programs of a job and of a migration go on with all their memory; leave "
        "--lazy out");
    return;
  }
  if (Result<> can = check_userfaults_for(plan.rights); !can) {
    const Error &why = can.error();
    reasons.push_back(
        fmt::format("--lazy: {}; {}", why.what, why.hint.empty() ? "leave --lazy out" : why.hint));
  }
  UserfaultRights rights =
      plan.rights.by_helper() ? UserfaultRights::OfHelper : UserfaultRights::OfProgram;
  if (reasons.empty()) plan.owed = owed_memory(*plan.image, rights, reasons);
  plan.late_devices = std::ranges::any_of(plan.manifest.requirements, [](const auto &r) {
    const Api *api = find_api(r.api);
    return api && api->loads_later;
  });
}

// From here on this is a process of the program's user in new namespaces.
Result<> isolate_as_before(const ImageManifest &m) {
  if (::geteuid() != 0) return is_isolated() ? Result<>{} : isolate();
  std::string user = m.owner ? user_name(m.owner->uid) : "USER";
  return fail_with_hint(
      "the program was isolated (ckpt-run --isolate), and you are root",
      fmt::format("restore it as its user: runuser -u {} -- ckpt-restore …", user));
}

}  // namespace

Result<std::unique_ptr<storage::ImageReader>> open_image(const RestoreOptions &o) {
  std::optional<storage::Key> key;
  if (!o.key_file.empty()) {
    CKPT_TRY(key, storage::read_key(o.key_file, o.shared_key ? storage::KeyAccess::Shared
                                                             : storage::KeyAccess::Private));
  }
  storage::ReadOptions options{.key = key ? &*key : nullptr, .only_own = !o.trust_image};
  if (o.image != storage::kPipeImage) return storage::ImageReader::open(o.image, options);
  if (::isatty(STDIN_FILENO))
    return fail_with_hint("- reads an image from standard input, which is a terminal",
                          "name the image's folder, or pipe `ckpt-dump -o -` into ckpt-restore");
  CKPT_TRY(auto image, storage::spool_image(STDIN_FILENO, spool_folder(), options));
  close_image_pipe();
  return image;
}

Result<RestorePlan> make_plan(const RestoreOptions &o, const RestorePlan *before) {
  RestorePlan plan;
  CKPT_TRY(plan.image, open_image(o));
  CKPT_TRY(plan.manifest, ImageManifest::parse(plan.image->manifest()));
  if (o.for_copies) leave_out_own_files(plan.manifest);
  if (plan.manifest.isolated) CKPT_CHECK(isolate_as_before(plan.manifest));
  Reasons reasons, of_rights;
  plan.rights = rights_to_restore(
      plan.manifest,
      {.recorded = RecordedIdentities::of(*plan.image).ownership(),
       .new_namespace = o.for_copies || pids_taken(plan.manifest) || terminals_taken(plan.manifest),
       .as_root = o.as_root},
      of_rights);
  bool as_user = plan.rights.way == CriuRights::Way::ForUser;
  if (before) {
    plan.devices = before->devices;
  } else if (!as_user) {
    CKPT_TRY(plan.devices, choose_devices(o.device));
  }
  if (before)
    plan.criu = before->criu;
  else if (Result<Criu> criu = find_criu())
    plan.criu = *criu;
  else
    reasons.push_back(criu.error().text());
  // A damaged image says nothing about rights.
  Result<> sound;
  if (!before && (!o.lazy || o.verify_first))
    sound = plan.image->verify(storage::ImageReader::Depth::Stored).result();
  if (!sound)
    reasons.push_back(sound.error().text());
  else
    std::ranges::move(of_rights, std::back_inserter(reasons));
  supply_files(plan, o, reasons);
  check_program_files(plan, o, reasons);
  check_memory_files(o.for_copies ? shared_memory_files(plan.manifest) : plan.manifest.memory_files,
                     reasons);
  check_kept_files(plan.manifest, reasons);
  if (!o.for_copies) check_sockets(plan.manifest, reasons);
  if (!as_user) find_devices(plan, o, before, reasons);
  if (o.lazy) check_lazy(plan, o, reasons);
  if (!o.check_only) take_fifos(plan, reasons);
  CKPT_CHECK(no_reasons(o, reasons));
  return plan;
}

Result<OwnersHelp> become_owner(RestorePlan &plan, const RestoreOptions &o) {
  OwnersHelp help;
  if (std::vector<PacketFlow> flows = flows_of(plan.manifest); !flows.empty()) {
    plan.rights.connections = true;
    CKPT_TRY(help.connection_lock, ConnectionLock::take(flows));
  }
  CKPT_TRY(help.helper, connect_helper(plan.rights, plan.criu));
  CKPT_CHECK(become_user(plan.rights.user));
  keep_runtime_folder(plan.manifest.session_folder);
  CKPT_TRY(plan.devices, choose_devices(o.device));
  Reasons reasons;
  find_devices(plan, o, nullptr, reasons);
  CKPT_CHECK(no_reasons(o, reasons));
  return help;
}

}  // namespace ckpt::tools
