#include "server/alerting/http_sender.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
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

// The address's host, or an empty string and why.
std::string host_of(const std::string& address, std::string& fault) {
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
  if (scheme != "http" && scheme != "https") fault = "must begin with http:// or https://";
  if (fault.empty() && host.empty()) fault = "names no host";
  return host;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.ends_with(".localhost") || host.starts_with("127.") || host == "[::1]";
}

}  // namespace

std::string url_fault(const std::string& url) {
  std::string fault;
  // libcurl would guess a scheme for "host:port"; say so instead.
  if (!url.empty() && url.find("://") == std::string::npos) return "must begin with http:// or https://";
  host_of(url, fault);
  return fault;
}

struct HttpSender::Transfer {
  std::uint64_t id = 0;
  HttpRequest request;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  std::array<char, CURL_ERROR_SIZE> error{};
  std::string body;
  std::size_t received = 0;

  ~Transfer() {
    if (easy != nullptr) curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
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

  bool prepare();  // false: out of memory
  [[nodiscard]] HttpResponse response(CURLcode code) const;
};

bool HttpSender::Transfer::prepare() {
  easy = curl_easy_init();
  if (easy == nullptr) return false;
  for (const std::string& header : request.headers) headers = curl_slist_append(headers, header.c_str());
  headers = curl_slist_append(headers, "Expect:");  // the body is small: do not wait for 100 Continue
  std::string fault;
  if (is_loopback(host_of(request.url, fault))) curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
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
    out.body = body;
    return out;
  }
  out.error = error[0] != '\0' ? error.data() : curl_easy_strerror(code);
  return out;
}

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
  };
  collect();
  if (done.empty() && wait.count() > 0) {
    curl_multi_poll(multi_, nullptr, 0, static_cast<int>(wait.count()), nullptr);
    curl_multi_perform(multi_, &running);
    collect();
  }
  return done;
}

void HttpSender::wake() {
  curl_multi_wakeup(multi_);
}

}  // namespace scalewatch::alerting
