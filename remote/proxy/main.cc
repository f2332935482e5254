// SPDX-License-Identifier: Apache-2.0
//
// ckpt-remote-proxy: stands for a proxy of another node. ckpt-run and ckpt-restore start it where
// they would start ckpt-ocl-proxy or ckpt-cuda-proxy, with the same arguments, --host and --api; it
// is not meant to be started by hand.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent/protocol.h"
#include "ckpt_config.h"
#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/ipc/unix_socket.h"
#include "remote/opencl/near_relay.h"
#include "remote/proxy/cuda_environment.h"
#include "remote/transport/client.h"
#include "remote/transport/pump.h"

namespace ckpt::remote {
namespace {

struct Options {
  std::string host;
  std::string api = "ocl";
  bool list = false, check = false, environment = false;
  int client = -1, control = -1;
  u64 token = 0;
  Wanted wanted;
};

Result<Admitted> ask(const Options &o) {
  CKPT_TRY(Address address, Address::parse(o.host));
  return ask_server(address, o.wanted);
}

// The tool that has started this process says what went wrong.
int print_answer(const Options &o) {
  Result<Admitted> answer = ask(o);
  if (answer) std::cout << text(answer->body);
  if (answer) return answer->exit_code;
  const Error &e = answer.error();
  nlohmann::json out = {{"error", {{"what", e.what}, {"hint", e.hint}}}, {"reasons", {e.text()}}};
  std::cout << out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  return 1;
}

// A refused program learns the reason from the keeper's answer only if the keeper has started
// nothing; here it has, so the reason goes to the program's standard error.
Result<int> serve(const Options &o) {
  UniqueFd client(o.client), control(o.control);
  CKPT_TRY(Address address, Address::parse(o.host));
  CKPT_TRY(Admitted admitted, ask_server(address, o.wanted));
  CKPT_TRY(ocl::Channel channel, ocl::Channel::make());
  NearRelay::Session session{address.text(), o.token, std::move(control), std::move(admitted.body)};
  // Never destroyed: its threads run until the process ends.
  auto *relay =
      new NearRelay(std::move(channel), std::move(admitted.connection), std::move(session));
  CKPT_CHECK(relay->run(std::move(client)));
  return 0;
}

// Gives the connection a name in the session's folder, by which ckpt-dump and the agent know that
// it is none of the program's own. The folder is that of the keeper's socket, which `client` is of.
Result<> name_connection(int client, int connection) {
  sockaddr_un a{};
  socklen_t n = sizeof a;
  if (::getsockname(client, reinterpret_cast<sockaddr *>(&a), &n) < 0)
    return fail_errno("cannot read the name of the session's socket");
  std::filesystem::path session(a.sun_path);
  std::string name = (session.parent_path() / fmt::format("cuda-{}", ::getpid())).string();
  if (session.empty() || name.size() >= sizeof a.sun_path)
    return fail("the session's socket has no folder");
  name.copy(a.sun_path, name.size());
  a.sun_path[name.size()] = 0;
  if (::bind(connection, reinterpret_cast<sockaddr *>(&a), sizeof a) < 0)
    return fail_errno("cannot name the connection {}", name);
  ::unlink(name.c_str());
  return {};
}

// A program that uses CUDA has no use for this process where the socket can go on without it.
Result<int> serve_cuda(const Options &o) {
  UniqueFd client(o.client), control(o.control);
  CKPT_TRY(Address address, Address::parse(o.host));
  CKPT_TRY(Admitted admitted, ask_server(address, o.wanted));
  Stream &server = admitted.connection->stream();
  int socket = server.descriptor();
  auto kOk = static_cast<u16>(protocol::Type::Ok);
  if (server.is_plain()) {
    CKPT_CHECK(name_connection(client.get(), socket));
    CKPT_CHECK(send_message(client.get(), kOk, {}, std::span(&socket, 1)));
    return 0;
  }
  CKPT_CHECK(send_message(client.get(), kOk));
  SocketStream program(std::move(client));
  Result<> r = pump(program, server);
  if (!r) return Failure(std::move(r.error()).in("ckpt-devd at " + address.text()));
  return 0;
}

Purpose purpose_of(const Options &o) {
  bool cuda = o.api == "cuda";
  if (o.list) return cuda ? Purpose::ListCuda : Purpose::List;
  if (o.check) return cuda ? Purpose::CheckCuda : Purpose::Check;
  return cuda ? Purpose::ServeCuda : Purpose::Serve;
}

// Of a program that calls the driver in its own process, with the driver's checkpoint.
bool calls_natively(const std::string &question) {
  nlohmann::json all = nlohmann::json::parse(question, nullptr, false);
  if (!all.is_object()) return false;
  return !json_value(json_member(all, "needs"), "forwarded", false);
}

int refuse_native_program() {
  nlohmann::json out = {{"reasons",
                         {"the program calls the CUDA driver in its own process, so it cannot use "
                          "devices of another node: only a program that ckpt-run has started with "
                          "--device remote:HOST/cuda:N can"}}};
  std::cout << out.dump() << std::endl;
  return 1;
}

Result<int> execute(Options &o) {
  if (o.environment) {
    std::cout << cuda_environment() << std::endl;
    return 0;
  }
  o.wanted.purpose = purpose_of(o);
  if (o.check) o.wanted.question = {std::istreambuf_iterator<char>(std::cin), {}};
  if (o.check && o.api == "cuda" && calls_natively(o.wanted.question))
    return refuse_native_program();
  if (o.list || o.check) return print_answer(o);
  return o.api == "cuda" ? serve_cuda(o) : serve(o);
}

int run(int argc, char **argv) {
  CLI::App app{"stands for a proxy of another node"};
  app.set_version_flag("--version", CKPT_VERSION);
  Options o;
  app.add_option("--host", o.host, "where ckpt-devd listens")->required();
  app.add_option("--api", o.api, "ocl or cuda");
  app.add_flag("--list", o.list, "print the node's devices as JSON");
  app.add_flag("--check", o.check,
               "read an image's requirements, print the reasons against the devices");
  app.add_flag("--environment", o.environment,
               "print as JSON the environment that makes a program load the forwarding "
               "libcuda.so.1");
  app.add_option("--serve", o.client, "serve the application at this descriptor");
  app.add_option("--control", o.control, "the keeper's descriptor");
  app.add_option("--token", o.token, "the keeper's name for this process");
  app.add_option("--device", o.wanted.devices, "keys of the devices to show");
  app.add_flag("--portable", o.wanted.portable, "advertise only what all devices have");
  CLI11_PARSE(app, argc, argv);
  Result<int> code = guarded([&] { return execute(o); });
  if (!code) log::error(code.error());
  return code ? *code : 1;
}

}  // namespace
}  // namespace ckpt::remote

int main(int argc, char **argv) {
  ckpt::log::set_name("ckpt-remote-proxy");
  ckpt::survive_file_size_limit();
  ::signal(SIGPIPE, SIG_IGN);
  int code = ckpt::remote::run(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  _exit(code);  // the relay's threads still run
}
