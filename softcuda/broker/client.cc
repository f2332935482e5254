// SPDX-License-Identifier: Apache-2.0
#include "softcuda/broker/client.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "common/base/installation.h"

namespace ckpt::softcuda::broker {
namespace {

constexpr int kStartTries = 200;
constexpr auto kStartPause = std::chrono::milliseconds(20);

Client *the_client = nullptr;

std::string setting() {
  const char *set = std::getenv("CKPT_SOFTCUDA");
  return set == nullptr ? "" : set;
}

// Next to this library, as in the build folder, or else the installed one.
std::string executable() {
  if (const char *set = std::getenv("CKPT_SOFTCUDA_BROKER")) return set;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void *>(&parse_configuration), &info) != 0 &&
      info.dli_fname != nullptr) {
    std::error_code ec;
    std::filesystem::path folder =
        std::filesystem::absolute(info.dli_fname, ec).lexically_normal().parent_path();
    for (const auto &path : {folder, installation_prefix(folder) / CKPT_LIBEXECDIR})
      if (access((path / "ckpt-softcuda-broker").c_str(), X_OK) == 0)
        return (path / "ckpt-softcuda-broker").string();
  }
  return std::string(CKPT_PREFIX "/" CKPT_LIBEXECDIR "/ckpt-softcuda-broker");
}

// The broker forks; its first process exits when the socket accepts connections.
Result<> start_broker(const std::string &path, const Configuration &c) {
  std::string program = executable(), config = c.text();
  const char *argv[] = {program.c_str(), path.c_str(), config.c_str(), nullptr};
  pid_t pid = 0;
  int e = posix_spawn(&pid, program.c_str(), nullptr, nullptr, const_cast<char **>(argv), environ);
  if (e != 0)
    return fail_with_hint(
        fmt::format("cannot start {}: {}", program, std::strerror(e)),
        "reinstall the software device; CKPT_SOFTCUDA_BROKER names another executable");
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {};
}

Result<UniqueFd> connect_or_start() {
  CKPT_TRY(Configuration c, parse_configuration(setting()));
  CKPT_TRY(std::string path, socket_path(c));
  for (int i = 0;; ++i) {
    Result<UniqueFd> fd = connect_unix(path);
    if (fd || i == kStartTries) return fd;
    // Of several programs that find no broker, the one with the lock starts it.
    UniqueFd lock(open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock) return fail_errno("cannot open {}.lock", path);
    if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
      fd = connect_unix(path);
      if (fd) return fd;
      CKPT_CHECK(start_broker(path, c));
    }
    std::this_thread::sleep_for(kStartPause);
  }
}

}  // namespace

Result<std::unique_ptr<Client>> Client::connect() {
  std::unique_ptr<Client> client(new Client);
  CKPT_TRY(client->socket_, connect_or_start());
  CKPT_CHECK(client->hello());
  the_client = client.get();
  return client;
}

Client::~Client() {
  if (the_client == this) the_client = nullptr;
}

void Client::close_in_child() {
  if (the_client == nullptr) return;
  if (the_client->socket_) close(the_client->socket_.release());
  if (the_client->service_) close(the_client->service_.release());
}

Result<Message> Client::exchange(Request type, ByteView body, Response expected,
                                 std::span<const int> fds) {
  std::lock_guard lock(mutex_);
  if (!socket_) return fail("not connected to the broker of the software device");
  CKPT_CHECK(send_message(socket_.get(), static_cast<u16>(type), body, fds));
  CKPT_TRY(std::optional<Message> m, receive_message(socket_.get(), kMaxMessage));
  if (!m) return fail("the broker of the software device disconnected");
  if (m->type != static_cast<u16>(expected))
    return fail("the broker of the software device answered with message {} instead of {}", m->type,
                static_cast<u16>(expected));
  return std::move(*m);
}

Result<Bytes> Client::call(Request type, ByteView body, Response expected) {
  CKPT_TRY(Message m, exchange(type, body, expected));
  return std::move(m.body);
}

Result<> Client::hello() {
  CKPT_TRY(Bytes body, call(Request::Hello, {}, Response::Devices));
  Reader r(body);
  devices_.clear();
  for (u32 n = r.get<u32>(); n > 0 && r.ok(); --n) {
    DeviceInfo d;
    d.name = r.str();
    ByteView uuid = r.raw(16);
    if (r.ok()) std::memcpy(d.uuid.data(), uuid.data(), 16);
    d.total_bytes = r.get<u64>();
    devices_.push_back(std::move(d));
  }
  return r.done() ? Result<>() : fail("the answer of the software device's broker is malformed");
}

