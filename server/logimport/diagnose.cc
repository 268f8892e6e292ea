#include "server/logimport/diagnose.h"

#include <utility>

#include "server/logimport/story.h"

namespace scalewatch::logimport {

struct LogDoctor::Impl {
  Impl(std::string_view format, const domain::Thresholds& thresholds, InputTap tap)
      : story(thresholds, std::move(tap)), reader(story, format) {}
  Story story;
  LogReader reader;
  std::uint32_t files = 0;
};

LogDoctor::LogDoctor(std::string_view format, const domain::Thresholds& thresholds, InputTap tap)
    : impl_(std::make_unique<Impl>(format, thresholds, std::move(tap))) {}
LogDoctor::~LogDoctor() = default;

void LogDoctor::begin_file() {
  impl_->reader.begin_file(impl_->files++);
}
void LogDoctor::feed(std::string_view bytes) {
  impl_->reader.feed(bytes);
}
void LogDoctor::end_file() {
  impl_->reader.end_file();
}
void LogDoctor::pause() {
  impl_->reader.pause();
  impl_->story.pause();
}
void LogDoctor::finish() {
  impl_->story.finish();
}

LogReader& LogDoctor::reader() {
  return impl_->reader;
}

ReadSummary LogDoctor::summary() const {
  return impl_->reader.summary();
}
domain::Diagnosis LogDoctor::diagnosis() const {
  return impl_->story.run().diagnosis();
}
std::uint32_t LogDoctor::runs() const {
  return impl_->story.run().runs();
}
const std::vector<LogPart>& LogDoctor::parts() const {
  return impl_->story.run().parts();
}
const std::vector<ScalePoint>& LogDoctor::scale() const {
  return impl_->story.run().scale();
}
std::vector<domain::Finding> LogDoctor::take_news() {
  return impl_->story.run().take_news();
}

}  // namespace scalewatch::logimport
