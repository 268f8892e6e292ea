#include "client_lib/src/arguments.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "client_lib/src/recorder.h"
#include "client_lib/src/servers.h"
#include "client_lib/src/sized.h"
#include "client_lib/src/text.h"

namespace scalewatch::client {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kDefaultBufferBytes = 64ULL << 20;
constexpr std::uint64_t kSmallestBufferBytes = 64ULL << 10;
constexpr std::uint32_t kDefaultRing = 16;
constexpr std::int32_t kLongestRing = 4096;
constexpr unsigned kMostThreads = 64;
constexpr std::uint64_t kDefaultHistogramEvery = 100;
constexpr std::uint32_t kMostRanks = 100'000;  // what a server takes unless it is told otherwise
constexpr std::uint64_t kLongestAgeS = 10ULL * 365 * 24 * 3600;
constexpr char kDefaultServer[] = "127.0.0.1:7462";
constexpr std::size_t kMisuseKind = 64;
constexpr std::size_t kMisuseDetail = 512;

std::string text(const char* value, std::size_t min, std::size_t max, const char* what) {
  std::string result = value == nullptr ? "" : value;
  if (result.size() < min || result.size() > max || !is_clean_utf8(result)) {
    refuse(std::string(what) + " must be " + std::to_string(min) + " to " + std::to_string(max) +
           " bytes of UTF-8 without control characters");
  }
  return result;
}

DType dtype(std::int32_t value, bool required, const char* what) {
  if (value < (required ? 1 : 0) || value > SCALEWATCH_E5M2) refuse(std::string(what) + " is no scalewatch_dtype");
  return static_cast<DType>(value);
}

std::string or_env(const char* value, const char* variable) {
  if (value != nullptr) return value;
  const char* found = std::getenv(variable);
  return found == nullptr ? "" : found;
}

std::vector<std::string> servers_of(const scalewatch_options& options, bool& tls) {
  const bool given = options.server != nullptr && options.server[0] != '\0';
  std::string list = given ? options.server : or_env(nullptr, "SCALEWATCH_SERVER");
  if (list.empty()) list = kDefaultServer;
  tls = take_schemes(list);
  std::vector<std::string> servers = split_servers(list);
  if (servers.empty()) {
    refuse(std::string(given ? "server" : "$SCALEWATCH_SERVER") +
           " must be host:port, e.g. 127.0.0.1:7462, with https:// before it for TLS; or several, separated by commas");
  }
  return servers;
}

Credentials credentials_of(const scalewatch_options& options, bool tls) {
  Credentials out;
  const bool file = options.token_file != nullptr && options.token_file[0] != '\0';
  out.token = options.token != nullptr ? options.token : file ? "" : or_env(nullptr, "SCALEWATCH_TOKEN");
  out.token_file = or_env(options.token_file, "SCALEWATCH_TOKEN_FILE");
  if (!out.token_file.empty() && options.token == nullptr) out.token.clear();
  out.ca_file = or_env(options.ca_file, "SCALEWATCH_CA_FILE");
  out.cert_file = or_env(options.cert_file, "SCALEWATCH_CERT_FILE");
  out.key_file = or_env(options.key_file, "SCALEWATCH_KEY_FILE");
  out.tls = tls || !out.ca_file.empty() || !out.cert_file.empty() || !out.key_file.empty();
  return out;
}

// What is wrong with it is told at once, not at the first connect.
void check(const SenderOptions& sender) {
  std::string fault;
  const Security security = read_security(sender.credentials, fault);
  if (!fault.empty()) refuse(fault);
  if (security.token.empty() || security.tls) return;
  for (const std::string& server : sender.servers) {
    if (on_this_machine(server)) continue;
    refuse("a token is not sent to " + server +
           " without encryption, where others could read it: use https:// before it, or ca_file ($SCALEWATCH_CA_FILE)");
  }
}

SenderOptions sender_of(const scalewatch_options& options) {
  SenderOptions sender;
  bool tls = false;
  sender.servers = servers_of(options, tls);
  sender.credentials = credentials_of(options, tls);
  check(sender);
  sender.buffer_bytes = options.buffer_bytes == 0 ? kDefaultBufferBytes : options.buffer_bytes;
  if (sender.buffer_bytes < kSmallestBufferBytes) refuse("buffer_bytes must be at least 65,536");
  if (options.ring_attempts > kLongestRing) refuse("ring_attempts must be at most 4,096");
  sender.ring_attempts =
      options.ring_attempts == 0 ? kDefaultRing : static_cast<std::size_t>(std::max(options.ring_attempts, 0));
  sender.spool.directory = or_env(options.spool_dir, "SCALEWATCH_SPOOL_DIR");
  if (options.spool_bytes != 0) sender.spool.max_bytes = options.spool_bytes;
  if (options.spool_max_age_s > kLongestAgeS) refuse("spool_max_age_s must be at most 315,360,000 (10 years)");
  if (options.spool_max_age_s != 0) sender.spool.max_age = std::chrono::seconds(options.spool_max_age_s);
  if (options.spool_keep_free_bytes != 0) sender.spool.keep_free_bytes = options.spool_keep_free_bytes;
  return sender;
}

Identity identity_of(const scalewatch_options& options) {
  Identity identity;
  const bool named = options.run != nullptr && options.run[0] != '\0';
  identity.run = text(named ? options.run : or_env(nullptr, "SCALEWATCH_RUN").c_str(), 1, 256, "run (or $SCALEWATCH_RUN)");
  identity.rank = options.rank;
  identity.world_size = std::max(options.world_size, 1U);
  if (identity.world_size > kMostRanks) refuse("world_size must be at most 100,000");
  if (identity.rank >= identity.world_size) refuse("rank must be less than world_size");
  identity.compute_dtype = dtype(options.compute_dtype, false, "compute_dtype");
  if (identity.compute_dtype == DType::kUnspecified) identity.compute_dtype = DType::kFp16;
  identity.framework = options.framework == nullptr ? "cpp" : text(options.framework, 0, 128, "framework");
  identity.job_id = text(or_env(options.job_id, "SLURM_JOB_ID").c_str(), 0, 128, "job_id");
  identity.gpu_uuid = text(options.gpu_uuid, 0, 128, "gpu_uuid");
  if (options.label_count > 32) refuse("at most 32 labels");
  if (options.label_count > 0 && options.labels == nullptr) refuse("labels is NULL");
  for (std::size_t i = 0; i < options.label_count; ++i) {
    const std::string key = text(options.labels[i].key, 1, 128, "a label's key");
    if (!is_identifier(key)) refuse("label '" + key + "' must look like [a-zA-Z_][a-zA-Z0-9_]*");
    identity.labels.emplace_back(key, text(options.labels[i].value, 0, 256, "a label's value"));
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  identity.incarnation_order = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  identity.start_time_ms = std::chrono::duration_cast<milliseconds>(now).count();
  std::random_device random;
  for (int i = 0; i < 16; ++i) identity.incarnation.push_back(static_cast<char>(random() & 0xFFU));
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) == 0 && is_clean_utf8(host)) identity.host = host;
  identity.pid = static_cast<std::uint32_t>(getpid());
  return identity;
}

