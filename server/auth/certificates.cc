#include "server/auth/certificates.h"

#include <spdlog/spdlog.h>

#include <fstream>
#include <iterator>
#include <utility>

namespace scalewatch::auth {

namespace {

constexpr std::chrono::seconds kLook{1};

std::string text_of(const std::string& path) {
  if (path.empty()) return {};
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw TlsError(path + " cannot be read");
  return text;
}

}  // namespace

Certificates::Certificates(TlsFiles files) : files_(std::move(files)) {
  stamps_ = stamps_of(files_);
  set_ = std::make_shared<const Set>(read_files());
}

Certificates::Set Certificates::read_files() const {
  Set set;
  set.context = make_server_context(files_);
  set.certificate = text_of(files_.certificate);
  set.key = text_of(files_.key);
  set.client_ca = text_of(files_.client_ca);
  set.number = set_ ? set_->number + 1 : 1;
  return set;
}

void Certificates::look() {
  std::vector<FileStamp> stamps = stamps_of(files_);
  if (stamps == stamps_) return;
  try {
    auto next = std::make_shared<const Set>(read_files());
    // What is written to meanwhile may be of two renewals: it is read once more at the next look.
    if (stamps_of(files_) != stamps) return;
    set_ = std::move(next);
    spdlog::info("certificates read again");
  } catch (const TlsError& error) {
    spdlog::error("the server keeps the certificates that it has: {}", error.what());
  }
  stamps_ = std::move(stamps);
}

std::shared_ptr<const Certificates::Set> Certificates::now() {
  const std::lock_guard lock(mutex_);
  if (const auto now = Clock::now(); now - looked_ >= kLook) {
    looked_ = now;
    look();
  }
  return set_;
}

}  // namespace scalewatch::auth
