// What the HTTP tests put behind the server, and a client that shows every byte.
#pragma once

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include <cctype>
#include <functional>
#include <string>

#include "server/http/server.h"

namespace scalewatch::http {

// Keeps the newest request of each kind; answers with `status` and what a test put into the responses.
struct FakeHistory : engine::HistoryApi {
  engine::Status status;
  std::function<void()> before;  // called in list_runs
  v1::ListRunsRequest list_runs_request;
  v1::ListRunsResponse list_runs_response;
  v1::GetRunRequest get_run_request;
  v1::ListTensorsRequest list_tensors_request;
  v1::GetTensorHistoryRequest history_request;
  v1::GetTensorHistoryResponse history_response;
  v1::GetAttemptRequest attempt_request;
  v1::TopTensorsRequest top_request;
  v1::GetScalerHistoryRequest scaler_request;
  v1::GetHeatMapRequest heat_map_request;

  engine::Status list_runs(const v1::ListRunsRequest& request, v1::ListRunsResponse& response) override {
    if (before) before();
    list_runs_request = request;
    response = list_runs_response;
    return status;
  }
  engine::Status get_run(const v1::GetRunRequest& request, v1::GetRunResponse&) override {
    get_run_request = request;
    return status;
  }
  engine::Status list_tensors(const v1::ListTensorsRequest& request, v1::ListTensorsResponse&) override {
    list_tensors_request = request;
    return status;
  }
  engine::Status get_tensor_history(const v1::GetTensorHistoryRequest& request,
                                    v1::GetTensorHistoryResponse& response) override {
    history_request = request;
    response = history_response;
    return status;
  }
  engine::Status get_attempt(const v1::GetAttemptRequest& request, v1::GetAttemptResponse&) override {
    attempt_request = request;
    return status;
  }
  engine::Status get_heat_map(const v1::GetHeatMapRequest& request, v1::GetHeatMapResponse&) override {
    heat_map_request = request;
    return status;
  }
  engine::Status top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse&) override {
    top_request = request;
    return status;
  }
  engine::Status get_scaler_history(const v1::GetScalerHistoryRequest& request, v1::GetScalerHistoryResponse&) override {
    scaler_request = request;
    return status;
  }
};

struct FakeAlerts : engine::AlertsApi {
  engine::Status status;
  v1::ListAlertsRequest list_request;
  v1::AcknowledgeAlertRequest acknowledge_request;
  v1::CreateSilenceRequest silence_request;
  v1::EndSilenceRequest end_request;
  v1::ListSilencesRequest silences_request;
  v1::TestSinksRequest test_request;
  v1::ListDeadLettersRequest letters_request;
  v1::ReplayDeadLettersRequest replay_request;

  engine::Status list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse&) override {
    list_request = request;
    return status;
  }
  engine::Status acknowledge(const v1::AcknowledgeAlertRequest& request, v1::AcknowledgeAlertResponse& response) override {
    acknowledge_request = request;
    response.mutable_alert()->set_id(request.id());
    return status;
  }
  engine::Status get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) override {
    response.mutable_alert()->set_id(request.id());
    return status;
  }
  engine::Status create_silence(const v1::CreateSilenceRequest& request, v1::CreateSilenceResponse&) override {
    silence_request = request;
    return status;
  }
  engine::Status end_silence(const v1::EndSilenceRequest& request, v1::EndSilenceResponse&) override {
    end_request = request;
    return status;
  }
  engine::Status list_silences(const v1::ListSilencesRequest& request, v1::ListSilencesResponse&) override {
    silences_request = request;
    return status;
  }
  engine::Status test_sinks(const v1::TestSinksRequest& request, v1::TestSinksResponse&) override {
    test_request = request;
    return status;
  }
  engine::Status list_dead_letters(const v1::ListDeadLettersRequest& request, v1::ListDeadLettersResponse&) override {
    letters_request = request;
    return status;
  }
  engine::Status replay_dead_letters(const v1::ReplayDeadLettersRequest& request,
                                     v1::ReplayDeadLettersResponse& response) override {
    replay_request = request;
    response.set_replayed(2);
    return status;
  }
};

struct Reply {
  unsigned status = 0;
  std::string head;  // status line and header fields, lower case
  std::string body;
  [[nodiscard]] bool has(const std::string& text) const { return head.find(text) != std::string::npos; }
};

class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(io_) { socket_.connect({boost::asio::ip::make_address("127.0.0.1"), port}); }

  void send(const std::string& bytes) { boost::asio::write(socket_, boost::asio::buffer(bytes)); }

  // One reply; `head_only` for HEAD. Status 0 when the server closed instead.
  Reply receive(bool head_only = false) {
    Reply reply;
    boost::system::error_code error;
    const std::size_t head = boost::asio::read_until(socket_, boost::asio::dynamic_buffer(buffer_), "\r\n\r\n", error);
    if (error) return reply;
    reply.head = take(head);
    for (char& c : reply.head) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    reply.status = static_cast<unsigned>(std::stoul(reply.head.substr(9, 3)));
    const auto at = reply.head.find("content-length: ");
    const std::size_t length = at == std::string::npos || head_only ? 0 : std::stoul(reply.head.substr(at + 16));
    if (buffer_.size() < length) {
      boost::asio::read(socket_, boost::asio::dynamic_buffer(buffer_), boost::asio::transfer_exactly(length - buffer_.size()),
                        error);
    }
    reply.body = take(length);
    return reply;
  }

  Reply get(const std::string& target) {
    send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return receive();
  }

  Reply post(const std::string& target, const std::string& body, const std::string& type = "application/json") {
    send("POST " + target + " HTTP/1.1\r\nHost: x\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return receive();
  }

  // Waits for the server to close.
  bool closed() {
    boost::system::error_code error;
    char byte = 0;
    while (!error) boost::asio::read(socket_, boost::asio::buffer(&byte, 1), error);
    return true;
  }

  boost::asio::ip::tcp::socket& socket() { return socket_; }

 private:
  std::string take(std::size_t bytes) {
    std::string out = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    return out;
  }

  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  std::string buffer_;
};

}  // namespace scalewatch::http