// At most size bytes of it, without the piece of a character at the cut.
std::string_view clipped(std::string_view value, std::size_t size) {
  value = value.substr(0, size);
  while (!value.empty() && !is_clean_utf8(value)) value.remove_suffix(1);
  return value;
}

}  // namespace

void refuse(const std::string& message) {
  throw Refused(SCALEWATCH_INVALID_ARGUMENT, message);
}

Opening opening_of(const scalewatch_options* options) {
  const scalewatch_options given = sized(options, "options");
  if (given.measure_threads > kMostThreads) refuse("measure_threads must be at most 64");
  const std::uint64_t every = given.histogram_every == 0 ? kDefaultHistogramEvery : given.histogram_every;
  return {identity_of(given), sender_of(given), std::max(given.measure_threads, 1U), every >= SCALEWATCH_NEVER ? 0 : every};
}

ScalerInfo scaler_of(const char* name, const char* policy, const scalewatch_parameter* parameters,
                     std::size_t parameter_count) {
  ScalerInfo info{text(name, 1, 128, "name"), text(policy, 1, 64, "policy"), {}};
  if (parameter_count > 64) refuse("at most 64 parameters");
  if (parameter_count > 0 && parameters == nullptr) refuse("parameters is NULL");
  for (std::size_t i = 0; i < parameter_count; ++i) {
    const std::string key = text(parameters[i].name, 1, 64, "a parameter's name");
    if (!is_identifier(key)) refuse("parameter '" + key + "' must look like [a-zA-Z_][a-zA-Z0-9_]*");
    if (!std::isfinite(parameters[i].value)) refuse("parameter '" + key + "' is not finite");
    info.parameters[key] = parameters[i].value;
  }
  return info;
}

