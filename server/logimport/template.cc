#include "server/logimport/template.h"

#include <algorithm>
#include <stdexcept>

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxAnyBytes = 256;
constexpr std::size_t kMaxTextBytes = 200;
constexpr std::size_t kMinAnchorBytes = 4;

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  return at;
}

}  // namespace

Template::Template(std::string_view source) {
  compile(source);
  if (tokens_.empty() || tokens_[0].kind != Token::Kind::kLiteral || tokens_[0].literal.size() < kMinAnchorBytes) {
    throw std::logic_error("template without an anchor: " + std::string(source));
  }
  anchor_ = tokens_[0].literal;
}

void Template::add_hole(std::string_view name) {
  Token token;
  if (name == "ws") {
    token.kind = Token::Kind::kBlanks;
  } else if (name == "...") {
    token.kind = Token::Kind::kAny;
  } else if (name == "tensor" || name == "detail") {
    token.kind = Token::Kind::kText;
    token.text = name == "tensor" ? &Reading::tensor : &Reading::detail;
  } else {
    token.kind = Token::Kind::kNumber;
    token.set = field_named(name);
    if (token.set == nullptr) throw std::logic_error("no field of a reading: " + std::string(name));
  }
  tokens_.push_back(std::move(token));
}

void Template::compile(std::string_view source) {
  std::size_t open = 0;  // index of the optional part that is open, plus 1
  const auto literal = [this](char c) {
    if (tokens_.empty() || tokens_.back().kind != Token::Kind::kLiteral) tokens_.emplace_back();
    tokens_.back().literal += c;
  };
  for (std::size_t at = 0; at < source.size();) {
    if (source[at] == '{') {
      const std::size_t close = source.find('}', at);
      if (close == std::string_view::npos) throw std::logic_error("template with an open hole: " + std::string(source));
      add_hole(source.substr(at + 1, close - at - 1));
      at = close + 1;
    } else if (source.substr(at).starts_with("[[") && open == 0) {
      tokens_.emplace_back().kind = Token::Kind::kOptional;
      open = tokens_.size();
      at += 2;
    } else if (source.substr(at).starts_with("]]") && open != 0) {
      tokens_[open - 1].end = tokens_.size();
      tokens_.emplace_back().kind = Token::Kind::kOptionalEnd;
      open = 0;
      at += 2;
    } else {
      literal(source[at++]);
    }
  }
  if (open != 0) throw std::logic_error("template with an open part: " + std::string(source));
  const auto holes = std::count_if(tokens_.begin(), tokens_.end(), [](const Token& token) {
    return token.kind == Token::Kind::kNumber || token.kind == Token::Kind::kText;
  });
  if (static_cast<std::size_t>(holes) > Match::kMaxHoles) throw std::logic_error("too many holes: " + std::string(source));
}

bool Template::Match::apply(Reading& reading) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const Found& found = found_[i];
    if (found.set != nullptr && !found.set(reading, found.number)) return false;
    if (found.member != nullptr) reading.*found.member = found.text;
  }
  return true;
}

bool Template::match(std::string_view text, std::size_t at, Match& match) const {
  match.count_ = 0;
  return match_from(0, text, at, match);
}

// Where the text after a hole begins again: at the literal that follows it, or at the end of the line.
std::optional<std::size_t> Template::find_next(std::size_t token, std::string_view text, std::size_t at) const {
  if (token >= tokens_.size()) return std::min(text.size(), at + kMaxTextBytes);
  const std::string_view window = text.substr(0, std::min(text.size(), at + kMaxAnyBytes));
  if (tokens_[token].kind != Token::Kind::kLiteral) return std::nullopt;
  const std::size_t found = window.find(tokens_[token].literal, at);
  if (found == std::string_view::npos) return std::nullopt;
  return found;
}

bool Template::match_from(std::size_t token, std::string_view text, std::size_t at, Match& match) const {
  for (; token < tokens_.size(); ++token) {
    const Token& now = tokens_[token];
    switch (now.kind) {
      case Token::Kind::kLiteral:
        if (text.substr(at, now.literal.size()) != now.literal) return false;
        at += now.literal.size();
        break;
      case Token::Kind::kBlanks:
        at = skip_blanks(text, at);
        break;
      case Token::Kind::kNumber: {
        const auto number = parse_number(text.substr(at), Separators::kThousands);
        if (!number) return false;
        match.found_[match.count_++] = {now.set, *number, nullptr, {}};
        at += number->length;
        break;
      }
      case Token::Kind::kText:
      case Token::Kind::kAny: {
        const auto next = find_next(token + 1, text, at);
        if (!next) return false;
        if (now.kind == Token::Kind::kText) {
          match.found_[match.count_++] = {nullptr, {}, now.text, text.substr(at, std::min(*next - at, kMaxTextBytes))};
        }
        at = *next;
        break;
      }
      case Token::Kind::kOptional: {
        const std::size_t before = match.count_;
        if (match_from(token + 1, text, at, match)) return true;
        match.count_ = before;
        token = now.end;
        break;
      }
      case Token::Kind::kOptionalEnd:
        break;
    }
  }
  match.end_ = at;
  return true;
}

}  // namespace scalewatch::logimport
