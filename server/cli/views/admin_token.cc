#include "server/cli/views/admin_token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "server/auth/token.h"
#include "server/auth/token_file.h"
#include "server/cli/text/table.h"

namespace scalewatch::cli {

namespace {

using Json = nlohmann::ordered_json;
using auth::TokenRecord;

constexpr const char* kFooter =
    "Servers that have the file as auth.tokens_file take a change within a second, without a restart. It holds hashes only: a "
    "token is told once, when it is made.\n"
    "Scopes: ingest[:PATTERN] sends runs whose names match (* ? [...]), read[:PATTERN] asks about them, operate[:PATTERN] "
    "acknowledges their alerts (operate alone: silences and reload too), admin may everything.\n"
    "Limits: streams, runs, tensors, message_bytes, records_per_second, bytes_per_day, queries; see deploy/SECURITY.md.";

[[noreturn]] void wrong(const std::string& what) {
  throw CallError(names::escape(what), kExitUsage);
}

// "30d", "12h", "15min": milliseconds.
std::optional<std::int64_t> duration(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const std::int64_t one = unit == "d" ? 86'400'000 : unit == "h" ? 3'600'000 : unit == "min" ? 60'000 : unit == "s" ? 1000 : 0;
  if (error != std::errc() || one == 0 || number < 1 || number > 36'500LL * 86'400'000 / one) return std::nullopt;
  return number * one;
}

void set_limit(auth::TokenLimits& limits, const std::string& text) {
  const auto equals = text.find('=');
  std::uint64_t* const field = equals == std::string::npos ? nullptr : auth::limit_named(limits, text.substr(0, equals));
  const char* const end = text.data() + text.size();
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data() + std::min(equals, text.size() - 1) + 1, end, value);
  if (field == nullptr || parsed.ec != std::errc() || parsed.ptr != end) {
    wrong(fmt::format("--limit {}: expected NAME=NUMBER with a name of {}", text, fmt::join(auth::limit_names(), ", ")));
  }
  *field = value;
}

// The file's faults are the caller's to mend.
template <class Work>
auto on_file(const Work& work) {
  try {
    return work();
  } catch (const auth::TokenFileError& error) {
    throw CallError(names::escape(error.what()), kExitNothing);
  }
}

// A new file that only its owner reads.
void write_token(const std::string& path, const std::string& token) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  const std::string line = token + "\n";
  const bool written = file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (file >= 0) ::close(file);
  if (!written) wrong(fmt::format("--out: {} cannot be made, or exists", path));
}

std::string state_of(const TokenRecord& token, const Screen& screen) {
  if (token.expires_ms == 0) return "never";
  return (token.expires_ms <= screen.now_ms ? "expired " : "") + text::utc(token.expires_ms);
}

std::string limits_of(TokenRecord token) {
  std::vector<std::string> parts;
  for (const std::string& name : auth::limit_names()) {
    if (const auto value = *auth::limit_named(token.limits, name); value != 0)
      parts.push_back(fmt::format("{}={}", name, value));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

Json to_json(const TokenRecord& token) {
  Json limits = Json::object();
  TokenRecord copy = token;
  for (const std::string& name : auth::limit_names()) {
    if (const auto value = *auth::limit_named(copy.limits, name); value != 0) limits[name] = value;
  }
  return {{"id", token.id},
          {"name", token.name},
          {"scopes", token.scopes.texts()},
          {"created_ms", token.created_ms},
          {"expires_ms", token.expires_ms},
          {"limits", std::move(limits)}};
}

}  // namespace

ExitCode TokenCommands::create(const Screen& screen) const {
  const auth::TokenText made = auth::make_token();
  TokenRecord record;
  record.id = made.id;
  record.name = name_;
  record.hash = auth::hash_of(made);
  record.created_ms = screen.now_ms;
  if (!auth::is_token_name(name_)) wrong("--name: expected 1 to 64 printable ASCII characters");
  for (const std::string& scope : scopes_) {
    if (!record.scopes.add(scope))
      wrong("--scope " + scope + ": expected ingest, read or operate, each with :PATTERN, or admin");
  }
  for (const std::string& limit : limits_) set_limit(record.limits, limit);
  if (!expires_.empty()) {
    const auto lives = duration(expires_);
    if (!lives) wrong("--expires " + expires_ + ": expected a duration such as 90d, 12h or 30min");
    record.expires_ms = screen.now_ms + *lives;
  }
  on_file([&] {
    auth::edit_tokens(file_, [&](std::vector<TokenRecord>& tokens) {
      if (!out_.empty()) write_token(out_, auth::to_text(made));
      tokens.push_back(record);
    });
  });
  if (screen.json) {
    Json json = to_json(record);
    if (out_.empty()) json["token"] = auth::to_text(made);
    screen.out << json.dump(2) << '\n';
    return kExitOk;
  }
  if (out_.empty()) {
    screen.out << auth::to_text(made) << '\n';
  } else {
    screen.out << Screen::name(out_) << '\n';
  }
  if (screen.err != nullptr) *screen.err << "Token " << made.id << ", told this once: keep it where only its user reads.\n";
  return kExitOk;
}

ExitCode TokenCommands::list(const Screen& screen) const {
  const auto tokens = on_file([&] { return auth::read_tokens(file_); });
  if (screen.json) {
    Json json = Json::array();
    for (const TokenRecord& token : tokens) json.push_back(to_json(token));
    screen.out << json.dump(2) << '\n';
    return kExitOk;
  }
  if (tokens.empty()) screen.say("No tokens: nobody is let in.");
  for (const TokenRecord& token : tokens) {
    screen.out << screen.paint(token.id, text::Style::kBold) << "  " << Screen::name(token.name) << "; expires "
               << state_of(token, screen) << '\n';
    screen.say(Screen::name(fmt::format("  {}", fmt::join(token.scopes.texts(), " "))));
    if (const std::string limits = limits_of(token); !limits.empty()) screen.say("  " + limits);
  }
  return kExitOk;
}

ExitCode TokenCommands::revoke(const Screen& screen) const {
  std::size_t removed = 0;
  on_file([&] {
    auth::edit_tokens(file_, [&](std::vector<TokenRecord>& tokens) {
      removed = std::erase_if(tokens, [&](const TokenRecord& token) { return token.id == id_; });
      if (removed == 0) throw CallError("no token has the id " + names::escape(id_), kExitNothing, CallError::Kind::kNotFound);
    });
  });
  if (screen.json) {
    screen.out << Json{{"revoked", id_}}.dump(2) << '\n';
  } else {
    screen.out << "revoked " << Screen::name(id_) << '\n';
  }
  return kExitOk;
}

void TokenCommands::add_to(CLI::App& admin, Chosen& chosen) {
  auto* token = admin.add_subcommand("token", "Make, list and revoke the tokens that servers ask for");
  token->fallthrough();
  token->footer(kFooter);
  token->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, ExitCode (TokenCommands::*work)(const Screen&) const) {
    auto* command = token->add_subcommand(name, description);
    command->fallthrough();
    command->add_option("--file", file_, "File of tokens: auth.tokens_file of the server")->required();
    command->callback([this, &chosen, work] {
      chosen.local = [this, work](const Screen& screen, const std::stop_token&) { return (this->*work)(screen); };
    });
    return command;
  };
  auto* create = add("create", "Make a token, put its hash into the file, and print it", &TokenCommands::create);
  create->add_option("--name", name_, "Who or what uses it, for people")->required();
  create->add_option("--scope", scopes_, "What it may do; may be repeated")->required()->allow_extra_args(false);
  create->add_option("--limit", limits_, "What it may take, as NAME=NUMBER; may be repeated")->allow_extra_args(false);
  create->add_option("--expires", expires_, "How long it is valid, such as 90d or 12h (default: until it is revoked)");
  create->add_option("--out", out_, "Write it to this new file, which only you may read, in place of printing it");
  create->footer(
      "Prints the token and nothing else on standard output.\n--json: {id, name, scopes, created_ms, expires_ms, limits, "
      "token}.");
  add("list", "List the tokens, without their secrets", &TokenCommands::list)
      ->footer("--json: [{id, name, scopes, created_ms, expires_ms, limits}], times in Unix milliseconds, 0 = never.");
  add("revoke", "Take a token out of the file: what runs with it ends within two seconds", &TokenCommands::revoke)
      ->add_option("ID", id_, "Its id: what stands between the first two underscores")
      ->required();
}

}  // namespace scalewatch::cli
