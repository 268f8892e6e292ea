#include "server/engine/hello.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "server/engine/text.h"

namespace scalewatch::engine {

namespace {

constexpr std::size_t kMaxRunNameBytes = 256;
constexpr std::size_t kMaxTextBytes = 256;
constexpr int kMaxLabels = 32;
constexpr int kMaxScalers = 64;
constexpr int kMaxOptimizers = 256;
constexpr int kMaxParameters = 64;

bool is_label_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && name.size() <= kMaxTextBytes && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

// Optional text: may be empty.
std::string text_fault(std::string_view field, std::string_view text) {
  if (text.empty()) return {};
  const std::string fault = name_fault(text, kMaxTextBytes);
  return fault.empty() ? fault : fmt::format("{} '{}' {}", field, shown(text), fault);
}

std::string labels_fault(const v1::Hello& hello) {
  if (hello.labels().size() > kMaxLabels)
    return fmt::format("{} labels: at most {} are taken", hello.labels().size(), kMaxLabels);
  for (const auto& [name, value] : hello.labels()) {
    if (!is_label_name(name)) return fmt::format("label '{}': a name is [a-zA-Z_][a-zA-Z0-9_]*", shown(name));
    if (auto fault = text_fault("label value", value); !fault.empty()) return fault;
  }
  return {};
}

std::string scalers_fault(const v1::Hello& hello) {
  if (auto fault = scaler_infos_fault(hello.scalers()); !fault.empty()) return fault;
  if (hello.optimizers_size() > kMaxOptimizers) return fmt::format("more than {} optimizers", kMaxOptimizers);
  for (const auto& optimizer : hello.optimizers()) {
    if (auto fault = name_fault(optimizer.name(), kMaxTextBytes); !fault.empty()) return "optimizer name " + fault;
    if (auto fault = text_fault("optimizer class", optimizer.class_name()); !fault.empty()) return fault;
    if (hello.scalers_size() > 0 && optimizer.scaler() >= static_cast<std::uint32_t>(hello.scalers_size())) {
      return fmt::format("optimizer '{}' names scaler {} of {}", shown(optimizer.name()), optimizer.scaler(),
                         hello.scalers_size());
    }
    if (optimizer.has_lr() && !std::isfinite(optimizer.lr())) return "optimizer lr is not finite";
  }
  return {};
}

std::string info_fault(const v1::TensorInfo& info, std::uint32_t id, const v1::Limits& limits) {
  if (auto fault = name_fault(info.name(), limits.max_name_bytes()); !fault.empty()) {
    return fmt::format("tensor {}: name '{}' {}", id, shown(info.name()), fault);
  }
  if (info.role() < v1::ROLE_GRADIENT || info.role() > v1::ROLE_BUFFER)
    return fmt::format("tensor {}: role {} is unknown", id, static_cast<int>(info.role()));
  if (info.dtype() < v1::DTYPE_UNSPECIFIED || info.dtype() > v1::DTYPE_E5M2)
    return fmt::format("tensor {}: dtype {} is unknown", id, static_cast<int>(info.dtype()));
  for (const std::string* text : {&info.shard(), &info.replica(), &info.optimizer()}) {
    if (auto fault = text_fault("text", *text); !fault.empty()) return fmt::format("tensor {}: {}", id, fault);
  }
  return {};
}

domain::TensorInfo to_domain(const v1::TensorInfo& info) {
  return {.name = info.name(),
          .role = static_cast<Role>(info.role()),
          .dtype = static_cast<DType>(info.dtype()),
          .numel = info.numel(),
          .forward_index = info.forward_index(),
          .shard = info.shard(),
          .replica = info.replica(),
          .optimizer = info.optimizer()};
}

}  // namespace

std::string scaler_infos_fault(const google::protobuf::RepeatedPtrField<v1::ScalerInfo>& scalers) {
  if (scalers.size() > kMaxScalers) return fmt::format("more than {} scalers", kMaxScalers);
  for (const auto& scaler : scalers) {
    if (auto fault = name_fault(scaler.name(), kMaxTextBytes); !fault.empty()) return "scaler name " + fault;
    if (auto fault = name_fault(scaler.policy(), kMaxTextBytes); !fault.empty()) return "scaler policy " + fault;
    if (scaler.parameters().size() > kMaxParameters) return fmt::format("more than {} parameters of a scaler", kMaxParameters);
    for (const auto& [name, value] : scaler.parameters()) {
      if (!is_label_name(name)) return fmt::format("scaler parameter '{}': a name is [a-zA-Z_][a-zA-Z0-9_]*", shown(name));
      if (!std::isfinite(value)) return fmt::format("scaler parameter '{}' is not finite", name);
    }
  }
  return {};
}

std::string hello_fault(const v1::Hello& hello, std::uint32_t max_ranks) {
  if (hello.protocol_version() == 0) return "protocol_version is missing: this server speaks 1";
  if (auto fault = name_fault(hello.run(), kMaxRunNameBytes); !fault.empty())
    return fmt::format("run name '{}' {}", shown(hello.run()), fault);
  if (hello.world_size() == 0 || hello.world_size() > max_ranks)
    return fmt::format("world_size {} is not within 1 to {}", hello.world_size(), max_ranks);
  if (hello.rank() >= hello.world_size())
    return fmt::format("rank {} is not under world_size {}", hello.rank(), hello.world_size());
  if (hello.incarnation().size() != Incarnation{}.size())
    return fmt::format("incarnation has {} bytes instead of 16", hello.incarnation().size());
  if (hello.last_seq() > kMaxSeq) return fmt::format("last_seq {} is beyond {}", hello.last_seq(), kMaxSeq);
  if (hello.durable_seq() > hello.last_seq())
    return fmt::format("durable_seq {} is beyond last_seq {}", hello.durable_seq(), hello.last_seq());
  if (hello.compute_dtype() < v1::DTYPE_UNSPECIFIED || hello.compute_dtype() > v1::DTYPE_E5M2)
    return "compute_dtype is unknown";
  for (const auto& [field, text] :
       std::initializer_list<std::pair<std::string_view, const std::string*>>{{"host", &hello.host()},
                                                                              {"gpu_uuid", &hello.gpu_uuid()},
                                                                              {"job_id", &hello.job_id()},
                                                                              {"framework", &hello.framework()}}) {
    if (auto fault = text_fault(field, *text); !fault.empty()) return fault;
  }
  if (auto fault = labels_fault(hello); !fault.empty()) return fault;
  return scalers_fault(hello);
}

domain::ScalerInfo to_domain(const v1::ScalerInfo& scaler) {
  return {scaler.name(), scaler.policy(), {scaler.parameters().begin(), scaler.parameters().end()}};
}

Incarnation incarnation_of(const v1::Hello& hello) {
  Incarnation out{};
  std::copy_n(hello.incarnation().begin(), out.size(), out.begin());
  return out;
}

domain::RankJoined to_rank_joined(const v1::Hello& hello, domain::TimeMs now) {
  domain::RankJoined out{.rank = hello.rank(),
                         .world_size = hello.world_size(),
                         .host = hello.host(),
                         .pid = hello.pid(),
                         .gpu_uuid = hello.gpu_uuid(),
                         .framework = hello.framework(),
                         .compute_dtype = static_cast<DType>(hello.compute_dtype()),
                         .scalers = {},
                         .optimizers = {},
                         .now = now,
                         .from_log = hello.from_log()};
  for (const auto& scaler : hello.scalers()) out.scalers.push_back(to_domain(scaler));
  for (const auto& optimizer : hello.optimizers()) {
    domain::OptimizerInfo info{optimizer.name(), optimizer.class_name(), optimizer.scaler(), {}, optimizer.fused()};
    if (optimizer.has_lr()) info.lr = optimizer.lr();
    if (optimizer.has_eps() && std::isfinite(optimizer.eps())) info.eps = optimizer.eps();
    for (const int number : optimizer.state_dtypes()) {
      const auto dtype = static_cast<DType>(number);
      const bool known = number > v1::DTYPE_UNSPECIFIED && number <= v1::DTYPE_E5M2;
      const bool told = std::find(info.state_dtypes.begin(), info.state_dtypes.end(), dtype) != info.state_dtypes.end();
      if (known && !told) info.state_dtypes.push_back(dtype);
    }
    out.optimizers.push_back(std::move(info));
  }
  return out;
}

std::string append_table(domain::TensorTable& table, const v1::TableDelta& delta, const v1::Limits& limits) {
  const auto count = static_cast<std::uint64_t>(delta.infos_size());
  if (delta.first_id() > table.size())
    return fmt::format("table delta begins at id {}, after the {} tensors known", delta.first_id(), table.size());
  if (delta.first_id() + count > limits.max_tensors())
    return fmt::format("table of {} tensors: at most {} are taken", delta.first_id() + count, limits.max_tensors());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t id = delta.first_id() + i;
    const v1::TensorInfo& info = delta.infos(static_cast<int>(i));
    if (auto fault = info_fault(info, id, limits); !fault.empty()) return fault;
    if (id < table.size() && !(table[id] == to_domain(info)))
      return fmt::format("tensor {} ('{}') is not what it was: a table only grows", id, shown(info.name()));
  }
  const std::size_t known = table.size() - delta.first_id();
  for (std::size_t i = known; i < count; ++i) table.push_back(to_domain(delta.infos(static_cast<int>(i))));
  return {};
}

std::uint64_t table_hash(const domain::TensorTable& table) {
  if (table.empty()) return 0;
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, 64 bits
  const auto add = [&](std::uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3U; };
  for (const auto& info : table) {
    for (const char c : info.name) add(static_cast<std::uint8_t>(c));
    add(0);
    add(static_cast<std::uint8_t>(info.role));
    add(static_cast<std::uint8_t>(info.dtype));
    for (int shift = 0; shift < 64; shift += 8) add(static_cast<std::uint8_t>(info.numel >> shift));
  }
  return hash;
}

domain::LossCause loss_cause(v1::LossCause cause) {
  const bool known = cause > v1::LOSS_CAUSE_UNSPECIFIED && cause <= v1::LOSS_CAUSE_STORE;
  return known ? static_cast<domain::LossCause>(cause) : domain::LossCause::kInternal;
}

}  // namespace scalewatch::engine
