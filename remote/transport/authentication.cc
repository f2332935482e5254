// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/authentication.h"

#include <unistd.h>

#include <cstdlib>

#include "common/base/named_user.h"
#include "remote/transport/munge.h"

namespace ckpt::remote {
namespace {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

bool exists(const std::string &path) { return ::access(path.c_str(), F_OK) == 0; }

bool munge_is_there() {
  Result<Munge> munge = Munge::load(chosen_munge_socket());
  return munge && exists(munge->socket());
}

}  // namespace

Result<Authentication> choose_authentication(const std::string &wanted, bool has_certificates,
                                             bool has_munge) {
  if (wanted == "munge") return Authentication::Munge;
  if (wanted == "certificates") return Authentication::Certificates;
  if (!wanted.empty())
    return fail_with_hint(fmt::format("CKPT_REMOTE_AUTH is \"{}\"", wanted),
                          "set it to munge or certificates, or unset it");
  return has_munge && !has_certificates ? Authentication::Munge : Authentication::Certificates;
}

Result<Authentication> chosen_authentication() {
  bool named = !variable("CKPT_CERTIFICATES").empty();
  bool has_certificates = named || exists(usual_certificates(Tls::Side::Client));
  return choose_authentication(variable("CKPT_REMOTE_AUTH"), has_certificates,
                               !has_certificates && munge_is_there());
}

std::string chosen_munge_socket() { return variable("CKPT_MUNGE_SOCKET"); }

Result<std::set<uid_t>> accepted_servers() {
  std::string name = variable("CKPT_DEVD_USER");
  if (name.empty()) return std::set<uid_t>{0, ::geteuid()};
  if (std::optional<uid_t> uid = named_user(name)) return std::set<uid_t>{*uid};
  return fail_with_hint(
      fmt::format("CKPT_DEVD_USER is \"{}\", and this node has no such user", name),
      "set it to the user of ckpt-devd on the other node, or unset it");
}

}  // namespace ckpt::remote
