// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/server.h"

#include <unistd.h>

#include <thread>

#include "agent/protocol.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "libckpt-ocl/proxy/check/check.h"
#include "libckpt-ocl/proxy/device/quirks.h"
#include "libckpt-ocl/proxy/device/slice_test.h"

namespace ckpt::ocl {

namespace {

// The program's calls fail then, which is better than results of buffers without their contents.
void end_without_contents() {
  log::error("the contents of buffers cannot arrive any more, so this process ends");
  _exit(1);
}

}  // namespace

Server::Server(Channel c, UniqueFd control, ServeOptions options)
    : channel(std::move(c)),
      arriving(end_without_contents),
      control_(std::move(control)),
      options_(std::move(options)),
      platforms_(real_platforms(options_.devices)) {
  objects.before_use = [this](u64 number) { wait_for_contents(number); };
  if (options_.portable) portable.emplace(real_platforms());
}

Result<> Server::run(UniqueFd client) {
  CKPT_CHECK(output.capture());
  CKPT_CHECK(greet(std::move(client)));
  CKPT_TRY(std::thread watcher, start_thread([this] {
             channel.wait_for_end_of_client();
             owed.wait();
             _exit(0);
           }));
  watcher.detach();
  do serve();
  while (parked_ && wait_for_return());
  owed.wait();
  return {};
}

// What was enqueued before runs meanwhile.
void Server::wait_for_contents(u64 number) {
  if (!arriving.misses(number)) return;
  queues.flush();
  arriving.need(number);
}

Result<> Server::greet(UniqueFd client) {
  Writer w;
  w.put(kWireVersion).put(options_.token).put(static_cast<u32>(platforms_.size()));
  for (const RealPlatform &p : platforms_) {
    w.str(p.name).put(static_cast<u32>(p.devices.size()));
    for (const RealDevice &d : p.devices) w.put(u64{d.type}).str(d.name);
  }
  w.put(static_cast<u32>(::getpid()));
  int fd = channel.memory_fd();
  CKPT_CHECK(send_message(client.get(), kGreeting, w.bytes(), std::span(&fd, 1)));
  channel.connect(std::move(client));
  return {};
}

void Server::serve() {
  parked_ = false;
  while (!parked_) {
    queues.release_finished();
    if (!channel.ready()) queues.flush();
    std::optional<Channel::Incoming> c = channel.next();
    if (!c) return;
    carry_out(*c);
    channel.done();
  }
}

// After Park: the keeper sends the client's new connection. Returns false if none will come.
bool Server::wait_for_return() {
  channel.connect({});
  auto m = receive_message(control_.get());
  if (!m || !*m || (*m)->type != static_cast<u16>(protocol::Type::Adopt) || (*m)->fds.size() != 1)
    return false;
  auto r = greet(std::move((*m)->fds[0]));
  if (!r) log::error(r.error());
  return r.has_value();
}

void Server::carry_out(const Channel::Incoming &c) {
  const CommandHeader &h = c.header;
  Reader r(c.payload);
  switch (static_cast<Op>(h.op)) {
    case Op::Release: return release_object(*this, r);
    case Op::Info: return info(h, r);
    case Op::KernelParameters: return kernel_parameters(*this, h, r);
    case Op::KernelArgs: return kernel_args(*this, h, r);
    case Op::Headers: return headers(*this, h, r);
    case Op::ProgramSource: return program_source(*this, h, r);
    case Op::ProgramBinary: return program_binary(*this, h, r);
    case Op::CompileProgram: return compile_program(*this, h, r);
    case Op::LinkProgram: return link_program(*this, h, r);
    case Op::Read:
    case Op::Write: return transfer(*this, h, r);
    case Op::ReadRect:
    case Op::WriteRect: return transfer_rect(*this, h, r);
    case Op::ReadContents:
    case Op::WriteContents: return move_contents(*this, h, r);
    case Op::ShareMemory: return share_memory(*this, h, r, c.fd);
    case Op::ShareBlock: return share_block(*this, h, r, c.fd);
    case Op::ShareInBlock: return share_in_block(*this, h, r);
    case Op::BufferFile: return buffer_file(*this, h, r);
    case Op::OwedFile:
    case Op::Owed:
    case Op::OwedBegin:
    case Op::Settle: return owed_contents(*this, h, r, c.fd);
    case Op::ArrivesLater:
    case Op::ArrivalBegin:
    case Op::Arrive: return arriving_contents(*this, h, r, c.fd);
    case Op::Staging: return map_tool_staging(h, r);
    case Op::StagingEnd: tool_staging_.reset(); return reply(h, CL_SUCCESS);
    case Op::Park: parked_ = true; return reply(h, CL_SUCCESS);
    case Op::MapDevices: return map_devices(h, r);
    case Op::CreateImage: return create_image(*this, h, r);
    case Op::ReadImage:
    case Op::WriteImage: return transfer_image(*this, h, r);
    case Op::SubDevices: return sub_devices(*this, h, r);
    case Op::KernelSubGroup: return kernel_sub_group(*this, h, r);
    case Op::Marker: return marker(h, r);
    case Op::RoundTrip: return reply(h, CL_SUCCESS);
    case Op::CheckRequirements: return check(h, r);
    case Op::TestSlices: return test_slices(h, r);
    case Op::Folder: return enter_folder(c.fd);
  }
  if (!carry_out_api(*this, h, r)) {
    log::error("the application sent command {}, which this proxy does not know", h.op);
    reply(h, CL_INVALID_OPERATION);
  }
}

void Server::reply(const CommandHeader &h, cl_int status, ByteView bytes) {
  if (!(h.flags & kSync)) return;
  if (auto r = channel.reply(status, bytes); !r) log::error(r.error());
}

void Server::enqueued(const CommandHeader &h, cl_command_queue queue, cl_event event, cl_int status,
                      Bytes data) {
  objects.found_failed();  // not of the next command
  if (status == CL_SUCCESS && event && queues.has(queue)) {
    // The reply comes first, because a driver may call back before enqueued() returns.
    reply(h, status);
    return queues.enqueued(queue, h.made, event, std::move(data));
  }
  if (status == CL_SUCCESS) status = CL_INVALID_COMMAND_QUEUE;
  if (h.made != 0) objects.event_ended(h.made, true);
  if (h.flags & kSync) return reply(h, status);
  if (status != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    log::warn("the device refused a command (operation {}): OpenCL error {}", h.op, status);
  if (h.made != 0) channel.complete({h.made, status, 0, 0, 0, 0, 0});
}

void Server::marker(const CommandHeader &h, Reader r) {
  auto queue = objects.get<cl_command_queue>(Kind::Queue, r.get<u64>());
  cl_int status =
      queue && h.made != 0 ? queues.complete_after_all(queue, h.made) : CL_INVALID_COMMAND_QUEUE;
  if (status != CL_SUCCESS && h.made != 0) channel.complete({h.made, status, 0, 0, 0, 0, 0});
}

void Server::remove_context(cl_context context) {
  auto it = transfer_queues_.find(context);
  if (it == transfer_queues_.end()) return;
  ::clReleaseCommandQueue(it->second);
  transfer_queues_.erase(it);
}

cl_command_queue Server::transfer_queue(cl_mem mem) {
  cl_context context = nullptr;
  ::clGetMemObjectInfo(mem, CL_MEM_CONTEXT, sizeof context, &context, nullptr);
  auto it = transfer_queues_.find(context);
  if (it != transfer_queues_.end()) return it->second;
  cl_device_id devices[64];
  size_t size = 0;
  if (::clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof devices, devices, &size) !=
          CL_SUCCESS ||
      size == 0)
    return nullptr;
  cl_command_queue q = ::clCreateCommandQueue(context, devices[0], 0, nullptr);
  return transfer_queues_[context] = q;
}

std::byte *Server::tool_staging(u64 offset, u64 bytes) {
  if (offset > tool_staging_.size() || bytes > tool_staging_.size() - offset) return nullptr;
  return tool_staging_.data() + offset;
}

void Server::map_tool_staging(const CommandHeader &h, Reader r) {
  u64 bytes = r.get<u64>();
  auto m = receive_message(channel.socket());
  if (!r.ok() || !m || !*m || (*m)->type != kStagingFd || (*m)->fds.size() != 1)
    return reply(h, CL_INVALID_VALUE);
  auto mapping = Mapping::map((*m)->fds[0].get(), bytes);
  if (!mapping) {
    log::error(mapping.error());
    return reply(h, CL_OUT_OF_RESOURCES);
  }
  tool_staging_ = std::move(*mapping);
  reply(h, CL_SUCCESS);
}

void Server::map_devices(const CommandHeader &h, Reader r) {
  std::vector<ProgramDevice> wanted;
  u32 n = r.get<u32>();
  for (u32 i = 0; i < n && r.ok(); i++) {
    ProgramDevice &w = wanted.emplace_back();
    w.number = r.get<u64>();
    w.used = r.get<u8>() != 0;
    w.platform = r.str();
    w.name = r.str();
    w.nth = r.get<u32>();
  }
  auto real = map_program_devices(wanted, platforms_, !options_.devices.empty());
  if (!r.ok() || !real) {
    if (!real) log::error(real.error());
    return reply(h, CL_DEVICE_NOT_FOUND);
  }
  Writer w;
  for (size_t i = 0; i < wanted.size(); i++) {
    const RealDevice *d = (*real)[i];
    if (d) objects.put(Kind::Device, wanted[i].number, d->id);
    w.put(u8{d != nullptr}).str(d ? platform_of(d->id) : "").str(d ? d->name : "");
    w.put(d ? d->nth : 0);
  }
  for (const RealDevice *d : *real) w.str(d ? uuid_of_device(*d) : "");
  reply(h, CL_SUCCESS, w.bytes());
}

// If it fails, a build that needs the folder reports the error.
void Server::enter_folder(int folder) {
  if (folder < 0 || ::fchdir(folder) != 0)
    log::warn("the OpenCL proxy cannot follow the program into its working folder");
}

// The check of ckpt-restore, against the devices that this proxy shows.
void Server::check(const CommandHeader &h, Reader r) {
  nlohmann::json requirements = nlohmann::json::parse(r.str(), nullptr, false);
  if (!r.ok() || !requirements.is_object()) return reply(h, CL_INVALID_VALUE);
  CheckAnswer answer = check_requirements(requirements, {options_.devices});
  for (const std::string &warning : answer.warnings) log::warn("{}", warning);
  Writer w;
  w.put(static_cast<u32>(answer.reasons.size()));
  for (const std::string &reason : answer.reasons) w.str(reason);
  reply(h, CL_SUCCESS, w.bytes());
}

void Server::test_slices(const CommandHeader &h, Reader r) {
  auto device = objects.get<cl_device_id>(Kind::Device, r.get<u64>());
  if (!device) return reply(h, CL_INVALID_DEVICE);
  reply(h, CL_SUCCESS, Writer().str(why_no_slices(device)).bytes());
}

std::string Server::uuid_of_device(const RealDevice &device) const {
  for (const RealPlatform &p : platforms_)
    for (const RealDevice &d : p.devices)
      if (&d == &device) return uuid_of(p, d);
  return {};
}

void Server::info(const CommandHeader &h, Reader r) {
  InfoOf of = r.get<InfoOf>();
  u64 number = r.get<u64>(), second = r.get<u64>();
  u32 param = r.get<u32>();
  Bytes value;
  cl_int status = r.ok() ? info_value(*this, of, number, second, param, value) : CL_INVALID_VALUE;
  reply(h, status, value);
}

}  // namespace ckpt::ocl
