#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <map>

#include "server/names/escape.h"
#include "tests/unit/cli/fake_data.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/harness.h"

namespace scalewatch::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Clears the screen, rings, goes to another line, reverses the text, uses C1's CSI.
constexpr const char* kHostile =
    "x\x1b[2J\x07\r\n\xe2\x80\xae\xc2\x9b"
    "31m\x7f";

// Puts the hostile text into every string that the message has, at any depth.
void poison(Message& message) {
  const auto* descriptor = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field->is_repeated()) {
        for (int k = 0; k < reflection->FieldSize(message, field); ++k)
          poison(*reflection->MutableRepeatedMessage(&message, field, k));
      } else if (reflection->HasField(message, field)) {
        poison(*reflection->MutableMessage(&message, field));
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field->is_repeated() &&
               field->name() != "next_page_token") {
      reflection->SetString(&message, field, kHostile);
    }
  }
}

// The number of characters that a terminal would obey, line ends apart.
int obeyed(const std::string& out) {
  int found = 0;
  for (std::size_t pos = 0; pos < out.size();) {
    const auto c = names::decode(out, pos);
    const auto one = std::string_view(out).substr(pos, c.length);
    if (one != "\n" && names::escape(one) != one) ++found;
    pos += c.length;
  }
  return found;
}

TEST(HostileNames, NeverReachTheTerminal) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "Protobuf's headers lay maps out otherwise under TSan than its library has them, and this changes them by reflection";
#endif
  auto data = collapsing_run();
  for (Message* message : std::initializer_list<Message*>{&data.runs, &data.run, &data.tensors, &data.history, &data.top,
                                                          &data.scaler, &data.alerts, &data.tail[0], &data.tail[1]}) {
    poison(*message);
  }
  for (auto& attempt : data.attempts) poison(attempt);
  const FakeServer server(std::move(data));
  const std::string run = kHostile;
  const std::vector<std::vector<std::string>> commands{{"runs"},
                                                       {"show", run},
                                                       {"scaler", run},
                                                       {"tensors", run},
                                                       {"history", run, "t"},
                                                       {"top", run},
                                                       {"attempt", run, "6"},
                                                       {"heatmap", run},
                                                       {"export", run},
                                                       {"export", run, "--what", "attempts"},
                                                       {"export", run, "--what", "findings"},
                                                       {"report", run},
                                                       {"checklist", run},
                                                       {"compare", run, run},
                                                       {"whatif", run},
                                                       {"whatif", run, "--bf16"},
                                                       {"show", run, "--segment", "1"},
                                                       {"tensors", run, "--segment", "1"},
                                                       {"runs", "--time", "utc"},
                                                       {"--\x1b[2Joption"},
                                                       {"alerts", "\x1b[2Jcommand"},
                                                       {"top", run, "--role", "\x1b[2Jrole"},
                                                       {"checklist", "./\x1b[2J.log"},
                                                       {"watch", "--count", "1"},
                                                       {"alerts"},
                                                       {"alerts", "watch"},
                                                       {"alerts", "ack", kHostile, "--who", kHostile, "--comment", kHostile},
                                                       {"alerts", "ack", "\x1b[2Junknown", "--who", "kim"},
                                                       {"tail", run},
                                                       {"doctor", "--run", run},
                                                       {"show", "\x1b[2Junknown"},
                                                       {"\x1b[2Jcommand"}};
  for (auto arguments : commands) {
    for (const bool json : {false, true}) {
      if (json) arguments.emplace_back("--json");
      const auto result = run_command(server.address(), arguments);
      EXPECT_EQ(obeyed(result.out), 0) << names::escape(result.out);
      EXPECT_EQ(obeyed(result.err), 0) << names::escape(result.err);
      EXPECT_FALSE(result.out.empty() && result.err.empty());
    }
  }
}

}  // namespace
}  // namespace scalewatch::cli