OptimizerInfo optimizer_of(const scalewatch_optimizer* optimizer) {
  const scalewatch_optimizer given = sized(optimizer, "optimizer");
  OptimizerInfo info;
  info.name = given.name == nullptr ? "default" : text(given.name, 1, 128, "name");
  info.class_name = text(given.class_name, 0, 128, "class_name");
  info.scaler = given.scaler;
  info.fused = given.fused != 0;
  const auto known = [&given](unsigned bit, double value) {
    return (given.present & bit) != 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
  };
  info.lr = known(SCALEWATCH_HAS_LR, given.lr);
  info.beta1 = known(SCALEWATCH_HAS_BETA1, given.beta1);
  info.beta2 = known(SCALEWATCH_HAS_BETA2, given.beta2);
  info.eps = known(SCALEWATCH_HAS_EPS, given.eps);
  info.weight_decay = known(SCALEWATCH_HAS_WEIGHT_DECAY, given.weight_decay);
  if (given.state_dtype_count > 16) refuse("at most 16 state dtypes");
  if (given.state_dtype_count > 0 && given.state_dtypes == nullptr) refuse("state_dtypes is NULL");
  for (std::size_t i = 0; i < given.state_dtype_count; ++i) {
    info.state_dtypes.push_back(dtype(given.state_dtypes[i], true, "a state dtype"));
  }
  return info;
}

TensorInfo tensor_of(const scalewatch_tensor* tensor) {
  const scalewatch_tensor given = sized(tensor, "tensor");
  TensorInfo info;
  info.name = text(given.name, 1, 512, "name");
  if (given.role < SCALEWATCH_GRADIENT || given.role > SCALEWATCH_BUFFER) refuse("role is no scalewatch_role");
  info.role = static_cast<Role>(given.role);
  info.dtype = dtype(given.dtype, true, "dtype");
  info.numel = given.numel;
  info.forward_index = given.forward_index;
  info.shard = text(given.shard, 0, 128, "shard");
  info.replica = text(given.replica, 0, 128, "replica");
  info.optimizer = text(given.optimizer, 0, 128, "optimizer");
  return info;
}

Sampling::Rule rule_of(const scalewatch_sampling* sampling) {
  const scalewatch_sampling given = sized(sampling, "sampling");
  Sampling::Rule rule;
  if (given.role < 0 || given.role > SCALEWATCH_BUFFER) refuse("role is no scalewatch_role");
  rule.role = given.role;
  rule.include = text(given.include, 0, 512, "include");
  rule.exclude = text(given.exclude, 0, 512, "exclude");
  rule.cadence.every = given.every == SCALEWATCH_NEVER ? 0 : std::max(given.every, 1U);
  rule.cadence.report_every = std::max(given.report_every, 1U);
  rule.cadence.start = std::max<std::uint64_t>(given.start_attempt, 1);
  rule.cadence.end = given.end_attempt;
  if (rule.cadence.end != 0 && rule.cadence.end < rule.cadence.start) refuse("end_attempt lies before start_attempt");
  rule.cadence.only_found_inf = given.only_found_inf != 0;
  return rule;
}

Record record_of(const scalewatch_record* record) {
  const scalewatch_record given = sized(record, "record");
  Record made;
  made.numel = given.numel;
  made.nan = given.nan;
  made.pos_inf = given.pos_inf;
  made.neg_inf = given.neg_inf;
  made.zero = given.zero;
  made.subnormal = given.subnormal;
  made.flushed = given.flushed;
  made.over = given.over;
  made.sum = given.sum;
  made.sum_sq = given.sum_sq;
  made.min = given.min;
  made.max = given.max;
  made.absmin_nonzero = given.absmin_nonzero;
  return made;
}

StridedTensor view_of(const void* data, std::uint32_t ndim, const std::uint64_t* sizes, const std::int64_t* strides) {
  StridedTensor view;
  if (ndim > StridedTensor::kMaxDims) refuse("ndim must be at most 8");
  if (ndim > 0 && (sizes == nullptr || strides == nullptr)) refuse("sizes or strides is NULL");
  view.data = data;
  view.dims = ndim;
  bool empty = false;
  for (std::uint32_t i = 0; i < ndim; ++i) {
    view.sizes[i] = sizes[i];
    view.strides[i] = strides[i];
    empty = empty || sizes[i] == 0;
  }
  if (data == nullptr && !empty) refuse("data is NULL");
  return view;
}

std::string_view misuse_kind(const char* kind) {
  const std::string_view name = kind == nullptr ? "" : kind;
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (name.empty() || name.size() > kMisuseKind || !std::ranges::all_of(name, fits)) {
    refuse("kind must be 1 to 64 bytes of [a-z0-9_]");
  }
  return name;
}

std::string_view misuse_detail(const char* detail) {
  return detail == nullptr ? std::string_view() : clipped(detail, kMisuseDetail);
}

void hand_out(const scalewatch_stats& made, scalewatch_stats* to) {
  if (to == nullptr || to->size < sizeof(std::size_t)) refuse("stats is NULL or its size is not set");
  const std::size_t size = to->size;
  std::memcpy(to, &made, std::min(size, sizeof made));
  to->size = size;
}

}  // namespace scalewatch::client
