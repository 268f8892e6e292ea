#include "server/logimport/reader.h"

#include <algorithm>
#include <stdexcept>

#include "server/logimport/dispatch.h"
#include "server/logimport/plain_text.h"

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kHeadBytes = 16 * 1024;  // what content formats decide by

}  // namespace

class LogReader::Impl {
 public:
  Impl(ReadingSink& sink, std::string_view format) : only_(format), gate_(sink), dispatch_(format, gate_) {
    const auto& names = format_names();
    if (!format.empty() && std::find(names.begin(), names.end(), format) == names.end()) {
      throw std::invalid_argument("unknown log format: " + std::string(format));
    }
  }

  void begin_file(std::uint32_t file) {
    gate_.begin(file);
    dispatch_.begin();
    head_.clear();
    decided_ = false;
    content_.reset();
    plain_ = PlainText();
    splitter_ = std::make_unique<LineSplitter>(dispatch_);
  }

  void feed(std::string_view bytes) {
    bytes_ += bytes.size();
    if (!decided_) {
      const std::size_t missing = std::min(kHeadBytes - head_.size(), bytes.size());
      head_.append(bytes.substr(0, missing));
      bytes.remove_prefix(missing);
      if (head_.size() < kHeadBytes) return;
      decide();
    }
    if (!bytes.empty()) give(bytes);
  }

  void pause() {
    if (!decided_ && !head_.empty()) decide();
  }

  void end_file() {
    pause();
    if (content_) {
      content_->finish(gate_);
    } else {
      splitter_->finish();
      dispatch_.finish();
      lines_ += splitter_->lines();
      lines_cut_ += splitter_->lines_cut();
    }
    splitter_.reset();
  }

  ReadSummary summary() const {
    ReadSummary summary;
    summary.bytes = bytes_;
    summary.lines = lines_ + (splitter_ ? splitter_->lines() : 0);
    summary.lines_cut = lines_cut_ + (splitter_ ? splitter_->lines_cut() : 0);
    summary.readings = gate_.readings();
    summary.formats = gate_.formats();
    if (!summary.formats.empty()) summary.format = summary.formats.front().name;
    return summary;
  }

 private:
  void decide() {
    decided_ = true;
    plain_.begin(head_);
    for (const ContentEntry& entry : content_format_list()) {
      auto content = entry.make();
      if ((only_.empty() || only_ == content->name()) && content->recognises(head_)) {
        content_ = std::move(content);
        break;
      }
    }
    give(head_);
    head_.clear();
  }

  void give(std::string_view bytes) {
    if (content_) {
      content_->feed(bytes, gate_);
    } else {
      splitter_->feed(plain_.convert(bytes));
    }
  }

  std::string only_;
  Gate gate_;
  Dispatch dispatch_;
  std::string head_;
  bool decided_ = false;
  std::unique_ptr<ContentFormat> content_;
  PlainText plain_;
  std::unique_ptr<LineSplitter> splitter_;
  std::uint64_t bytes_ = 0;
  std::uint64_t lines_ = 0;
  std::uint64_t lines_cut_ = 0;
};

LogReader::LogReader(ReadingSink& sink, std::string_view format) : impl_(std::make_unique<Impl>(sink, format)) {}
LogReader::~LogReader() = default;
void LogReader::begin_file(std::uint32_t file) {
  impl_->begin_file(file);
}
void LogReader::feed(std::string_view bytes) {
  impl_->feed(bytes);
}
void LogReader::pause() {
  impl_->pause();
}
void LogReader::end_file() {
  impl_->end_file();
}
ReadSummary LogReader::summary() const {
  return impl_->summary();
}

}  // namespace scalewatch::logimport
