// Calls to scalewatchd that either answer or say what to do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>

#include "scalewatch/v1/alerts.pb.h"
#include "scalewatch/v1/history.pb.h"
#include "server/cli/credentials.h"

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace scalewatch::cli {

// Exit codes of every command.
enum ExitCode : int {
  kExitOk = 0,        // also: doctor found nothing worse than info
  kExitWarning = 1,   // doctor's verdict
  kExitCritical = 2,  // doctor's verdict
  kExitNothing = 3,   // nothing could be read: no server, unknown run, time-out
  kExitUsage = 64,    // the command line, or a value in it, is wrong
};

// A call failed. The message is for people and safe to print: what is wrong and what to do.
class CallError : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t { kOther, kNotFound, kNotNow };
  CallError(const std::string& message, ExitCode exit_code, Kind kind = Kind::kOther)
      : std::runtime_error(message), exit_code_(exit_code), kind_(kind) {}
  [[nodiscard]] ExitCode exit_code() const { return exit_code_; }
  // The server knows no such run, tensor, attempt or alert.
  [[nodiscard]] bool not_found() const { return kind_ == Kind::kNotFound; }
  // The server is there, and cannot answer this now.
  [[nodiscard]] bool not_now() const { return kind_ == Kind::kNotNow; }

 private:
  ExitCode exit_code_;
  Kind kind_;
};

// Every call waits at most 10 s (streams: until they are stopped) and throws CallError. Thread-safe.
class Client {
 public:
  // `server` is HOST:PORT, with https:// before it for TLS. Connects on the first call. A request to stop ends calls that wait.
  // Throws CredentialsError.
  explicit Client(const std::string& server, const Credentials& credentials = {}, std::stop_token stop = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Called with what an answer may lack, as the server says it, once for the same words. Not thread-safe: before the first
  // call.
  void on_note(std::function<void(const std::string&)> told);
  // The same of what a view goes without.
  void note(const std::string& what);

  v1::ListRunsResponse list_runs(const v1::ListRunsRequest& request);
  v1::GetRunResponse get_run(const v1::GetRunRequest& request);
  v1::ListTensorsResponse list_tensors(const v1::ListTensorsRequest& request);
  v1::GetTensorHistoryResponse get_tensor_history(const v1::GetTensorHistoryRequest& request);
  v1::GetAttemptResponse get_attempt(const v1::GetAttemptRequest& request);
  v1::TopTensorsResponse top_tensors(const v1::TopTensorsRequest& request);
  v1::GetScalerHistoryResponse get_scaler_history(const v1::GetScalerHistoryRequest& request);
  v1::ListAlertsResponse list_alerts(const v1::ListAlertsRequest& request);
  v1::AcknowledgeAlertResponse acknowledge_alert(const v1::AcknowledgeAlertRequest& request);

  // For streams of their own.
  [[nodiscard]] std::shared_ptr<grpc::Channel> channel() const;
  // Throws what a call throws that ended so.
  [[noreturn]] void fail(const grpc::Status& status) const;

  // Calls `visit` for every event until the stream ends or `stop` is requested; both return normally.
  void tail_run(const v1::TailRunRequest& request, const std::stop_token& stop,
                const std::function<void(const v1::TailRunResponse&)>& visit);
  void watch_alerts(const v1::WatchAlertsRequest& request, const std::stop_token& stop,
                    const std::function<void(const v1::WatchAlertsResponse&)>& visit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::cli
