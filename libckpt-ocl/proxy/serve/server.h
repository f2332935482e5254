// SPDX-License-Identifier: Apache-2.0
//
// Serves one application: takes its commands off the ring one by one and passes them to the real
// driver. Nothing here waits for the device, because the driver calls back. So a command that waits
// for an event of another thread never blocks that thread's commands.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "libckpt-ocl/proxy/device/mapping.h"
#include "libckpt-ocl/proxy/device/portable.h"
#include "libckpt-ocl/proxy/serve/arriving_contents.h"
#include "libckpt-ocl/proxy/serve/buffer_files.h"
#include "libckpt-ocl/proxy/serve/header_folder.h"
#include "libckpt-ocl/proxy/serve/objects.h"
#include "libckpt-ocl/proxy/serve/owed_contents.h"
#include "libckpt-ocl/proxy/serve/pointer_arguments.h"
#include "libckpt-ocl/proxy/serve/queues.h"
#include "ring/channel.h"

namespace ckpt::ocl {

struct ServeOptions {
  std::string devices;    // keys; empty: all
  bool portable = false;  // advertise only what all devices have
  u64 token = 0;          // the keeper's name for this proxy
};

class Server {
 public:
  Server(Channel channel, UniqueFd control, ServeOptions options);

  // Serves until the client is gone and will not return.
  Result<> run(UniqueFd client);

  // For the commands (commands.cc, programs.cc, api_commands.cc).
  Objects objects;
  Channel channel;
  Output output{channel};
  Queues queues{channel, output, objects};
  BufferFiles buffer_files;
  OwedContents owed;
  ArrivingContents arriving;
  PointerArguments pointer_arguments;
  std::optional<Portable> portable;  // with --portable

  // The files for the next build of a program, after Op::Headers.
  std::map<cl_program, HeaderFolder> header_folders;
  // Calls `build` with the options, where these files are.
  cl_int with_headers(cl_program program, const std::string &options,
                      const std::function<cl_int(const char *options)> &build);

  void reply(const CommandHeader &h, cl_int status, ByteView bytes = {});
  // A command was enqueued, or failed with `status`. Its event has the number `h.made`; 0: it has
  // none.
  void enqueued(const CommandHeader &h, cl_command_queue queue, cl_event event, cl_int status,
                Bytes data = {});
  void remove_context(cl_context context);
  // Before a command uses a memory object.
  void wait_for_contents(u64 number);
  // The proxy's own queue in the context of a memory object, for transfers of its contents.
  cl_command_queue transfer_queue(cl_mem mem);
  std::byte *tool_staging(u64 offset, u64 bytes);

 private:
  Result<> greet(UniqueFd client);
  void serve();
  void carry_out(const Channel::Incoming &c);
  void enter_folder(int folder);
  void check(const CommandHeader &h, Reader r);
  void test_slices(const CommandHeader &h, Reader r);
  std::string uuid_of_device(const RealDevice &device) const;
  void info(const CommandHeader &h, Reader r);
  void marker(const CommandHeader &h, Reader r);
  void map_devices(const CommandHeader &h, Reader r);
  void map_tool_staging(const CommandHeader &h, Reader r);
  bool wait_for_return();

  UniqueFd control_;
  ServeOptions options_;
  std::vector<RealPlatform> platforms_;
  bool parked_ = false;
  Mapping tool_staging_;
  std::map<cl_context, cl_command_queue> transfer_queues_;
};

// The bytes of a transfer: in staging, or in the command itself. The latter are copied, because the
// command may run after its place in the ring was reused. find_place() also reads the wait list.
struct Place {
  std::byte *data = nullptr;
  Bytes own;
};
Place find_place(Server &s, Reader &r, u64 staging, u64 bytes, std::vector<cl_event> &waits);

// Carries out a function of opencl.api. Returns false if there is no such number.
bool carry_out_api(Server &s, const CommandHeader &h, Reader r);

// The commands that are not functions of opencl.api.
void release_object(Server &s, Reader r);
void kernel_parameters(Server &s, const CommandHeader &h, Reader r);
void kernel_args(Server &s, const CommandHeader &h, Reader r);
void headers(Server &s, const CommandHeader &h, Reader r);
void program_source(Server &s, const CommandHeader &h, Reader r);
void program_binary(Server &s, const CommandHeader &h, Reader r);
void compile_program(Server &s, const CommandHeader &h, Reader r);
void link_program(Server &s, const CommandHeader &h, Reader r);
void transfer(Server &s, const CommandHeader &h, Reader r);
void transfer_rect(Server &s, const CommandHeader &h, Reader r);
void create_image(Server &s, const CommandHeader &h, Reader r);
void transfer_image(Server &s, const CommandHeader &h, Reader r);
void sub_devices(Server &s, const CommandHeader &h, Reader r);
void kernel_sub_group(Server &s, const CommandHeader &h, Reader r);
void share_memory(Server &s, const CommandHeader &h, Reader r, int file);
void share_block(Server &s, const CommandHeader &h, Reader r, int file);
void share_in_block(Server &s, const CommandHeader &h, Reader r);
void buffer_file(Server &s, const CommandHeader &h, Reader r);
void owed_contents(Server &s, const CommandHeader &h, Reader r, int fd);
void arriving_contents(Server &s, const CommandHeader &h, Reader r, int fd);
void move_contents(Server &s, const CommandHeader &h, Reader r);
cl_int program_info(Server &s, u64 program, u64 device, u32 param, Bytes &value);
cl_int info_value(Server &s, InfoOf of, u64 number, u64 second, u32 param, Bytes &value);

}  // namespace ckpt::ocl
