// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/program_record.h"

#include <filesystem>

#include "storage/format/uuid.h"
#include "storage/read/image_reader.h"
#include "tools/dump/bound_sockets.h"
#include "tools/dump/describe_program.h"
#include "tools/dump/dump_template.h"
#include "tools/dump/kept_files.h"
#include "tools/dump/memory_files.h"
#include "tools/dump/outer_pipes.h"
#include "tools/dump/unread_datagrams.h"
#include "tools/manifest/restorable.h"
#include "tools/proc/process_root.h"

namespace ckpt::tools {

namespace fs = std::filesystem;

// Files are hashed now, so that it need not be done while the program is stopped.
ProgramRecord::ProgramRecord(const DumpOptions &options, const Target &target, const Criu &criu,
                             Credentials user, storage::ImageWriter &image)
    : options_(options),
      target_(target),
      user_(std::move(user)),
      image_(image),
      hashes_(target.files, user_),
      memory_ranges_(memory_ranges(target)),
      carried_({target, user_, options.carried()}, image),
      manifest_(describe_program(target, criu)) {
  DescriptorTable table = read_descriptors(target);
  hashes_.add_open_files(table);
  (void)describe_mapped_files(target, table, hashes_, false);
  if (const storage::ImageReader *parent = image.parent())
    manifest_.parent = {fs::path(parent->path()).filename().string(),
                        storage::uuid_text(parent->index().uuid)};
}

Result<> ProgramRecord::carry_files() { return carried_.save(read_descriptors(target_)); }

Result<> ProgramRecord::describe(const Stopped &program, Remarks &remarks) {
  describe_processes_of(program, remarks);
  CKPT_TRY(manifest_.unread_watches, describe_unread_watches(target_, program.table));
  remark_datagrams(target_, program.table, remarks);
  describe_files_of(program);
  CKPT_CHECK(save_files(program));
  manifest_.agents = program.agents.describe();
  manifest_.requirements = program.agents.describe_requirements();
  if (options_.as_template) mark_as_template(manifest_, options_.tcp_close);
  describe_copy();
  return save_pipes(program);
}

void ProgramRecord::describe_processes_of(const Stopped &program, Remarks &remarks) {
  manifest_.sockets = program.connections.describe();
  manifest_.processes = describe_processes(target_, program.stopped_before);
  describe_policies(target_, memory_ranges_, manifest_.processes, remarks);
  manifest_.socket_options = describe_socket_options(target_, program.table);
  manifest_.file_size_limit = target_.smallest_file_size_limit();
}

void ProgramRecord::describe_files_of(const Stopped &program) {
  manifest_.streams = describe_streams(target_, program.table);
  manifest_.files = describe_files(target_, program.table, hashes_);
  manifest_.mapped_files = describe_mapped_files(target_, program.table, hashes_, true);
  manifest_.links = program.links;
}

Result<> ProgramRecord::save_files(const Stopped &program) {
  MemoryFiles memory_files = MemoryFiles::of(target_);
  CKPT_CHECK(memory_files.save(image_, program.links));
  manifest_.memory_files = memory_files.described();
  KeptFiles kept_files(target_, user_, image_);
  CKPT_CHECK(kept_files.save(program.table));
  manifest_.kept_files = kept_files.described();
  manifest_.kept_fifos = kept_files.fifos();
  CKPT_CHECK(carried_.save(program.table));
  carried_.describe(manifest_);
  manifest_.renamed_sockets = BoundSockets::of(target_).describe_renamed();
  return {};
}

Result<> ProgramRecord::save_pipes(const Stopped &program) {
  CKPT_TRY(std::vector<OuterPipe> pipes,
           find_outer_pipes(target_, program.table, program.agents.outcome_pipes()));
  manifest_.pipes = describe_pipes(pipes);
  manifest_.fifos = describe_fifos(target_, program.table);
  return save_unread(pipes, image_);
}

// A restored program still is the copy that it was.
void ProgramRecord::describe_copy() {
  fs::path folder = fs::path(target_.session_socket).parent_path();
  manifest_.copy = CopyFacts::parse(read_file_of(target_.keeper, folder / kCopyFile));
}

Result<> ProgramRecord::check(const FactFiles &facts, Remarks &remarks) const {
  if (options_.as_template) CKPT_CHECK(check_recorded_template(manifest_, facts, remarks));
  return check_restorable(api::json_of(manifest_), CriuFiles::of(facts), target_.files, user_);
}

}  // namespace ckpt::tools
