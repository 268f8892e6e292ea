#include "server/http/fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

namespace scalewatch::http {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// What all values of the enum begin with, up to the last underscore: "SEVERITY_".
std::size_t prefix_length(const EnumDescriptor& type) {
  std::string_view prefix = type.value(0)->name();
  for (int i = 1; i < type.value_count(); ++i) {
    const std::string& name = type.value(i)->name();
    const auto end = std::mismatch(prefix.begin(), prefix.end(), name.begin(), name.end()).first;
    prefix = prefix.substr(0, static_cast<std::size_t>(end - prefix.begin()));
  }
  const auto underscore = prefix.rfind('_');
  return underscore == std::string_view::npos ? 0 : underscore + 1;
}

const EnumValueDescriptor* find_enum(const EnumDescriptor& type, const std::string& text, std::string& allowed) {
  const std::size_t skip = prefix_length(type);
  for (int i = 0; i < type.value_count(); ++i) {
    const std::string name = lower(type.value(i)->name());
    const std::string short_name = name.substr(skip);
    if (lower(text) == short_name || lower(text) == name) return type.value(i);
    if (short_name != "unspecified") allowed += (allowed.empty() ? "" : ", ") + short_name;
  }
  return nullptr;
}

// Puts one value into the field: sets a singular one, adds to a repeated one. Returns what was expected, or empty.
std::string put(Message& message, const FieldDescriptor& field, const std::string& text) {
  const auto& reflection = *message.GetReflection();
  const auto store = [&](const auto& set, const auto& add, auto value) {
    if (field.is_repeated()) {
      (reflection.*add)(&message, &field, value);
    } else {
      (reflection.*set)(&message, &field, value);
    }
  };
  const auto number = [&]<class Number>(Number, const auto& set, const auto& add) -> std::string {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) {
      store(set, add, value);
      return {};
    }
    if constexpr (std::is_integral_v<Number>) {
      return "a whole number from " + std::to_string(std::numeric_limits<Number>::min()) + " to " +
             std::to_string(std::numeric_limits<Number>::max());
    } else {
      return "a number";
    }
  };
  using Reflection = google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return number(std::int32_t{}, &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return number(std::int64_t{}, &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return number(std::uint32_t{}, &Reflection::SetUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return number(std::uint64_t{}, &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return number(double{}, &Reflection::SetDouble, &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return number(float{}, &Reflection::SetFloat, &Reflection::AddFloat);
    case FieldDescriptor::CPPTYPE_STRING:
      store(&Reflection::SetString, &Reflection::AddString, text);
      return {};
    case FieldDescriptor::CPPTYPE_BOOL: {
      const std::string word = lower(text);
      if (word != "true" && word != "false" && word != "1" && word != "0") return "true or false";
      store(&Reflection::SetBool, &Reflection::AddBool, word == "true" || word == "1");
      return {};
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::string allowed;
      const EnumValueDescriptor* value = find_enum(*field.enum_type(), text, allowed);
      if (value == nullptr) return "one of " + allowed;
      store(&Reflection::SetEnum, &Reflection::AddEnum, value);
      return {};
    }
    default:
      return "given in a body";
  }
}

bool holds_scalar(const FieldDescriptor* field) {
  return field != nullptr && field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
}

struct Place {
  Message* message;
  const FieldDescriptor* field;
};

// The field of that name, of the message itself or of a message in it.
std::optional<Place> find(Message& message, const std::string& name) {
  const auto& type = *message.GetDescriptor();
  if (const auto* field = type.FindFieldByName(name); holds_scalar(field)) return Place{&message, field};
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* outer = type.field(i);
    if (outer->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || outer->is_repeated()) continue;
    if (const auto* field = outer->message_type()->FindFieldByName(name); holds_scalar(field)) {
      return Place{message.GetReflection()->MutableMessage(&message, outer), field};
    }
  }
  return std::nullopt;
}

std::string known_names(const Message& message, const std::set<std::string>& fixed) {
  std::string out;
  const auto add = [&](const FieldDescriptor* field) {
    if (holds_scalar(field) && !fixed.contains(field->name())) out += (out.empty() ? "" : ", ") + field->name();
  };
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    add(type.field(i));
    const auto* inner = type.field(i)->is_repeated() ? nullptr : type.field(i)->message_type();
    for (int j = 0; inner != nullptr && j < inner->field_count(); ++j) add(inner->field(j));
  }
  return out.empty() ? "there are none here" : "known here: " + out;
}

bool is_utf8(const std::string& text) {
  // Strict by the definition: no overlong forms, no surrogates, nothing past U+10FFFF.
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at < end) {
    if (*at < 0x80) {
      ++at;
      continue;
    }
    const int extra = *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : *at >= 0xC2 ? 1 : 0;
    if (extra == 0 || *at > 0xF4 || end - at <= extra) return false;
    for (int i = 1; i <= extra; ++i) {
      if ((at[i] & 0xC0) != 0x80) return false;
    }
    if ((*at == 0xE0 && at[1] < 0xA0) || (*at == 0xED && at[1] > 0x9F)) return false;
    if ((*at == 0xF0 && at[1] < 0x90) || (*at == 0xF4 && at[1] > 0x8F)) return false;
    at += extra + 1;
  }
  return true;
}

}  // namespace

std::string set_fields(Message& message, const Parameters& parameters, const std::set<std::string>& fixed) {
  std::set<std::string> given;
  for (const auto& [name, text] : parameters) {
    if (fixed.contains(name)) return "parameter " + name + ": already given in the path";
    const auto place = find(message, name);
    if (!place) return "unknown parameter " + name + " (" + known_names(message, fixed) + ")";
    if (!place->field->is_repeated() && !given.insert(name).second) return "parameter " + name + ": given twice";
    if (!is_utf8(text)) return "parameter " + name + ": not valid UTF-8";
    // Only numbers and enums can be told apart by commas; text may hold them.
    const bool list = place->field->is_repeated() && place->field->cpp_type() != FieldDescriptor::CPPTYPE_STRING;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = list ? std::min(text.find(',', begin), text.size()) : text.size();
      const std::string part = text.substr(begin, end - begin);
      if (const std::string expected = put(*place->message, *place->field, part); !expected.empty()) {
        return std::string("parameter ")
                   .append(name)
                   .append(": expected ")
                   .append(expected)
                   .append(", got \"")
                   .append(part, 0, 64) +
               "\"";
      }
      begin = end + 1;
    }
  }
  return {};
}

}  // namespace scalewatch::http
