// SPDX-License-Identifier: Apache-2.0
//
// What the manifest describes: files, pipes and processes of the stopped program.
#include "tools/dump/bound_sockets.h"
#include "tools/dump/describe_program.h"
#include "tools/dump/dump.h"
#include "tools/dump/kept_files.h"
#include "tools/dump/kernel_state.h"
#include "tools/dump/link_remaps.h"
#include "tools/dump/memory_files.h"
#include "tools/dump/outer_pipes.h"
#include "tools/dump/unread_datagrams.h"
#include "tools/manifest/restorable.h"
#include "tools/session/owners.h"

namespace ckpt::tools {

Result<> Dump::record_stopped_program() {
  // Processes may have started and ended until CRIU stopped them.
  target_.processes = ProcessTable::read().tree(target_.root);
  if (target_.processes.empty() || root_has_ended())
    return fail("the program ended during the checkpoint");
  // A process may have got another user by executing a setuid program.
  CKPT_CHECK(check_owners(ProcessTable::read(), target_));
  CKPT_CHECK(record_owner());
  CKPT_TRY(handles_, handles_of_tree(target_.root, target_.processes));
  CKPT_CHECK(check_no_new_agents());
  report_.processes = target_.processes.size();
  Connections connections = Connections::read(target_);
  CKPT_CHECK(check_no_new_connections(connections));
  manifest_.sockets = connections.describe();
  DescriptorTable table = read_descriptors(target_);
  agents_missed_ = marker_.is_open_in(table);
  if (agents_missed_) return fail("an agent started in the middle of the checkpoint");
  manifest_.processes = describe_processes(target_, stopped_before_);
  describe_policies(target_, memory_ranges_, manifest_.processes, report_.remarks);
  manifest_.socket_options = describe_socket_options(target_, table);
  CKPT_TRY(manifest_.unread_watches, describe_unread_watches(target_, table));
  remark_datagrams(target_, table, report_.remarks);
  manifest_.streams = describe_streams(target_, table);
  manifest_.files = describe_files(target_, table, hashes_);
  manifest_.mapped_files = describe_mapped_files(target_, table, hashes_, true);
  MemoryFiles memory_files = MemoryFiles::of(target_);
  CKPT_CHECK(memory_files.save(*image_, links_));
  manifest_.memory_files = memory_files.described();
  KeptFiles kept_files(target_, rights_.for_files(), *image_);
  CKPT_CHECK(kept_files.save(table));
  manifest_.kept_files = kept_files.described();
  manifest_.kept_fifos = kept_files.fifos();
  CKPT_CHECK(carried_->save(table));
  carried_->describe(manifest_);
  manifest_.renamed_sockets = BoundSockets::of(target_).describe_renamed();
  manifest_.links = links_;
  manifest_.file_size_limit = target_.smallest_file_size_limit();
  manifest_.agents = agents_.describe();
  manifest_.requirements = agents_.describe_requirements();
  CKPT_TRY(std::vector<OuterPipe> pipes, find_outer_pipes(target_, table, agents_.outcome_pipes()));
  manifest_.pipes = describe_pipes(pipes);
  manifest_.fifos = describe_fifos(target_, table);
  describe_template(manifest_);
  describe_copy();
  return save_unread(pipes, *image_);
}

// What has been read of a process that is killed meanwhile is incomplete: the image would lack its
// descriptors. A stopped process can be killed at any time (by the OOM killer, or by a user).
Result<> Dump::check_recorded() {
  for (const Process &before : target_.processes) {
    Result<Process> now = read_process(before.pid);
    bool same = now && now->start_ticks == before.start_ticks && now->ending == before.ending;
    if (!same) return fail("{} was killed during the checkpoint", name_of(before));
  }
  CKPT_CHECK(check_recorded_template());
  return check_restorable(api::json_of(manifest_), CriuFiles::of(facts_), target_.files,
                          rights_.for_files());
}

// An agent that started after resolve() has taken no part in the checkpoint: its copy would not be
// connected to the new session.
Result<> Dump::check_no_new_agents() {
  pid_t late = new_agent(target_);
  if (late == 0) return {};
  agents_missed_ = true;
  return fail_with_hint(
      fmt::format(
          "process {} used ckpt or a device for the first time in the middle of the checkpoint",
          late),
      "run ckpt-dump again");
}

// CRIU has dumped these too, while their packets were not stopped.
Result<> Dump::check_no_new_connections(const Connections &now) const {
  if (options_.tcp_close || now.all_in(connections_)) return {};
  return fail_with_hint("the program made a TCP connection in the middle of the checkpoint",
                        "run ckpt-dump again");
}

}  // namespace ckpt::tools
