#include "server/alerting/http_sender.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kMaxResponseBytes = 64 << 10;
constexpr std::size_t kKeptResponseBytes = 512;
constexpr long kConnectTimeoutMs = 3000;
constexpr std::chrono::seconds kMaxRetryAfter{3600};

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

std::string url_part(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return {};
  std::string out(text);
  curl_free(text);
  return out;
}

std::string must_begin(const std::string& scheme) {
  return "must begin with " + scheme + ":// or " + scheme + "s://";
}

// The address's host, or an empty string and why. wanted: "http" or "smtp", each with or without an s at its end.
std::string host_of(const std::string& address, const std::string& wanted, std::string& fault) {
  if (address.empty()) {
    fault = "is empty";
    return {};
  }
  const std::unique_ptr<CURLU, UrlDeleter> url(curl_url());
  if (const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, address.c_str(), CURLU_NON_SUPPORT_SCHEME);
      code != CURLUE_OK) {
    fault = std::string("is not an address (") + curl_url_strerror(code) + ")";
    return {};
  }
  const std::string scheme = url_part(url.get(), CURLUPART_SCHEME);
  std::string host = url_part(url.get(), CURLUPART_HOST);
  if (scheme != wanted && scheme != wanted + "s") fault = must_begin(wanted);
  if (fault.empty() && host.empty()) fault = "names no host";
  return host;
}

// Whether libcurl takes a proxy on this machine from the environment.
bool proxy_is_here() {
  for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::unique_ptr<CURLU, UrlDeleter> url(curl_url());
    if (curl_url_set(url.get(), CURLUPART_URL, value, CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME) != CURLUE_OK) continue;
    if (is_loopback_host(url_part(url.get(), CURLUPART_HOST))) return true;
  }
  return false;
}

std::string fault_of(const std::string& url, const std::string& scheme) {
  std::string fault;
  // libcurl would guess a scheme for "host:port"; say so instead.
  if (!url.empty() && url.find("://") == std::string::npos) return must_begin(scheme);
  host_of(url, scheme, fault);
  return fault;
}

}  // namespace

std::string url_fault(const std::string& url) {
  return fault_of(url, "http");
}

std::string mail_url_fault(const std::string& url) {
  return fault_of(url, "smtp");
}

std::string url_host(const std::string& address) {
  std::string fault;
  return host_of(address, "http", fault);
}

bool url_has_more(const std::string& address) {
  const std::unique_ptr<CURLU, UrlDeleter> url(curl_url());
  if (curl_url_set(url.get(), CURLUPART_URL, address.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) return true;
  for (const CURLUPart part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    if (!url_part(url.get(), part).empty()) return true;
  }
  return url_part(url.get(), CURLUPART_PATH).size() > 1;
}

struct HttpSender::Transfer {
  std::uint64_t id = 0;
  HttpRequest request;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  curl_slist* recipients = nullptr;
  std::size_t sent = 0;  // of the body, by SMTP
  std::array<char, CURL_ERROR_SIZE> error{};
  std::string body;
  std::size_t received = 0;
  std::string host;
  std::string refusal;      // why the last address was refused
  bool proxy_here = false;  // a proxy on this machine may carry it
  bool connected = false;   // an address was not refused

  ~Transfer() {
    if (easy != nullptr) curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    curl_slist_free_all(recipients);
  }

  static std::size_t give(char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::size_t bytes = transfer.request.body.copy(data, size * count, transfer.sent);
    transfer.sent += bytes;
    return bytes;
  }

  static std::size_t take(char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::size_t bytes = size * count;
    transfer.received += bytes;
    if (transfer.body.size() < kKeptResponseBytes) {
      transfer.body.append(data, std::min(bytes, kKeptResponseBytes - transfer.body.size()));
    }
    // Fewer than given ends the transfer; the status is known by then.
    return transfer.received <= kMaxResponseBytes ? bytes : 0;
  }

  // Makes the socket of a connection, unless it leads where nothing may be sent.
  static curl_socket_t open_socket(void* self, curlsocktype, curl_sockaddr* address) {
    auto& transfer = *static_cast<Transfer*>(self);
    Destinations allowed = transfer.request.destinations;
    allowed.loopback = allowed.loopback || transfer.proxy_here;
    std::string refusal = allowed.refusal(transfer.host, address->addr);
    if (!refusal.empty()) {
      transfer.refusal = std::move(refusal);
      return CURL_SOCKET_BAD;
    }
    transfer.connected = true;
    return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }

  bool prepare();  // false: out of memory
  void prepare_http();
  void prepare_mail(const HttpRequest::Mail& mail);
  [[nodiscard]] HttpResponse response(CURLcode code) const;
};

bool HttpSender::Transfer::prepare() {
  easy = curl_easy_init();
  if (easy == nullptr) return false;
  if (request.mail) {
    prepare_mail(*request.mail);
  } else {
    prepare_http();
  }
  std::string fault;
  host = host_of(request.url, request.mail ? "smtp" : "http", fault);
  if (is_loopback_host(host)) {
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
  } else {
    proxy_here = proxy_is_here();
  }
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &Transfer::open_socket);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, this);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::take);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error.data());
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, std::min<long>(kConnectTimeoutMs, request.timeout_ms));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout_ms));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  // A resolver that hangs must not hold up the thread when its transfer times out.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  return true;
}

void HttpSender::Transfer::prepare_http() {
  for (const std::string& header : request.headers) headers = curl_slist_append(headers, header.c_str());
  headers = curl_slist_append(headers, "Expect:");  // the body is small: do not wait for 100 Continue
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
}

