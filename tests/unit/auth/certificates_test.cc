#include "server/auth/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

namespace scalewatch::auth {
namespace {

struct Pair {
  std::string certificate;
  std::string key;
};

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

// A key, and a certificate of it that is its own authority.
Pair make_pair() {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> made(X509_new(), X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
  X509_set_pubkey(made.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(made.get(), name);
  X509_sign(made.get(), key.get(), EVP_sha256());
  const std::unique_ptr<BIO, int (*)(BIO*)> certificate_text(BIO_new(BIO_s_mem()), BIO_free);
  const std::unique_ptr<BIO, int (*)(BIO*)> key_text(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(certificate_text.get(), made.get());
  PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {text_of(certificate_text.get()), text_of(key_text.get())};
}

class CertificatesTest : public ::testing::Test {
 protected:
  CertificatesTest() {
    std::filesystem::create_directory(folder_);
    write(old_.certificate, old_.key);
  }
  ~CertificatesTest() override { std::filesystem::remove_all(folder_); }

  static void put(const std::string& path, const std::string& text) {
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }
  void write(const std::string& certificate, const std::string& key) const {
    put(files_.certificate, certificate);
    put(files_.key, key);
  }
  // What is there once the files have been looked at again.
  static std::shared_ptr<const Certificates::Set> next(Certificates& certificates) {
    ::usleep(1'100'000);
    return certificates.now();
  }

  const std::filesystem::path folder_ = ::testing::TempDir() + "certificates." + std::to_string(::getpid());
  const TlsFiles files_{folder_ / "cert.pem", folder_ / "key.pem", {}};
  const Pair old_ = make_pair();
  const Pair new_ = make_pair();
};

TEST_F(CertificatesTest, KeepsThePairUntilTheNewOneIsWhole) {
  Certificates certificates(files_);
  const auto first = certificates.now();
  EXPECT_EQ(first->certificate, old_.certificate);
  put(files_.certificate, new_.certificate);
  EXPECT_EQ(next(certificates), first);
  put(files_.key, new_.key);
  const auto second = next(certificates);
  EXPECT_EQ(second->certificate, new_.certificate);
  EXPECT_EQ(second->key, new_.key);
  EXPECT_EQ(second->number, first->number + 1);
  // Broken, away, and back as it was.
  put(files_.key, "broken");
  EXPECT_EQ(next(certificates), second);
  std::filesystem::remove(files_.key);
  EXPECT_EQ(next(certificates), second);
  put(files_.key, new_.key);
  EXPECT_EQ(next(certificates)->key, new_.key);
}

TEST_F(CertificatesTest, BeginsOnlyWithWhatFits) {
  write(old_.certificate, new_.key);
  EXPECT_THROW(Certificates{files_}, TlsError);
  EXPECT_THROW(Certificates({files_.certificate, folder_ / "none", {}}), TlsError);
}

}  // namespace
}  // namespace scalewatch::auth