bool Client::take(u32 device, u64 bytes) {
  Writer w;
  w.put(broker_index(device)).put(bytes);
  Result<Bytes> answer = call(Request::Take, w.bytes(), Response::Answer);
  if (!answer) return false;
  Reader r(*answer);
  bool taken = r.get<u8>() == 1 && r.ok();
  if (!taken && on_refusal && !explained_) explain_refusal(device, bytes);
  return taken;
}

// Programs that run with the same setting share the devices, which is not obvious: there is nothing
// that they share on a machine without a GPU.
void Client::explain_refusal(u32 device, u64 bytes) {
  Result<std::vector<ProcessUse>> list = processes(device);
  if (!list) return;
  u64 others = 0;
  std::string holders;
  for (const ProcessUse &p : *list) {
    if (p.pid == getpid() || p.bytes == 0) continue;
    others += p.bytes;
    holders += fmt::format("{}{} ({} MiB)", holders.empty() ? "" : ", ", p.pid, p.bytes >> 20);
  }
  if (others == 0 || explained_.exchange(true)) return;
  on_refusal(fmt::format(
      "device {} has too little free memory for {} MiB: other programs that run with the same "
      "setting of CKPT_SOFTCUDA share it and have {} of its {} MiB: process {}. A program with "
      "another setting, as in softcuda-run --devices 1x{}M, has devices of its own",
      device, (bytes + (1u << 20) - 1) >> 20, others >> 20,
      devices_[broker_index(device)].total_bytes >> 20, holders,
      (devices_[broker_index(device)].total_bytes >> 20) + 1));
}

// Of requests without an answer.
void Client::tell(Request type, const Writer &w) {
  std::lock_guard lock(mutex_);
  if (socket_) (void)send_message(socket_.get(), static_cast<u16>(type), w.bytes());
}

void Client::give(u32 device, u64 bytes) {
  tell(Request::Give, Writer().put(broker_index(device)).put(bytes));
}

void Client::hold(u64 file, u32 device, u64 bytes, bool own) {
  Writer w;
  w.put(file).put(broker_index(device)).put(bytes).put<u8>(own);
  tell(Request::Hold, w);
}

void Client::drop(u64 file) { tell(Request::Drop, Writer().put(file)); }

Result<DeviceUse> Client::use(u32 device) {
  Writer w;
  w.put(broker_index(device));
  CKPT_TRY(Bytes body, call(Request::Info, w.bytes(), Response::Info));
  Reader r(body);
  DeviceUse u;
  u.total_bytes = r.get<u64>();
  u.free_bytes = r.get<u64>();
  if (!r.done()) return fail("the answer of the software device's broker is malformed");
  return u;
}

Result<EngineUse> Client::engines(u32 device) {
  Writer w;
  w.put(broker_index(device));
  CKPT_TRY(Bytes body, call(Request::Busy, w.bytes(), Response::Busy));
  Reader r(body);
  EngineUse u;
  for (i64 *time : {&u.all, &u.kernels, &u.bus}) *time = r.get<i64>();
  u.runs_kernel = r.get<u8>() != 0;
  u.uses_bus = r.get<u8>() != 0;
  if (!r.done()) return fail("the answer of the software device's broker is malformed");
  return u;
}

Result<KernelTimes> Client::kernel_times(u32 device) {
  Writer w;
  w.put(broker_index(device));
  CKPT_TRY(Bytes body, call(Request::Times, w.bytes(), Response::Times));
  Reader r(body);
  KernelTimes times;
  times.all = r.get<i64>();
  for (u32 n = r.get<u32>(); n > 0 && r.ok(); --n) {
    i32 pid = r.get<i32>();
    times.of[pid] = r.get<i64>();
  }
  if (!r.done()) return fail("the answer of the software device's broker is malformed");
  return times;
}

Result<std::vector<ProcessUse>> Client::processes(u32 device) {
  Writer w;
  w.put(broker_index(device));
  CKPT_TRY(Bytes body, call(Request::Processes, w.bytes(), Response::Processes));
  Reader r(body);
  std::vector<ProcessUse> list;
  for (u32 n = r.get<u32>(); n > 0 && r.ok(); --n) {
    i32 pid = r.get<i32>();
    list.push_back({pid, r.get<u64>()});
  }
  if (!r.done()) return fail("the answer of the software device's broker is malformed");
  return list;
}

bool Client::has_others() {
  Result<Bytes> answer = call(Request::Others, {}, Response::Answer);
  return answer && Reader(*answer).get<u8>() == 1;
}

Result<i64> Client::reserve(u32 device, const Job &job) {
  Writer w;
  w.put(broker_index(device)).put(job.since).put(job.kernel).put(job.switch_cost);
  w.put(job.bus).put(job.bus_switch_cost);
  CKPT_TRY(Bytes body, call(Request::Reserve, w.bytes(), Response::Time));
  Reader r(body);
  i64 end = r.get<i64>();
  if (!r.done()) return fail("the answer of the software device's broker is malformed");
  return end;
}

