#include "server/logimport/dispatch.h"

#include <algorithm>
#include <bit>

#include "server/logimport/prefix.h"

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxInVain = 200;  // places of a line that give a format nothing; more is no log

// The words of all formats are the same for every file.
std::shared_ptr<const FormatWords> words_of(std::span<const std::unique_ptr<Format>> formats, bool all) {
  if (!all) return std::make_shared<FormatWords>(formats);
  static const auto words = std::make_shared<const FormatWords>(formats);
  return words;
}

}  // namespace

std::vector<std::string> FormatWords::collect(std::span<const std::unique_ptr<Format>> formats,
                                              std::vector<std::vector<Owner>>& owners) {
  std::vector<std::string> words;
  for (std::size_t f = 0; f < formats.size(); ++f) {
    const auto anchors = formats[f]->anchors();
    for (std::size_t a = 0; a < anchors.size(); ++a) {
      auto word = std::find(words.begin(), words.end(), anchors[a]);
      if (word == words.end()) {
        word = words.insert(words.end(), std::string(anchors[a]));
        owners.emplace_back();
      }
      owners[static_cast<std::size_t>(word - words.begin())].push_back(
          {static_cast<std::uint16_t>(f), static_cast<std::uint16_t>(a)});
    }
  }
  return words;
}

FormatWords::FormatWords(std::span<const std::unique_ptr<Format>> formats) : scan_(collect(formats, owners_)) {}

Dispatch::Dispatch(std::string_view format, Gate& gate) : gate_(gate) {
  const auto list = format_list();
  const auto& names = line_format_names();
  bool is_event = false;
  for (std::size_t i = 0; i < list.size(); ++i) is_event |= names[i] == format && list[i].tier == Tier::kEvent;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool wanted =
        format.empty() || names[i] == format || list[i].tier == Tier::kBar || (list[i].tier == Tier::kEvent && !is_event);
    if (!wanted) continue;
    formats_.push_back(list[i].make());
    entries_.push_back(list[i]);
  }
  words_ = words_of(formats_, format.empty());
  places_.resize(formats_.size());
  wanted_.resize((formats_.size() + 63) / 64);
  was_open_.resize(formats_.size());
  used_.resize(formats_.size());
}

void Dispatch::begin() {
  for (std::size_t f = 0; f < formats_.size(); ++f) {
    if (used_[f]) formats_[f] = entries_[f].make();
    used_[f] = false;
    was_open_[f] = false;
  }
  open_ = 0;
  numbered_ = NumberedLines();
}

void Dispatch::place_hits() {
  for (const WordScan::Hit& hit : hits_) {
    for (const FormatWords::Owner& owner : words_->owners(hit.word)) {
      auto& word = wanted_[owner.format / 64];
      const std::uint64_t bit = std::uint64_t{1} << (owner.format % 64);
      if ((word & bit) == 0) places_[owner.format].clear();
      word |= bit;
      places_[owner.format].push_back({hit.position, owner.anchor});
    }
  }
}

void Dispatch::piece(const Piece& piece) {
  numbered_.note(piece.text);
  hits_.clear();
  if (piece.heads.known()) {
    words_->find(piece.text, piece.heads, piece.at, hits_);
  } else {
    marks_.look(piece.text, heads());
    words_->find(piece.text, marks_.heads(), 0, hits_);
  }
  if (hits_.empty() && open_ == 0) return;
  std::fill(wanted_.begin(), wanted_.end(), 0);
  place_hits();
  for (std::size_t f = 0; open_ > 0 && f < formats_.size(); ++f) {
    was_open_[f] = formats_[f]->open();
    if (!was_open_[f]) continue;
    auto& word = wanted_[f / 64];
    const std::uint64_t bit = std::uint64_t{1} << (f % 64);
    if ((word & bit) == 0) places_[f].clear();
    word |= bit;
  }
  Line line{piece.text, piece.number, piece.piece, 0, piece.cut, std::nullopt, std::nullopt};
  parse_prefix(line, numbered_.are_ranks());
  readings_.begin(line);
  read_with_wanted(line, open_ > 0);
  gate_.take(readings_.finish());
}

void Dispatch::read_with_wanted(const Line& line, bool any_open) {
  for (std::size_t w = 0; w < wanted_.size(); ++w) {
    for (std::uint64_t bits = wanted_[w]; bits != 0; bits &= bits - 1) {
      read_with(w * 64 + static_cast<std::size_t>(std::countr_zero(bits)), line);
      // Nothing is left for the others.
      if (!any_open && readings_.claimed(hits_.front().position, hits_.back().position)) return;
    }
  }
}

void Dispatch::read_with(std::size_t f, const Line& line) {
  Format& format = *formats_[f];
  readings_.speaker(format.name(), entries_[f].tier);
  used_[f] = true;
  const bool before = was_open_[f];
  if (before) {
    format.read_next(line, readings_);
  } else {
    std::size_t in_vain = 0;
    for (const Place& place : places_[f]) {
      if (readings_.claimed(place.position)) continue;
      const std::size_t known = readings_.size();
      format.read(line, place.position, place.anchor, readings_);
      if (readings_.size() == known) ++in_vain;
      if (!format.every_place() || in_vain == kMaxInVain) break;
    }
  }
  was_open_[f] = false;
  const bool after = format.open();
  if (after && !before) ++open_;
  if (before && !after) --open_;
}

void Dispatch::finish() {
  const Line end;
  readings_.begin(end);
  for (std::size_t f = 0; f < formats_.size(); ++f) {
    if (!used_[f]) continue;  // it has seen nothing
    readings_.speaker(formats_[f]->name(), entries_[f].tier);
    formats_[f]->finish(readings_);
  }
  gate_.take(readings_.finish());
}

}  // namespace scalewatch::logimport
