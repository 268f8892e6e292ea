#include "server/history/clickhouse/connection.h"

#include <curl/curl.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "server/engine/ports/history_store.h"

namespace scalewatch::clickhouse {

namespace {

constexpr std::size_t kMaxAnswer = std::size_t{1} << 30;
constexpr long kConnectTimeoutMs = 3000;

// Level 1: what a slow network gains is mostly there.
std::string gzipped(const std::vector<std::string_view>& parts) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  if (deflateInit2(&stream, 1, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string out;
  std::array<char, 65536> piece{};
  for (std::size_t i = 0; i <= parts.size(); ++i) {
    const std::string_view part = i < parts.size() ? parts[i] : std::string_view();
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream.avail_in = static_cast<uInt>(part.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_out = static_cast<uInt>(piece.size());
      deflate(&stream, i < parts.size() ? Z_NO_FLUSH : Z_FINISH);
      out.append(piece.data(), piece.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  return out;
}

// Gives libcurl the parts of a body, from any place on.
struct Body {
  const std::vector<std::string_view>& parts;
  std::size_t part = 0;
  std::size_t offset = 0;

  static std::size_t give(char* to, std::size_t size, std::size_t count, void* self) {
    auto& body = *static_cast<Body*>(self);
    std::size_t room = size * count;
    std::size_t given = 0;
    while (room > 0 && body.part < body.parts.size()) {
      const std::size_t bytes = body.parts[body.part].substr(body.offset).copy(to + given, room);
      given += bytes;
      room -= bytes;
      body.offset += bytes;
      if (body.offset < body.parts[body.part].size()) break;
      ++body.part;
      body.offset = 0;
    }
    return given;
  }
  static int seek(void* self, curl_off_t offset, int origin) {
    auto& body = *static_cast<Body*>(self);
    if (origin != SEEK_SET || offset != 0) return CURL_SEEKFUNC_CANTSEEK;
    body.part = body.offset = 0;
    return CURL_SEEKFUNC_OK;
  }
};

std::size_t take(char* data, std::size_t size, std::size_t count, void* answer) {
  auto& out = *static_cast<std::string*>(answer);
  if (out.size() + size * count > kMaxAnswer) return 0;
  out.append(data, size * count);
  return size * count;
}

int watch(void* cancelled, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return *static_cast<std::atomic<bool>*>(cancelled) ? 1 : 0;
}

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, std::min<std::size_t>(text.find('\n'), 300));
  return line.substr(0, line.find(", Stack trace"));
}

// ClickHouse's number for what went wrong; 0 when it tells none.
int code_of(const std::string& answer) {
  const auto at = answer.find("Code: ");
  return at == std::string::npos ? 0 : std::atoi(answer.c_str() + at + 6);
}

// Wrong password, password required, authentication failed.
bool is_denial(int code) {
  return code == 193 || code == 194 || code == 516;
}

// No such table, no such database.
bool is_loss(int code) {
  return code == 60 || code == 81;
}

// Mistakes of ours, which no later try mends; all else (memory, disks, read-only replicas, other shards) may pass.
bool is_lasting(int code) {
  constexpr int kLasting[] = {6,  16, 27, 33, 36, 38,  41,  42,  43,  44,  46,  47,  48,  49,
                              53, 62, 70, 72, 73, 117, 192, 193, 194, 195, 291, 344, 497, 516};
  return std::find(std::begin(kLasting), std::end(kLasting), code) != std::end(kLasting);
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    if (c == '\0') {
      out += "\\0";
    } else {
      out += c;
    }
  }
  return out + "'";
}

void Connection::Close::operator()(void* easy) const {
  curl_easy_cleanup(easy);
}

Connection::Connection(const Options& options) : Connection(options, std::make_shared<std::atomic<bool>>(false)) {}

Connection::Connection(const Options& options, Cancelled cancelled)
    : options_(options),
      cancelled_(std::move(cancelled)),
      urls_(hosts_of(options)),
      password_(read_password(options)),
      easy_(curl_easy_init()),
      hosts_(urls_.size(), [urls = urls_, options, token = cancelled_](std::size_t host) {
        Options one = options;
        one.hosts = urls[host];
        return look_at(one, token);
      }) {
  if (!easy_) throw std::bad_alloc();
}

Connection::~Connection() = default;

std::string Connection::escaped(std::string_view text) {
  char* out = curl_easy_escape(easy_.get(), text.data(), static_cast<int>(text.size()));
  if (out == nullptr) throw std::bad_alloc();
  std::string result(out);
  curl_free(out);
  return result;
}

std::string Connection::query(std::string_view sql, std::chrono::milliseconds limit) {
  // Whole before its first byte leaves: an error half-way comes as an error.
  return send({.parameters = "&wait_end_of_query=1", .body = {sql}, .limit = limit});
}

void Connection::insert(const std::string& table, const Block& block, std::size_t first, std::size_t count) {
  if (count == 0) return;
  const auto parts = block.native(first, count);
  insert_parts(table + " (" + parts.columns + ")", parts.all);
}

void Connection::insert_raw(const std::string& table, std::string_view native) {
  insert_parts(table, {native});
}

void Connection::insert_parts(const std::string& into, std::vector<std::string_view> parts) {
  // A block is sent whole: ClickHouse need not copy it to see whether another one goes with it.
  Request request{.parameters = std::string("&min_insert_block_size_rows=1&min_insert_block_size_bytes=1") +
                                (options_.sharded() ? "&insert_distributed_sync=1" : "") +
                                "&query=" + escaped("INSERT INTO " + into + " FORMAT Native"),
                  .body = std::move(parts)};
  std::string packed;
  if (options_.compression == "gzip") {
    packed = gzipped(request.body);
    request.body = {packed};
    request.compressed = true;
  }
  send(request);
}

std::string Connection::execute_at(std::size_t host, std::string_view sql, bool in_database) {
  std::string answer;
  std::string error;
  if (send_to(host, {.parameters = "", .body = {sql}, .in_database = in_database}, answer, error) != Outcome::kAnswered)
    throw engine::StoreError("ClickHouse at " + error, true);
  return answer;
}

bool Connection::has_new_password() {
  std::string now;
  try {
    now = read_password(options_);
  } catch (const engine::StoreError&) {
    return false;  // being written perhaps; the next request looks again
  }
  return std::exchange(password_, now) != now;
}

Connection::Outcome Connection::send_to(std::size_t host, const Request& request, std::string& answer, std::string& error) {
  CURL* const easy = easy_.get();
  curl_easy_reset(easy);
  std::string url = urls_[host] + "/?";
  url += request.in_database ? "database=" + options_.database : std::string("database=default");
  url += request.parameters;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(nullptr, &curl_slist_free_all);
  const auto header = [&](const std::string& line) {
    curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    headers.release();  // the list begins where it began, or it was empty
    headers.reset(longer);
  };
  header("X-ClickHouse-User: " + options_.user);
  if (!password_.empty()) header("X-ClickHouse-Key: " + password_);
  if (request.compressed) header("Content-Encoding: gzip");
  header("Expect:");
  char message[CURL_ERROR_SIZE] = "";
  const auto limit = request.limit.count() > 0 ? request.limit : options_.timeout;
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  Body body{request.body};
  std::size_t size = 0;
  for (const std::string_view part : request.body) size += part.size();
  curl_easy_setopt(easy, CURLOPT_READFUNCTION, &Body::give);
  curl_easy_setopt(easy, CURLOPT_READDATA, &body);
  curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, &Body::seek);
  curl_easy_setopt(easy, CURLOPT_SEEKDATA, &body);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(size));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &take);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &answer);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, std::min<long>(kConnectTimeoutMs, limit.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(limit.count()));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &watch);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, cancelled_.get());
  if (!options_.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
  const CURLcode code = curl_easy_perform(easy);
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  if (code != CURLE_OK) {
    error = urls_[host] + ": " + (*message != '\0' ? message : curl_easy_strerror(code));
    // What the server got of it, it may still do, and the next one does it again: a repeat of a row is no row more.
    if (code != CURLE_ABORTED_BY_CALLBACK && code != CURLE_WRITE_ERROR) return Outcome::kAway;
    throw engine::StoreError("ClickHouse at " + error, true);
  }
  if (status == 200) return Outcome::kAnswered;
  const int number = code_of(answer);
  if (is_denial(number) && has_new_password()) {
    answer.clear();
    return send_to(host, request, answer, error);
  }
  lost_ = lost_ || is_loss(number);
  error = urls_[host] + ": " + (answer.empty() ? "HTTP " + std::to_string(status) : first_line(answer));
  if (is_lasting(number) || is_loss(number)) throw engine::StoreError("ClickHouse at " + error, !is_lasting(number));
  return Outcome::kFault;
}

}  // namespace scalewatch::clickhouse
