#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "server/app/config.h"
#include "server/app/settings.h"

namespace scalewatch::app {
namespace {

using ::testing::HasSubstr;

CommandLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "scalewatchd");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

std::string error(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(CommandLine, Defaults) {
  const CommandLine line = parse({});
  EXPECT_EQ(line.config.data_dir, "./scalewatch-data");
  EXPECT_EQ(line.config.grpc_address.text(), "127.0.0.1:7462");
  EXPECT_EQ(line.config.http_address.text(), "127.0.0.1:9464");
  EXPECT_FALSE(line.check);
  EXPECT_FALSE(line.message);
}

// Opening a pipe waits for a writer, and one that was read at the start is empty: all sinks would be gone.
TEST(CommandLine, APipeIsNotReadAgain) {
  const std::string path = ::testing::TempDir() + "scalewatch_pipe_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const std::vector<const char*> arguments{"scalewatchd", "--config", path.c_str()};
  try {
    parse_command_line(static_cast<int>(arguments.size()), arguments.data(), true);
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.what(), path + ": is not a file that can be read again");
  }
  std::remove(path.c_str());
}

// Emptied by somebody who is about to write it: no wish for the defaults.
TEST(CommandLine, AnEmptyFileIsTakenAtTheStartOnly) {
  const std::string path = ::testing::TempDir() + "scalewatch_empty_" + std::to_string(getpid());
  std::ofstream(path).close();
  const std::vector<const char*> arguments{"scalewatchd", "--config", path.c_str()};
  EXPECT_NO_THROW(parse_command_line(static_cast<int>(arguments.size()), arguments.data()));
  EXPECT_THROW(parse_command_line(static_cast<int>(arguments.size()), arguments.data(), true), ConfigError);
  std::remove(path.c_str());
}

TEST(CommandLine, FlagsOverrideTheFile) {
  const std::string path = ::testing::TempDir() + "scalewatch_flags_" + std::to_string(getpid()) + ".yaml";
  std::ofstream(path) << "data_dir: from-file\nlisten: {grpc: '127.0.0.1:1'}\nlog: {level: error}\nengine: {threads: 3}\n";
  const CommandLine line = parse({"--data-dir", "from-flag", "--config", path.c_str(), "--listen=127.0.0.1:2", "--set",
                                  "engine.threads=5", "--set", "listen.public_url=http://x/?a=b", "--check"});
  std::remove(path.c_str());
  EXPECT_EQ(line.config.data_dir, "from-flag");
  EXPECT_EQ(line.config.grpc_address.port, 2);
  EXPECT_EQ(line.config.log_level, "error");
  EXPECT_EQ(line.config.engine.threads, 5u);
  EXPECT_EQ(line.config.public_url, "http://x/?a=b");
  EXPECT_TRUE(line.check);
}

TEST(CommandLine, RefusesToLeaveLoopbackUnlessToldTo) {
  EXPECT_THAT(error({"--listen", "0.0.0.0:1"}), HasSubstr("listen.grpc: 0.0.0.0:1 can be reached from other machines"));
  EXPECT_THAT(error({"--http", "[::]:1"}), HasSubstr("listen.http: [::]:1 can be reached"));
  // Told so twice: that nothing is encrypted, and that nobody says who they are.
  EXPECT_THAT(error({"--listen", "0.0.0.0:1"}), HasSubstr("--insecure-listen"));
  EXPECT_THAT(error({"--listen", "0.0.0.0:1", "--anonymous-listen"}), HasSubstr("--insecure-listen"));
  EXPECT_THAT(error({"--listen", "0.0.0.0:1", "--insecure-listen"}), HasSubstr("--anonymous-listen"));
  EXPECT_EQ(parse({"--listen", "0.0.0.0:1", "--insecure-listen", "--anonymous-listen"}).config.grpc_address.host, "0.0.0.0");
  EXPECT_EQ(parse({"--listen", "0.0.0.0:1", "--insecure-listen", "--set", "auth.tokens_file=/t"}).config.gate.tokens_file,
            "/t");
}

TEST(CommandLine, TlsNeedsFilesThatFit) {
  EXPECT_THAT(error({"--set", "tls.certificate=/nowhere.pem"}), HasSubstr("tls.certificate and tls.key go together"));
  EXPECT_THAT(error({"--set", "tls.client_ca=/nowhere.pem"}), HasSubstr("tls.client_ca: needs"));
  EXPECT_THAT(error({"--set", "tls.certificate=/nowhere.pem", "--set", "tls.key=/nowhere.key"}), HasSubstr("/nowhere.pem"));
}

TEST(CommandLine, Errors) {
  EXPECT_THAT(error({"--listen", "nowhere"}), HasSubstr("--listen: listen.grpc: expected an IP address"));
  EXPECT_THAT(error({"--log-level", "loud"}), HasSubstr("--log-level: log.level: expected one of debug"));
  EXPECT_THAT(error({"--set", "engine.threads"}), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(error({"--set", "engine.thread=1"}), HasSubstr("--set: unknown key engine.thread"));
  EXPECT_THAT(error({"--colour"}), HasSubstr("--colour"));
  EXPECT_THAT(error({"extra"}), HasSubstr("extra"));
  EXPECT_THAT(error({"--config"}), HasSubstr("--config"));
  EXPECT_THAT(error({"--config", "/nonexistent.yaml"}), HasSubstr("/nonexistent.yaml: cannot be read"));
  EXPECT_THAT(error({"--data-dir", ""}), HasSubstr("data_dir"));
}

TEST(CommandLine, HelpNamesEveryKeyWithItsDefault) {
  const std::string help = parse({"--help"}).message.value_or("");
  Config defaults;
  for (const Setting& setting : settings(defaults)) {
    EXPECT_THAT(help, HasSubstr(setting.key + " = "));
    EXPECT_THAT(help, HasSubstr(setting.expected));
  }
  EXPECT_THAT(help, HasSubstr("--insecure-listen"));
  EXPECT_THAT(help, HasSubstr("127.0.0.1:9464"));
}

TEST(CommandLine, Version) {
  EXPECT_EQ(parse({"--version"}).message.value_or(""), "scalewatchd " SCALEWATCH_VERSION "\n");
}

}  // namespace
}  // namespace scalewatch::app
