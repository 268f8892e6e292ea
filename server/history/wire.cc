#include "server/history/wire.h"

#include <google/protobuf/wire_format_lite.h>

#include "server/history/varint.h"

namespace scalewatch::history::wire {

using google::protobuf::internal::WireFormatLite;

void put_number(int field, std::int64_t value, std::string& out) {
  if (value == 0) return;
  put_varint(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_VARINT), out);
  put_varint(static_cast<std::uint64_t>(value), out);
}

void put_bytes(int field, std::string_view value, std::string& out) {
  put_varint(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), out);
  put_varint(value.size(), out);
  out.append(value);
}

void put_message(int field, const google::protobuf::MessageLite& message, std::string& out) {
  const std::size_t size = message.ByteSizeLong();
  put_varint(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED), out);
  put_varint(size, out);
  out.resize(out.size() + size);
  message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(&out[out.size() - size]));
}

bool take(std::string_view& bytes, Field& field) {
  const std::size_t before = bytes.size();
  std::uint64_t tag = 0;
  std::uint64_t size = 0;
  if (!take_varint(bytes, tag) || tag > UINT32_MAX) return false;
  field.number = WireFormatLite::GetTagFieldNumber(static_cast<std::uint32_t>(tag));
  field.content = {};
  switch (WireFormatLite::GetTagWireType(static_cast<std::uint32_t>(tag))) {
    case WireFormatLite::WIRETYPE_VARINT:
      if (!take_varint(bytes, size)) return false;
      size = 0;
      break;
    case WireFormatLite::WIRETYPE_FIXED64:
      size = sizeof(std::uint64_t);
      break;
    case WireFormatLite::WIRETYPE_FIXED32:
      size = sizeof(std::uint32_t);
      break;
    case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
      if (!take_varint(bytes, size)) return false;
      field.content = bytes.substr(0, size);
      break;
    default:
      return false;  // groups: proto3 has none
  }
  if (size > bytes.size()) return false;
  bytes.remove_prefix(size);
  field.size = before - bytes.size();
  return field.number > 0;
}

}  // namespace scalewatch::history::wire