void HttpSender::Transfer::prepare_mail(const HttpRequest::Mail& mail) {
  for (const std::string& to : mail.to) recipients = curl_slist_append(recipients, ("<" + to + ">").c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
  curl_easy_setopt(easy, CURLOPT_MAIL_FROM, ("<" + mail.from + ">").c_str());
  curl_easy_setopt(easy, CURLOPT_MAIL_RCPT, recipients);
  curl_easy_setopt(easy, CURLOPT_USE_SSL, mail.tls ? static_cast<long>(CURLUSESSL_ALL) : static_cast<long>(CURLUSESSL_NONE));
  if (!mail.user.empty()) {
    curl_easy_setopt(easy, CURLOPT_USERNAME, mail.user.c_str());
    curl_easy_setopt(easy, CURLOPT_PASSWORD, mail.password.c_str());
  }
  curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(easy, CURLOPT_READFUNCTION, &Transfer::give);
  curl_easy_setopt(easy, CURLOPT_READDATA, this);
  curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
}

HttpResponse HttpSender::Transfer::response(CURLcode code) const {
  HttpResponse out;
  double seconds = 0;
  curl_easy_getinfo(easy, CURLINFO_TOTAL_TIME, &seconds);
  out.took = std::chrono::duration<double>(seconds);
  // An answer that was cut off because it is too long is an answer.
  if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && received > kMaxResponseBytes)) {
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    out.status = static_cast<int>(status);
    curl_off_t retry_after = 0;
    if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after) == CURLE_OK && retry_after > 0) {
      out.retry_after = std::min<std::chrono::seconds>(std::chrono::seconds(retry_after), kMaxRetryAfter);
    }
    out.body = request.has_secrets && received > 0
                   ? fmt::format("({} bytes, not shown: they may repeat the request's secret)", received)
                   : body;
    return out;
  }
  out.error = error[0] != '\0' && !request.secret_url ? error.data() : curl_easy_strerror(code);
  if (!refusal.empty() && !connected) {
    out.refused = true;
    out.error = refusal;
    return out;
  }
  if (request.mail) {
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    // Whether it was refused for good: earlier steps were answered 2xx or 3xx.
    if (status >= 400) out.status = static_cast<int>(status);
  }
  return out;
}

namespace {

HttpResponse response_of(const CommandRunner::Done& done) {
  constexpr int kDataError = 65;  // EX_DATAERR of sysexits.h
  HttpResponse out;
  out.took = done.took;
  if (done.exit_status == 0) {
    out.status = 200;
  } else if (done.exit_status == kDataError) {
    out.status = 400;
    out.body = "the command ended with exit status 65";
  } else {
    out.error = done.exit_status < 0 ? done.error : "the command ended with exit status " + std::to_string(done.exit_status);
  }
  return out;
}

}  // namespace

HttpSender::HttpSender() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started == CURLE_OK) multi_ = curl_multi_init();
  if (multi_ == nullptr) throw std::runtime_error("libcurl cannot start");
}

HttpSender::~HttpSender() {
  for (const auto& [easy, transfer] : transfers_) curl_multi_remove_handle(multi_, easy);
  transfers_.clear();
  curl_multi_cleanup(multi_);
}

void HttpSender::start(std::uint64_t id, HttpRequest request) {
  if (!request.command.empty()) {
    return commands_.start(id, request.command, request.body, std::chrono::milliseconds(request.timeout_ms));
  }
  std::string fault;
  const std::string host = host_of(request.url, request.mail ? "smtp" : "http", fault);
  if (std::string refusal = request.destinations.refusal(host); fault.empty() && !refusal.empty()) {
    Done refused{.id = id, .response = {}};
    refused.response.refused = true;
    refused.response.error = std::move(refusal);
    unstarted_.push_back(std::move(refused));
    return;
  }
  auto transfer = std::make_unique<Transfer>();
  transfer->id = id;
  transfer->request = std::move(request);
  if (!transfer->prepare() || curl_multi_add_handle(multi_, transfer->easy) != CURLM_OK) {
    Done failed{.id = id, .response = {}};
    failed.response.error = "libcurl cannot start a transfer (out of memory?)";
    unstarted_.push_back(std::move(failed));
    return;
  }
  void* const easy = transfer->easy;
  transfers_.emplace(easy, std::move(transfer));
}

std::vector<HttpSender::Done> HttpSender::poll(std::chrono::milliseconds wait) {
  int running = 0;
  curl_multi_perform(multi_, &running);
  std::vector<Done> done = std::exchange(unstarted_, {});
  const auto collect = [&] {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* const easy = message->easy_handle;
      const CURLcode code = message->data.result;
      const auto found = transfers_.find(easy);
      done.push_back({found->second->id, found->second->response(code)});
      curl_multi_remove_handle(multi_, easy);
      transfers_.erase(found);
    }
    for (const CommandRunner::Done& ended : commands_.collect()) done.push_back({ended.id, response_of(ended)});
  };
  collect();
  if (done.empty() && wait.count() > 0) {
    std::vector<curl_waitfd> ends;
    for (const int descriptor : commands_.descriptors()) ends.push_back({descriptor, CURL_WAIT_POLLIN, 0});
    curl_multi_poll(multi_, ends.data(), static_cast<unsigned>(ends.size()), static_cast<int>(commands_.wait(wait).count()),
                    nullptr);
    curl_multi_perform(multi_, &running);
    collect();
  }
  return done;
}

void HttpSender::wake() {
  curl_multi_wakeup(multi_);
}

}  // namespace scalewatch::alerting
