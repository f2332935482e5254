// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/tls.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/clock.h"
#include "remote/transport/address.h"
#include "remote/transport/certificates.h"

namespace ckpt::remote {
namespace {

constexpr const char *kMake = "ckpt-devd --make-ca, --make-node and --make-user make certificates";

// The newest reason that OpenSSL has noted in this thread.
std::string openssl_reason() {
  unsigned long code = ::ERR_peek_last_error();
  const char *reason = code ? ::ERR_reason_error_string(code) : nullptr;
  return reason ? reason : "unknown reason";
}

std::string certificate_hint(long verified) {
  switch (verified) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "its certificate has expired; make a new one with ckpt-devd --make-node or "
             "--make-user";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "its certificate is not valid yet; compare the clocks of the two nodes";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "its certificate is for another name; connect by the name or address for which "
             "ckpt-devd --make-node made it";
    case X509_V_ERR_INVALID_PURPOSE:
      return "the certificate of a node was made with --make-user, or the reverse";
    default:
      return "its certificate is of another authority; both sides need certificates that were "
             "made with the same --ca folder";
  }
}

// The alerts by which a peer says what it has against our certificate (RFC 8446, section 6.2).
std::string alert_hint(int reason) {
  switch (reason) {
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "this side's certificate has expired; make a new one with ckpt-devd --make-user";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      return "the server does not know the authority of this side's certificate; both sides need "
             "certificates that were made with the same --ca folder";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
      return "the server accepts users' certificates only; make one with ckpt-devd --make-user";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED: return kMake;
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL: return "the other side has no TLS 1.3";
    case SSL_R_WRONG_VERSION_NUMBER:
      return "the other side does not speak TLS; is it a ckpt-devd that listens there?";
    default: return "";
  }
}

Failure unusable(const std::string &file) {
  return fail_with_hint(fmt::format("cannot use {}: {}", file, openssl_reason()), kMake);
}

// Whoever reads the key is taken for its owner.
Result<> check_key_file(const std::string &file) {
  struct stat st {};
  if (::stat(file.c_str(), &st) < 0)
    return fail_with_hint(fmt::format("cannot read {}: {}", file, std::strerror(errno)),
                          fmt::format("{}; CKPT_CERTIFICATES names the folder; where munge runs, "
                                      "ckpt-devd --munge needs no certificates",
                                      kMake));
  if ((st.st_mode & 077) == 0) return {};
  return fail_with_hint(fmt::format("others may read the key {}", file), "chmod 600 " + file);
}

void expect_node(SSL &ssl, const std::string &node) {
  X509_VERIFY_PARAM *param = ::SSL_get0_param(&ssl);
  if (is_ip_address(node)) {
    ::X509_VERIFY_PARAM_set1_ip_asc(param, node.c_str());
  } else {
    ::X509_VERIFY_PARAM_set1_host(param, node.c_str(), node.size());
    ::SSL_set_tlsext_host_name(&ssl, node.c_str());
  }
}

// A list of one protocol, in the form of RFC 7301: with its length in front.
std::string_view protocol_of(Authentication by) {
  return by == Authentication::Munge ? "\012ckpt-munge" : "\021ckpt-certificates";
}

const unsigned char *octets(std::string_view text) {
  return reinterpret_cast<const unsigned char *>(text.data());
}

// Called if the client names protocols.
int choose_protocol(SSL *, const unsigned char **chosen, unsigned char *size,
                    const unsigned char *offered, unsigned offered_size, void *own) {
  std::string_view list = protocol_of(*static_cast<const Authentication *>(own));
  int found = ::SSL_select_next_proto(const_cast<unsigned char **>(chosen), size, octets(list),
                                      static_cast<unsigned>(list.size()), offered, offered_size);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

bool has_agreed(const SSL &ssl, Authentication by) {
  const unsigned char *chosen = nullptr;
  unsigned size = 0;
  ::SSL_get0_alpn_selected(&ssl, &chosen, &size);
  std::string_view agreed(reinterpret_cast<const char *>(chosen), size);
  return agreed == protocol_of(by).substr(1);
}

Error other_authentication(Tls::Side side, Authentication by) {
  bool munge = by == Authentication::Munge;
  if (side == Tls::Side::Server)
    return {fmt::format("the program authenticates itself with {}, and this ckpt-devd expects {}",
                        munge ? "a certificate" : "munge", munge ? "munge" : "a certificate"),
            munge ? "set CKPT_REMOTE_AUTH=munge for the program, or start ckpt-devd without --munge"
                  : "set CKPT_REMOTE_AUTH=certificates for the program, or start ckpt-devd with "
                    "--munge"};
  if (munge)
    return {"it authenticates users with certificates, and this program uses munge",
            "get a certificate (ckpt-devd --make-user) and set CKPT_REMOTE_AUTH=certificates, or "
            "start ckpt-devd there with --munge"};
  return {"it authenticates users with munge, and this program uses a certificate",
          "set CKPT_REMOTE_AUTH=munge, or start ckpt-devd there without --munge"};
}

// RFC 5705, section 4: labels that begin so need no registration.
bool export_value(SSL &ssl, std::string_view label, Binding::Value &into) {
  return ::SSL_export_keying_material(&ssl, reinterpret_cast<unsigned char *>(into.data()),
                                      into.size(), label.data(), label.size(), nullptr, 0, 0) == 1;
}

std::string common_name(const SSL &ssl) {
  X509 *certificate = ::SSL_get0_peer_certificate(&ssl);
  if (!certificate) return {};
  X509_NAME *subject = ::X509_get_subject_name(certificate);
  int at = ::X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return {};
  const ASN1_STRING *name = ::X509_NAME_ENTRY_get_data(::X509_NAME_get_entry(subject, at));
  return {reinterpret_cast<const char *>(::ASN1_STRING_get0_data(name)),
          static_cast<size_t>(::ASN1_STRING_length(name))};
}

}  // namespace

Error tls_error(const std::string &step, const SSL &ssl, int why) {
  // Without certificates there is a result, too, and it does not count.
  bool verifies = ::SSL_get_verify_mode(&ssl) != SSL_VERIFY_NONE;
  if (long verified = ::SSL_get_verify_result(&ssl); verifies && verified != X509_V_OK)
    return {fmt::format("{}: the other side's certificate is not accepted: {}", step,
                        ::X509_verify_cert_error_string(verified)),
            certificate_hint(verified)};
  if (why == SSL_ERROR_SYSCALL && ::ERR_peek_last_error() == 0)
    return {fmt::format("{}: {}", step, errno ? std::strerror(errno) : "the peer hung up"), ""};
  int reason = ERR_GET_REASON(::ERR_peek_last_error());
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
    return {fmt::format("{}: the peer hung up", step), ""};
  return {fmt::format("{}: {}", step, openssl_reason()), alert_hint(reason)};
}

std::string usual_certificates(Tls::Side side) {
  if (const char *folder = std::getenv("CKPT_CERTIFICATES"); folder && *folder) return folder;
  if (side == Tls::Side::Server && ::geteuid() == 0) return "/etc/ckpt/certificates";
  if (const char *config = std::getenv("XDG_CONFIG_HOME"); config && *config == '/')
    return std::string(config) + "/ckpt/certificates";
  const char *home = std::getenv("HOME");
  return std::string(home ? home : "") + "/.config/ckpt/certificates";
}

Result<> Tls::begin() {
  ::ERR_clear_error();
  bool client = side_ == Side::Client;
  context_.reset(::SSL_CTX_new(client ? ::TLS_client_method() : ::TLS_server_method()));
  if (!context_) return fail("cannot begin TLS: {}", openssl_reason());
  SSL_CTX *c = context_.get();
  static Authentication each[] = {Authentication::Certificates, Authentication::Munge};
  std::string_view protocol = protocol_of(by_);
  if (client)
    ::SSL_CTX_set_alpn_protos(c, octets(protocol), static_cast<unsigned>(protocol.size()));
  else
    ::SSL_CTX_set_alpn_select_cb(c, choose_protocol, &each[static_cast<int>(by_)]);
  ::SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
  ::SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256");
  ::SSL_CTX_set_num_tickets(c, 0);
  ::SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  ::SSL_CTX_set_read_ahead(c, 1);
  ::SSL_CTX_set_default_read_buffer_len(c, 256u << 10);
  return {};
}

Result<Tls> Tls::load(const std::string &folder, Side side) {
  Tls tls(side, Authentication::Certificates);
  CKPT_CHECK(tls.begin());
  SSL_CTX *c = tls.context_.get();
  std::string ca = folder + "/ca.pem", own = folder + "/certificate.pem", key = folder + "/key.pem";
  CKPT_CHECK(check_key_file(key));
  if (!::SSL_CTX_load_verify_file(c, ca.c_str())) return unusable(ca);
  if (::SSL_CTX_use_certificate_file(c, own.c_str(), SSL_FILETYPE_PEM) != 1) return unusable(own);
  if (::SSL_CTX_use_PrivateKey_file(c, key.c_str(), SSL_FILETYPE_PEM) != 1) return unusable(key);
  ::SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return tls;
}

Result<Tls> Tls::unidentified(Side side) {
  Tls tls(side, Authentication::Munge);
  CKPT_CHECK(tls.begin());
  ::SSL_CTX_set_verify(tls.context_.get(), SSL_VERIFY_NONE, nullptr);
  if (side == Side::Server) CKPT_CHECK(use_new_key(*tls.context_));
  return tls;
}

Error Tls::refusal(const SSL &ssl, int why) const {
  int reason = ERR_GET_REASON(::ERR_peek_last_error());
  if (why == SSL_ERROR_SSL && (reason == SSL_R_NO_APPLICATION_PROTOCOL ||
                               reason == SSL_AD_REASON_OFFSET + SSL_AD_NO_APPLICATION_PROTOCOL))
    return other_authentication(side_, by_);
  return tls_error("cannot agree on TLS", ssl, why);
}

Result<> Tls::agree(SSL &ssl, int socket, Clock::time_point deadline) const {
  for (;;) {
    ::ERR_clear_error();
    errno = 0;
    int n = side_ == Side::Client ? ::SSL_connect(&ssl) : ::SSL_accept(&ssl);
    if (n == 1) return {};
    int why = ::SSL_get_error(&ssl, n);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
      return Failure(refusal(ssl, why));
    CKPT_CHECK(wait_for_socket(socket, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline));
  }
}

Result<std::unique_ptr<Stream>> Tls::handshake(UniqueFd socket, const std::string &node,
                                               Clock::time_point deadline, Peer *peer) const {
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  SslPtr ssl(::SSL_new(context_.get()));
  if (!ssl || !::SSL_set_fd(ssl.get(), socket.get()))
    return fail("cannot begin TLS: {}", openssl_reason());
  bool munge = by_ == Authentication::Munge;
  if (side_ == Side::Client && !munge) expect_node(*ssl, node);
  CKPT_CHECK(agree(*ssl, socket.get(), deadline));
  // A server that knows no protocols has certificates.
  if (munge && !has_agreed(*ssl, by_)) return Failure(other_authentication(side_, by_));
  if (peer && munge &&
      (!export_value(*ssl, "EXPERIMENTAL ckpt munge client", peer->binding.client) ||
       !export_value(*ssl, "EXPERIMENTAL ckpt munge server", peer->binding.server)))
    return fail("cannot tie munge to the connection: {}", openssl_reason());
  if (peer && !munge) peer->user = common_name(*ssl);
  return std::make_unique<TlsStream>(std::move(socket), std::move(ssl));
}

}  // namespace ckpt::remote
