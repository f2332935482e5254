// SPDX-License-Identifier: Apache-2.0
//
// ckpt-devd: serves the devices of this node to programs on other nodes, and makes the certificates
// by which they know each other.
#include <unistd.h>

#include <cstdlib>

#include "common/base/open_files.h"
#include "common/base/print.h"
#include "common/base/ready.h"
#include "common/base/text.h"
#include "remote/server/daemon.h"
#include "remote/transport/account.h"
#include "remote/transport/certificates.h"
#include "tools/command_line.h"
#include "tools/devd/proxies.h"

namespace ckpt::tools {
namespace {

constexpr const char *kConfigurationFile = "/etc/ckpt/ckpt-devd.conf";

struct Options {
  std::string socket, listen, certificates, munge_socket, allow, account;
  bool munge = false;
  unsigned connections = remote::Limits{}.connections;
  unsigned all_connections = remote::Limits{}.all_connections;
  u64 memory = 0;
  std::string make_ca, make_node, make_user, ca;
  int days = 730;
};

std::string own_socket() {
  if (::geteuid() == 0) return remote::kNodeSocket;
  for (const char *variable : {"CKPT_RUNTIME_DIR", "XDG_RUNTIME_DIR"})
    if (const char *folder = std::getenv(variable); folder != nullptr && *folder == '/')
      return std::string(folder) + "/ckpt-devd.sock";
  return "/tmp/ckpt-devd-" + std::to_string(::getuid()) + ".sock";
}

Result<remote::DaemonOptions> daemon_options(const Options &o) {
  remote::DaemonOptions d;
  d.socket = o.socket.empty() ? own_socket() : o.socket == "none" ? "" : o.socket;
  if (!o.listen.empty()) {
    CKPT_TRY(d.listen, remote::Address::parse(o.listen));
  }
  if (d.socket.empty() && !d.listen)
    return fail_with_hint("--socket=none without --listen leaves nothing to serve",
                          "give --listen, or leave out --socket=none");
  d.certificates = o.certificates.empty() ? remote::usual_certificates(remote::Tls::Side::Server)
                                          : o.certificates;
  d.munge = o.munge;
  d.munge_socket = o.munge_socket;
  d.account = o.account;
  for (std::string &name :
       split_at_commas(o.allow.empty() ? remote::identity_of(::geteuid()).user : o.allow))
    d.users.insert(std::move(name));
  d.limits = {o.connections, o.all_connections, o.memory};
  d.starter = proxy_starter();
  return d;
}

Result<int> serve(const Options &o) {
  CKPT_TRY(remote::DaemonOptions options, daemon_options(o));
  allow_many_descriptors();  // one for each connection
  std::string where = options.socket;
  if (options.listen) where += (where.empty() ? "" : " and ") + options.listen->text();
  CKPT_TRY(std::unique_ptr<remote::Daemon> daemon, remote::Daemon::create(std::move(options)));
  print("ckpt-devd: listening on {}\n", where);
  std::fflush(stdout);
  tell_ready();
  CKPT_CHECK(daemon->run());
  return 0;
}

Result<int> make_certificate(const Options &o) {
  bool node = !o.make_node.empty();
  CKPT_TRY(std::string folder,
           remote::make_certificate(o.ca, node ? remote::Holder::Node : remote::Holder::User,
                                    node ? o.make_node : o.make_user, o.days));
  print("{}\n", folder);
  return 0;
}

Result<int> run(const Options &o) {
  if (!o.make_ca.empty()) {
    CKPT_CHECK(remote::make_authority(o.make_ca));
    return 0;
  }
  if (o.make_node.empty() && o.make_user.empty()) return serve(o);
  return make_certificate(o);
}

void add_serving_options(CommandLine &line, Options &o) {
  line.configuration_file("--config=FILE", kConfigurationFile,
                          "a file with any of these options, as lines of the form name = value");
  line.option("--socket=PATH", o.socket, "the UNIX socket for programs of this node, or none")
      .default_is(own_socket());
  Option listen = line.option("--listen=ADDRESS", o.listen,
                              "serve other nodes at this address and port, with TLS; 0.0.0.0:7667 "
                              "is every address");
  listen.default_is("no network");
  Option certificates =
      line.option("--certificates=FOLDER", o.certificates,
                  "the folder with ca.pem and this node's certificate.pem and key.pem");
  certificates.default_is(remote::usual_certificates(remote::Tls::Side::Server));
  Option munge = line.flag("--munge", o.munge,
                           "authenticate users with munge, as Slurm does, instead of "
                           "certificates");
  munge.needs(listen).excludes(certificates);
  line.option("--munge-socket=PATH", o.munge_socket, "the socket of munged")
      .environment("CKPT_MUNGE_SOCKET");
  line.option("--allow=USERS", o.allow,
              "the authorised users, separated by commas: names of certificates, and of this "
              "node's users; *: all users with a certificate or credential, and all users of this "
              "node")
      .default_is(remote::identity_of(::geteuid()).user);
  line.option("--account=NAME", o.account,
              "if root runs ckpt-devd: the account of this node under which all users are served")
      .default_is("the one that has the user's name");
  line.option("--connections=N", o.connections, "connections that one user may have");
  line.option("--all-connections=N", o.all_connections, "connections of all users");
  line.size_option("--memory=SIZE", o.memory,
                   "device memory that one user's buffers and images may have; 0: no limit");
}

void add_certificate_options(CommandLine &line, Options &o) {
  Option ca = line.option("--ca=FOLDER", o.ca, "the folder of the certificate authority");
  Option make_ca = line.option("--make-ca=FOLDER", o.make_ca,
                               "make a certificate authority in a new folder, and exit");
  Option node = line.option("--make-node=NAMES", o.make_node,
                            "make the certificate of a node, into a new folder of the authority; "
                            "NAMES are the names and addresses by which it is reached, separated "
                            "by commas");
  Option user = line.option("--make-user=NAME", o.make_user,
                            "make the certificate of a user, into a new folder of the authority");
  node.needs(ca).excludes(make_ca);
  user.needs(ca).excludes(node);
  line.option("--days=N", o.days, "how long the certificate is valid").range(1, 3650);
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  Options o;
  CommandLine line(
      "ckpt-devd",
      "Serves the devices of this node to programs on other nodes, which use them as "
      "remote:HOST/ocl:N and remote:HOST/cuda:N. Programs of this node reach it at a UNIX socket; "
      "it listens to the network only with --listen. SIGINT or SIGTERM ends it.\n"
      "Exit code 0: ended by a signal, or the certificates were made; 1: failure; 125: the "
      "arguments, or the configuration file, are wrong.");
  add_serving_options(line, o);
  add_certificate_options(line, o);
  return run_tool(line, argc, argv, 1, [&] { return run(o); });
}