Result<std::optional<Bytes>> Client::ask(i32 pid, ByteView order) {
  Writer w;
  w.put(pid).blob(order);
  CKPT_TRY(Bytes body, call(Request::Ask, w.bytes(), Response::Reply));
  Reader r(body);
  if (r.get<u8>() == 0) return std::optional<Bytes>();
  ByteView answer = r.blob();
  if (!r.done()) return fail("the answer of the software device's broker is malformed");
  return std::optional<Bytes>(Bytes(answer.begin(), answer.end()));
}

u64 Client::identity() {
  {
    std::lock_guard lock(mutex_);
    if (identity_ != 0) return identity_;
  }
  Result<Bytes> answer = call(Request::Identify, {}, Response::Identity);
  u64 identity = answer ? Reader(*answer).get<u64>() : 0;
  std::lock_guard lock(mutex_);
  return identity_ = identity;
}

bool Client::is_connected(u64 identity) {
  Writer w;
  w.put(identity);
  Result<Bytes> answer = call(Request::Connected, w.bytes(), Response::Answer);
  return answer && Reader(*answer).get<u8>() == 1;
}

Result<ShareId> Client::share(ByteView description, int fd) {
  Writer w;
  w.blob(description);
  CKPT_TRY(Message m, exchange(Request::Share, w.bytes(), Response::Shared, {&fd, 1}));
  Reader r = m.reader();
  bool done = r.get<u8>() == 1;
  std::optional<ShareId> id = read_share_id(r);
  if (!id || !r.done()) return fail("the answer of the software device's broker is malformed");
  if (!done) return fail("the broker of the software device cannot pass on more pieces of memory");
  return *id;
}

void Client::withdraw(const ShareId &id) {
  std::lock_guard lock(mutex_);
  if (socket_) (void)send_message(socket_.get(), static_cast<u16>(Request::Withdraw), id);
}

Result<std::optional<Share>> Client::open(const ShareId &id) {
  CKPT_TRY(Message m, exchange(Request::Open, id, Response::Opened));
  Reader r = m.reader();
  bool found = r.get<u8>() == 1;
  Share s;
  s.owner = r.get<u64>();
  ByteView description = r.blob();
  if (!r.done() || m.fds.size() != (found ? 1 : 0))
    return fail("the answer of the software device's broker is malformed");
  if (!found) return std::optional<Share>();
  s.description.assign(description.begin(), description.end());
  s.fd = std::move(m.fds[0]);
  return std::optional(std::move(s));
}

void Client::disconnect() {
  std::unique_lock lock(mutex_);
  socket_.reset();
  identity_ = 0;
  // The serving thread ends when its connection is shut down. If this is that thread, it ends after
  // it has sent its answer.
  if (!service_ || std::this_thread::get_id() == server_) return;
  shutdown(service_.get(), SHUT_RDWR);
  served_.wait(lock, [&] { return !serving_; });
}

Result<> Client::reconnect() {
  {
    std::lock_guard lock(mutex_);
    CKPT_TRY(socket_, connect_or_start());
  }
  CKPT_CHECK(hello());
  return serve_ && !serving_ ? start_serving(serve_) : Result<>();
}

// An answer says whether it is the last one on its connection. The broker delivers the last one
// only when the connection is closed, so the requester can dump this process at once.
void Client::serve_loop(int fd) {
  for (;;) {
    Result<std::optional<Message>> m = receive_message(fd, kMaxMessage);
    if (!m || !*m) break;
    Reader r((*m)->body);
    u32 ticket = r.get<u32>();
    Bytes answer = serve_(r.blob());
    bool last = !socket_open();
    Writer w;
    w.put(ticket).put<u8>(last).blob(answer);
    if (!send_message(fd, static_cast<u16>(Response::Reply), w.bytes()) || last) break;
  }
  std::lock_guard lock(mutex_);
  service_.reset();
  serving_ = false;
  served_.notify_all();
}

Result<> Client::serve_again() {
  {
    std::lock_guard lock(mutex_);
    if (serving_) return {};
  }
  return start_serving(serve_);
}

bool Client::socket_open() {
  std::lock_guard lock(mutex_);
  return static_cast<bool>(socket_);
}

Result<> Client::start_serving(std::function<Bytes(ByteView)> serve) {
  CKPT_TRY(UniqueFd fd, connect_or_start());
  CKPT_CHECK(send_message(fd.get(), static_cast<u16>(Request::Serve)));
  std::lock_guard lock(mutex_);
  serve_ = std::move(serve);
  service_ = std::move(fd);
  serving_ = true;
  std::thread thread([this, raw = service_.get()] { serve_loop(raw); });
  server_ = thread.get_id();
  thread.detach();
  return {};
}

}  // namespace ckpt::softcuda::broker
