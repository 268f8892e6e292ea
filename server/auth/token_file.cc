#include "server/auth/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "server/auth/token.h"

namespace scalewatch::auth {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxFileBytes = 16U << 20U;
constexpr std::size_t kMaxNameBytes = 64;

struct NamedLimit {
  const char* name;
  std::uint64_t TokenLimits::*field;
};
constexpr NamedLimit kLimits[] = {{"streams", &TokenLimits::streams},
                                  {"runs", &TokenLimits::runs},
                                  {"tensors", &TokenLimits::tensors},
                                  {"message_bytes", &TokenLimits::message_bytes},
                                  {"records_per_second", &TokenLimits::records_per_second},
                                  {"bytes_per_day", &TokenLimits::bytes_per_day},
                                  {"queries", &TokenLimits::queries}};

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw TokenFileError(path + ": " + what);
}
[[noreturn]] void fail_by_errno(const std::string& path, const char* what) {
  fail(path, fmt::format("{}: {}", what, std::strerror(errno)));
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

std::string read_all(const std::string& path, const File& file) {
  std::string out;
  char block[4096];
  for (;;) {
    const ssize_t got = ::read(file.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_by_errno(path, "cannot be read");
    if (got == 0) return out;
    out.append(block, static_cast<std::size_t>(got));
    if (out.size() > kMaxFileBytes) fail(path, "is larger than 16 MiB");
  }
}

void write_all(const std::string& path, const File& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_by_errno(path, "cannot be written");
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fsync(file.get()) != 0) fail_by_errno(path, "cannot be written");
}

TokenRecord record_from(const std::string& path, const Json& json) {
  TokenRecord out;
  out.id = json.at("id").get<std::string>();
  if (!is_token_id(out.id)) fail(path, "a token has no valid id");
  const auto wrong = [&](const std::string& what) { fail(path, "token " + out.id + ": " + what); };
  out.name = json.value("name", "");
  if (!is_token_name(out.name)) wrong("its name is not 1 to 64 printable ASCII characters");
  out.hash = json.at("hash").get<std::string>();
  if (!is_hash(out.hash)) wrong("its hash is not sha256: and 64 hexadecimal digits");
  for (const Json& scope : json.at("scopes")) {
    if (!out.scopes.add(scope.get<std::string>())) wrong("a scope is not ingest, read or operate with a pattern, nor admin");
  }
  out.created_ms = json.value("created_ms", std::int64_t{0});
  out.expires_ms = json.value("expires_ms", std::int64_t{0});
  if (json.contains("limits")) {
    for (const auto& [name, value] : json.at("limits").items()) {
      std::uint64_t* const field = limit_named(out.limits, name);
      // A limit that this server does not know may be one that somebody relies on.
      if (field == nullptr || !value.is_number_unsigned()) wrong("limit \"" + name + "\" is not known or no whole number");
      *field = value.get<std::uint64_t>();
    }
  }
  return out;
}

std::vector<TokenRecord> parse(const std::string& path, const std::string& text) {
  std::vector<TokenRecord> out;
  try {
    const Json json = Json::parse(text);
    if (json.at("version").get<int>() != 1) fail(path, "is of a version that this program does not know");
    const Json& tokens = json.at("tokens");
    if (!tokens.is_array() || tokens.size() > kMaxTokens) fail(path, "holds no list of at most 10,000 tokens");
    std::set<std::string> ids;
    for (const Json& token : tokens) {
      out.push_back(record_from(path, token));
      if (!ids.insert(out.back().id).second) fail(path, "token " + out.back().id + " is there twice");
    }
  } catch (const nlohmann::json::exception&) {
    fail(path, "is not a file of tokens as `scalewatch admin token create` makes it");
  }
  return out;
}

Json to_json(const TokenRecord& token) {
  Json limits = Json::object();
  for (const NamedLimit& limit : kLimits) {
    if (token.limits.*limit.field != 0) limits[limit.name] = token.limits.*limit.field;
  }
  Json out{{"id", token.id},
           {"name", token.name},
           {"hash", token.hash},
           {"scopes", token.scopes.texts()},
           {"created_ms", token.created_ms},
           {"expires_ms", token.expires_ms}};
  if (!limits.empty()) out["limits"] = std::move(limits);
  return out;
}

void sync_folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const File opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() >= 0) ::fsync(opened.get());
}

}  // namespace

bool is_token_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::vector<TokenRecord> read_tokens(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail_by_errno(path, "cannot be read");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_by_errno(path, "cannot be read");
  if (!S_ISREG(status.st_mode)) fail(path, "is no file");
  // Whoever can write it can let anybody in; hashes are nobody's business either.
  if ((status.st_mode & (S_IRWXO | S_IWGRP)) != 0)
    fail(path, "may be used by others: chmod 600 it (or 640, for a group that reads)");
  return parse(path, read_all(path, file));
}

void edit_tokens(const std::string& path, const std::function<void(std::vector<TokenRecord>&)>& edit) {
  const std::string lock_path = path + ".lock";
  const File lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.get() < 0) fail_by_errno(lock_path, "cannot be made");
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) fail_by_errno(lock_path, "cannot be locked");
  }
  std::vector<TokenRecord> tokens;
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail_by_errno(path, "cannot be read");
  if (exists) tokens = read_tokens(path);
  edit(tokens);
  if (tokens.size() > kMaxTokens) fail(path, "cannot hold more than 10,000 tokens");

  Json json{{"version", 1}, {"tokens", Json::array()}};
  for (const TokenRecord& token : tokens) json["tokens"].push_back(to_json(token));
  const std::string made = path + ".new";
  {
    ::unlink(made.c_str());  // of an edit that was killed
    const File file(::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.get() < 0) fail_by_errno(made, "cannot be made");
    // As it was: a service's user keeps its access when root edits.
    if (exists && (::fchmod(file.get(), status.st_mode & (S_IRUSR | S_IWUSR | S_IRGRP)) != 0 ||
                   (::geteuid() == 0 && ::fchown(file.get(), status.st_uid, status.st_gid) != 0))) {
      fail_by_errno(made, "cannot be given the mode and owner of the file");
    }
    write_all(made, file, json.dump(2) + "\n");
  }
  if (::rename(made.c_str(), path.c_str()) != 0) fail_by_errno(path, "cannot be replaced");
  sync_folder_of(path);
}

std::uint64_t* limit_named(TokenLimits& limits, const std::string& name) {
  for (const NamedLimit& limit : kLimits) {
    if (name == limit.name) return &(limits.*limit.field);
  }
  return nullptr;
}

const std::vector<std::string>& limit_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> out;
    for (const NamedLimit& limit : kLimits) out.emplace_back(limit.name);
    return out;
  }();
  return kNames;
}

}  // namespace scalewatch::auth
