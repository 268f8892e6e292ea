#include "server/cli/words.h"

#include <algorithm>
#include <iterator>

namespace scalewatch::cli {

namespace {

// Position of the word in the list, from 1; 0 for the empty word. Options are checked against the same lists before.
int index_of(const std::vector<std::string>& words, std::string_view word) {
  const auto found = std::find(words.begin(), words.end(), word);
  return found == words.end() ? 0 : static_cast<int>(found - words.begin()) + 1;
}

}  // namespace

std::string_view severity_word(domain::Severity severity) {
  switch (severity) {
    case domain::Severity::kNone:
      return "none";
    case domain::Severity::kInfo:
      return "info";
    case domain::Severity::kWarning:
      return "warning";
    case domain::Severity::kCritical:
      return "critical";
  }
  return "unknown";
}

text::Style severity_style(domain::Severity severity) {
  switch (severity) {
    case domain::Severity::kNone:
      return text::Style::kGood;
    case domain::Severity::kInfo:
      return text::Style::kNotice;
    case domain::Severity::kWarning:
      return text::Style::kWarning;
    case domain::Severity::kCritical:
      return text::Style::kCritical;
  }
  return text::Style::kPlain;
}

std::string_view role_word(Role role) {
  const auto& words = role_choices();
  const auto index = static_cast<std::size_t>(role);
  return index == 0 || index > words.size() ? std::string_view("-") : std::string_view(words[index - 1]);
}

std::string_view role_short(v1::Role role) {
  switch (role) {
    case v1::ROLE_GRADIENT:
      return "grad";
    case v1::ROLE_PARAMETER:
      return "param";
    case v1::ROLE_ACTIVATION:
      return "act";
    case v1::ROLE_ACTIVATION_GRADIENT:
      return "act_grad";
    case v1::ROLE_OPTIMIZER_STATE:
      return "state";
    case v1::ROLE_BUFFER:
      return "buffer";
    default:
      return "-";
  }
}

std::string_view dtype_word(DType dtype) {
  switch (dtype) {
    case DType::kFp64:
      return "fp64";
    case DType::kFp32:
      return "fp32";
    case DType::kFp16:
      return "fp16";
    case DType::kBf16:
      return "bf16";
    case DType::kE4m3fn:
      return "e4m3fn";
    case DType::kE5m2:
      return "e5m2";
    case DType::kUnspecified:
      break;
  }
  return "-";
}

std::string_view status_word(v1::RunStatus status) {
  switch (status) {
    case v1::RUN_STATUS_RUNNING:
      return "running";
    case v1::RUN_STATUS_FINISHED:
      return "finished";
    case v1::RUN_STATUS_LOST:
      return "lost";
    default:
      return "-";
  }
}

text::Style status_style(v1::RunStatus status) {
  switch (status) {
    case v1::RUN_STATUS_RUNNING:
      return text::Style::kGood;
    case v1::RUN_STATUS_LOST:
      return text::Style::kCritical;
    default:
      return text::Style::kPlain;
  }
}

// In the order of the wire's numbers, from 1.
const std::vector<std::string>& severity_choices() {
  static const std::vector<std::string> kWords{"info", "warning", "critical"};
  return kWords;
}
v1::Severity parse_severity(std::string_view word) {
  return static_cast<v1::Severity>(index_of(severity_choices(), word));
}

const std::vector<std::string>& state_choices() {
  static const std::vector<std::string> kWords{"pending", "firing", "acknowledged", "silenced", "resolved"};
  return kWords;
}

const std::vector<std::string>& status_choices() {
  static const std::vector<std::string> kWords{"running", "finished", "lost"};
  return kWords;
}
v1::RunStatus parse_status(std::string_view word) {
  return static_cast<v1::RunStatus>(index_of(status_choices(), word));
}

const std::vector<std::string>& role_choices() {
  static const std::vector<std::string> kWords{"gradient",        "parameter", "activation", "activation_gradient",
                                               "optimizer_state", "buffer"};
  return kWords;
}
std::string role_meant(const std::string& word) {
  std::string plain = word;
  std::replace(plain.begin(), plain.end(), '-', '_');
  const auto& words = role_choices();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (plain == words[i] || plain == role_short(static_cast<v1::Role>(i + 1))) return words[i];
  }
  std::vector<std::string> found;
  std::copy_if(words.begin(), words.end(), std::back_inserter(found),
               [&](const std::string& role) { return plain.size() >= 2 && role.starts_with(plain); });
  return found.size() == 1 ? found.front() : word;
}
v1::Role parse_role(std::string_view word) {
  return static_cast<v1::Role>(index_of(role_choices(), word));
}

const std::vector<std::string>& by_choices() {
  static const std::vector<std::string> kWords{"headroom", "absmax", "underflow", "nan", "norm"};
  return kWords;
}
v1::TopTensorsRequest::By parse_by(std::string_view word) {
  return static_cast<v1::TopTensorsRequest::By>(index_of(by_choices(), word));
}

}  // namespace scalewatch::cli
