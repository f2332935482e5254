// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/certificates.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>

#include "common/base/io.h"
#include "common/base/text.h"
#include "common/base/unique_fd.h"
#include "remote/transport/address.h"

namespace ckpt::remote {
namespace {

constexpr long kAuthorityDays = 3650;
constexpr long kSecondsOfDay = 86400;
constexpr long kClockDifference = 3600;  // between two nodes

struct Free {
  void operator()(X509 *p) const { ::X509_free(p); }
  void operator()(EVP_PKEY *p) const { ::EVP_PKEY_free(p); }
  void operator()(X509_EXTENSION *p) const { ::X509_EXTENSION_free(p); }
  void operator()(BIO *p) const { ::BIO_free_all(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

struct Pair {
  Owned<X509> certificate;
  Owned<EVP_PKEY> key;
};

Failure openssl_failed(const std::string &what) {
  const char *reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  return fail("cannot {}: {}", what, reason ? reason : "unknown reason");
}

bool add_extension(X509 &c, X509 &issuer, int kind, const std::string &value) {
  X509V3_CTX context;
  ::X509V3_set_ctx(&context, &issuer, &c, nullptr, nullptr, 0);
  Owned<X509_EXTENSION> e(::X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return e && ::X509_add_ext(&c, e.get(), -1) == 1;
}

bool set_serial(X509 &c) {
  unsigned char random[16];
  if (::RAND_bytes(random, sizeof random) != 1) return false;
  random[0] &= 0x7f;  // positive (RFC 5280, 4.1.2.2)
  BIGNUM *number = ::BN_bin2bn(random, sizeof random, nullptr);
  bool ok = number && ::BN_to_ASN1_INTEGER(number, ::X509_get_serialNumber(&c));
  ::BN_free(number);
  return ok;
}

// Everything but the issuer, the extensions and the signature.
Result<Pair> begin(const std::string &name, long days) {
  Pair p{Owned<X509>(::X509_new()), Owned<EVP_PKEY>(EVP_EC_gen("P-256"))};
  X509 *c = p.certificate.get();
  const auto *text = reinterpret_cast<const unsigned char *>(name.c_str());
  if (!c || !p.key || !set_serial(*c) || ::X509_set_version(c, X509_VERSION_3) != 1 ||
      !::X509_gmtime_adj(::X509_getm_notBefore(c), -kClockDifference) ||
      !::X509_gmtime_adj(::X509_getm_notAfter(c), days * kSecondsOfDay) ||
      ::X509_set_pubkey(c, p.key.get()) != 1 ||
      ::X509_NAME_add_entry_by_txt(::X509_get_subject_name(c), "CN", MBSTRING_UTF8, text, -1, -1,
                                   0) != 1)
    return openssl_failed(fmt::format("make a certificate for \"{}\"", name));
  return p;
}

Result<> write_new(const std::string &path, mode_t mode, const std::function<int(BIO *)> &write) {
  Owned<BIO> memory(::BIO_new(::BIO_s_mem()));
  char *data = nullptr;
  if (!memory || write(memory.get()) != 1) return openssl_failed("encode " + path);
  long size = ::BIO_get_mem_data(memory.get(), &data);
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) return fail_errno("cannot create {}", path);
  return write_all(fd.get(), view(data, static_cast<size_t>(size)));
}

Result<> write_pair(const std::string &certificate, const std::string &key, const Pair &p) {
  CKPT_CHECK(write_new(key, 0600, [&](BIO *out) {
    return ::PEM_write_bio_PrivateKey(out, p.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }));
  return write_new(certificate, 0644,
                   [&](BIO *out) { return ::PEM_write_bio_X509(out, p.certificate.get()); });
}

Result<> make_folder(const std::string &folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return fail_errno("cannot create {}", folder);
  return fail_with_hint(fmt::format("{} exists already", folder),
                        "name another folder, or remove it if its certificates are not used");
}

Result<Pair> read_authority(const std::string &folder) {
  Pair p;
  Owned<BIO> certificate(::BIO_new_file((folder + "/ca.pem").c_str(), "r"));
  Owned<BIO> key(::BIO_new_file((folder + "/ca.key").c_str(), "r"));
  if (certificate)
    p.certificate.reset(::PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr));
  if (key) p.key.reset(::PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
  if (p.certificate && p.key) return p;
  return fail_with_hint(fmt::format("{} holds no certificate authority", folder),
                        "ckpt-devd --make-ca makes one");
}

// They become file names and parts of OpenSSL's syntax.
Result<> check_names(const std::vector<std::string> &names) {
  auto odd = [](char ch) {
    return !std::isalnum(static_cast<unsigned char>(ch)) && !std::strchr("._-:@", ch);
  };
  for (const std::string &name : names)
    if (name.empty() || name.size() > 64 || name.starts_with('.') ||
        std::any_of(name.begin(), name.end(), odd))
      return fail("\"{}\" is no name for a certificate", name);
  return names.empty() ? Result<>(fail("the name is empty")) : Result<>();
}

std::string alternative_names(const std::vector<std::string> &names) {
  std::string all;
  for (const std::string &name : names) {
    const char *kind = is_ip_address(name) ? "IP" : "DNS";
    all += fmt::format("{}{}:{}", all.empty() ? "" : ",", kind, name);
  }
  return all;
}

}  // namespace

Result<> make_authority(const std::string &folder) {
  CKPT_TRY(Pair p, begin("ckpt cluster", kAuthorityDays));
  X509 &c = *p.certificate;
  if (::X509_set_issuer_name(&c, ::X509_get_subject_name(&c)) != 1 ||
      !add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(c, c, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(c, c, NID_subject_key_identifier, "hash") ||
      ::X509_sign(&c, p.key.get(), ::EVP_sha256()) == 0)
    return openssl_failed("make a certificate authority");
  CKPT_CHECK(make_folder(folder));
  return write_pair(folder + "/ca.pem", folder + "/ca.key", p);
}

Result<std::string> make_certificate(const std::string &authority, Holder holder,
                                     const std::string &names, int days) {
  std::vector<std::string> all = split_at_commas(names);
  CKPT_CHECK(check_names(all));
  CKPT_TRY(Pair ca, read_authority(authority));
  CKPT_TRY(Pair p, begin(all.front(), days));
  X509 &c = *p.certificate;
  bool node = holder == Holder::Node;
  if (::X509_set_issuer_name(&c, ::X509_get_subject_name(ca.certificate.get())) != 1 ||
      !add_extension(c, *ca.certificate, NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(c, *ca.certificate, NID_key_usage, "critical,digitalSignature") ||
      !add_extension(c, *ca.certificate, NID_ext_key_usage, node ? "serverAuth" : "clientAuth") ||
      !add_extension(c, *ca.certificate, NID_authority_key_identifier, "keyid") ||
      (node && !add_extension(c, c, NID_subject_alt_name, alternative_names(all))) ||
      ::X509_sign(&c, ca.key.get(), ::EVP_sha256()) == 0)
    return openssl_failed("sign the certificate");
  std::string folder = authority + "/" + all.front();
  CKPT_CHECK(make_folder(folder));
  CKPT_CHECK(write_pair(folder + "/certificate.pem", folder + "/key.pem", p));
  std::error_code error;
  std::filesystem::copy_file(authority + "/ca.pem", folder + "/ca.pem", error);
  if (error) return fail("cannot copy {}/ca.pem: {}", authority, error.message());
  return folder;
}

Result<> use_new_key(SSL_CTX &context) {
  CKPT_TRY(Pair p, begin("ckpt-devd", kAuthorityDays));
  X509 &c = *p.certificate;
  if (::X509_set_issuer_name(&c, ::X509_get_subject_name(&c)) != 1 ||
      ::X509_sign(&c, p.key.get(), ::EVP_sha256()) == 0 ||
      ::SSL_CTX_use_certificate(&context, &c) != 1 ||
      ::SSL_CTX_use_PrivateKey(&context, p.key.get()) != 1)
    return openssl_failed("make a key for TLS");
  return {};
}

}  // namespace ckpt::remote
