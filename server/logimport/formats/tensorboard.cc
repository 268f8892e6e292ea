// TensorBoard's event files: TFRecord framing around Event messages, of which the scalars are read, plain or as tensors.
//
//   record := length (8 bytes, little endian) · masked CRC-32C of these 8 bytes · data · masked CRC-32C of data
//   masked(c) = rotate_right(c, 15) + 0xa282ead8
//
// Field numbers are those of TensorFlow's public event.proto, summary.proto and tensor.proto.
#include <array>
#include <bit>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <string>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kHeader = 12;
constexpr std::size_t kFooter = 4;
constexpr std::size_t kMaxRecord = 1 << 20;  // larger ones are images, graphs or histograms: passed over
constexpr std::size_t kMaxTag = 200;

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? (c >> 1) ^ 0x82f63b78U : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t c = ~0U;
  for (const char byte : bytes) c = (c >> 8) ^ kCrcTable[(c ^ static_cast<unsigned char>(byte)) & 0xff];
  return std::rotr(~c, 15) + 0xa282ead8U;
}

template <class T>
T little(std::string_view bytes) {
  T value{};
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

// The length that a record's header holds; absent when its checksum is wrong.
std::optional<std::uint64_t> record_length(std::string_view header) {
  if (header.size() < kHeader || masked_crc(header.substr(0, 8)) != little<std::uint32_t>(header.substr(8)))
    return std::nullopt;
  return little<std::uint64_t>(header);
}

// The first number of a tensor; absent when it has none of a real type.
std::optional<double> tensor_scalar(std::string_view message) {
  protozero::pbf_reader tensor(message.data(), message.size());
  std::uint32_t type = 0;
  std::string_view content;
  std::optional<double> value;
  while (tensor.next()) {
    switch (tensor.tag()) {
      case 1:
        type = tensor.get_uint32();
        break;
      case 4: {
        const auto view = tensor.get_view();
        content = {view.data(), view.size()};
        break;
      }
      case 5:
        if (tensor.wire_type() == protozero::pbf_wire_type::fixed32) {
          value = tensor.get_float();
        } else {
          for (const float number : tensor.get_packed_float()) {
            value = number;
            break;
          }
        }
        break;
      case 6:
        if (tensor.wire_type() == protozero::pbf_wire_type::fixed64) {
          value = tensor.get_double();
        } else {
          for (const double number : tensor.get_packed_double()) {
            value = number;
            break;
          }
        }
        break;
      default:
        tensor.skip();
    }
  }
  constexpr std::uint32_t kFloat = 1, kDouble = 2;
  if (!value && type == kFloat && content.size() >= 4) value = std::bit_cast<float>(little<std::uint32_t>(content));
  if (!value && type == kDouble && content.size() >= 8) value = std::bit_cast<double>(little<std::uint64_t>(content));
  return value;
}

class TensorBoard final : public ContentFormat {
 public:
  std::string_view name() const override { return "tensorboard"; }

  bool recognises(std::string_view head) const override {
    const auto length = record_length(head);
    return length && *length < kMaxRecord;
  }

  void feed(std::string_view bytes, ReadingSink& sink) override {
    while (!bytes.empty() && !broken_) {
      if (skip_ > 0) {
        const std::size_t part = std::min<std::uint64_t>(skip_, bytes.size());
        skip_ -= part;
        bytes.remove_prefix(part);
        continue;
      }
      const std::size_t part = std::min(wanted_ - buffer_.size(), bytes.size());
      buffer_.append(bytes.substr(0, part));
      bytes.remove_prefix(part);
      if (buffer_.size() == wanted_) advance(sink);
    }
  }

  void finish(ReadingSink& sink) override { flush(sink); }

 private:
  // The buffer holds what was wanted: a header, or a header and the record.
  void advance(ReadingSink& sink) {
    if (wanted_ == kHeader) {
      const auto length = record_length(buffer_);
      ++record_;
      if (!length) {  // a torn write: nothing behind it can be found again
        broken_ = true;
        return;
      }
      if (*length > kMaxRecord) {
        skip_ = *length + kFooter;
        buffer_.clear();
        return;
      }
      wanted_ = kHeader + static_cast<std::size_t>(*length) + kFooter;
      return;
    }
    const std::string_view data = std::string_view(buffer_).substr(kHeader, wanted_ - kHeader - kFooter);
    if (masked_crc(data) == little<std::uint32_t>(std::string_view(buffer_).substr(wanted_ - kFooter))) {
      try {
        event(data, sink);
      } catch (const protozero::exception&) {
        // not an event: passed over
      }
    }
    buffer_.clear();
    wanted_ = kHeader;
  }

  void event(std::string_view data, ReadingSink& sink) {
    protozero::pbf_reader event(data.data(), data.size());
    double time = 0;
    std::int64_t step = 0;
    while (event.next()) {
      switch (event.tag()) {
        case 1:
          time = event.get_double();
          break;
        case 2:
          step = event.get_int64();
          break;
        case 5:
          summary(event.get_message(), step, time, sink);
          break;
        default:
          event.skip();
      }
    }
  }

  void summary(protozero::pbf_reader message, std::int64_t step, double time, ReadingSink& sink) {
    while (message.next(1)) {
      protozero::pbf_reader value = message.get_message();
      std::string_view tag;
      std::optional<double> number;
      while (value.next()) {
        switch (value.tag()) {
          case 1: {
            const auto view = value.get_view();
            tag = {view.data(), view.size()};
            break;
          }
          case 2:
            number = value.get_float();
            break;
          case 8: {
            const auto view = value.get_view();
            number = tensor_scalar({view.data(), view.size()});
            break;
          }
          default:
            value.skip();
        }
      }
      if (number && !tag.empty() && tag.size() <= kMaxTag) scalar(tag, *number, step, time, sink);
    }
  }

  // Scalars of one step come one by one: gathered until another step, or a tag that was there already.
  void scalar(std::string_view tag, double value, std::int64_t step, double time, ReadingSink& sink) {
    if (meaning_of(tag, true).meaning == Meaning::kNone) return;
    if (count_ > 0 && (step != step_ || count_ == tags_.size())) flush(sink);
    for (std::size_t i = 0; i < count_; ++i) {
      if (tags_[i] == tag) {
        flush(sink);
        break;
      }
    }
    step_ = step;
    time_ = time;
    tags_[count_] = tag;
    values_[count_++] = value;
  }

  void flush(ReadingSink& sink) {
    if (count_ == 0) return;
    pairs_.clear();
    for (std::size_t i = 0; i < count_; ++i) {
      Number number;
      number.value = values_[i];
      pairs_.add(tags_[i], number);
    }
    count_ = 0;
    Reading reading;
    const Evidence evidence = fill_record(pairs_, {}, reading);
    if (!settle_kind(evidence, reading) || reading.kind != Reading::Kind::kRecord) return;
    reading.batch.reset();
    reading.step = step_;
    reading.line = record_;
    reading.format = name();
    if (time_ > 0 && time_ < 1e11) reading.time_ms = static_cast<std::int64_t>(time_ * 1000);
    sink.take(reading);
  }

  std::string buffer_;
  std::size_t wanted_ = kHeader;
  std::uint64_t skip_ = 0;
  bool broken_ = false;
  std::uint64_t record_ = 0;
  std::array<std::string, 32> tags_;
  std::array<double, 32> values_{};
  std::size_t count_ = 0;
  std::int64_t step_ = 0;
  double time_ = 0;
  Pairs pairs_;
};

}  // namespace

std::unique_ptr<ContentFormat> make_tensorboard() {
  return std::make_unique<TensorBoard>();
}

}  // namespace scalewatch::logimport
