#include "client_lib/src/pack.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <tuple>

#include "cuda/record/merge.h"

namespace scalewatch::client {
namespace {

using protozero::pbf_writer;

// Field numbers of ClientMessage.
constexpr protozero::pbf_tag_type kHello = 1, kTable = 2, kReport = 3, kLoss = 4, kHeartbeat = 5, kGoodbye = 6;
constexpr protozero::pbf_tag_type kReportBlocks = 5, kReportRetrospective = 15, kReportStatisticsLost = 17;
constexpr protozero::pbf_tag_type kBlockCount = 5, kBlockNan = 17, kBlockPosInf = 18, kBlockNegInf = 19;
constexpr std::size_t kBadBlock = 64;  // non-finite tensors that a thinned report keeps of a block
constexpr std::uint32_t kProtocolVersion = 1;

template <class T>
void add_fixed_column(pbf_writer& out, protozero::pbf_tag_type tag, const std::vector<T>& values) {
  static_assert(std::endian::native == std::endian::little, "packed columns are little-endian on the wire");
  out.add_bytes(tag, reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

void add_count_column(pbf_writer& out, protozero::pbf_tag_type tag, const std::vector<std::uint64_t>& values) {
  if (std::ranges::any_of(values, [](std::uint64_t v) { return v != 0; })) {
    out.add_packed_uint64(tag, values.begin(), values.end());
  }
}

void add_known(pbf_writer& out, protozero::pbf_tag_type tag, const std::optional<double>& value) {
  if (value) out.add_double(tag, *value);
}
void add_known(pbf_writer& out, protozero::pbf_tag_type tag, double value) {
  if (!std::isnan(value)) out.add_double(tag, value);
}

void pack_scaler(pbf_writer& report, const ScalerObservation& seen, std::span<const OptimizerObservation> optimizers) {
  pbf_writer out{report, 6};
  out.add_uint32(1, seen.scaler);
  add_known(out, 2, seen.scale_before);
  add_known(out, 3, seen.scale_after);
  if (seen.growth_tracker >= 0) out.add_uint64(4, static_cast<std::uint64_t>(seen.growth_tracker));
  if (seen.hysteresis >= 0) out.add_int32(5, seen.hysteresis);
  for (const OptimizerObservation& optimizer : optimizers) {
    if (optimizer.scaler != seen.scaler) continue;
    pbf_writer inner{out, 6};
    inner.add_uint32(1, optimizer.optimizer);
    add_known(inner, 2, optimizer.found_inf_local);
    add_known(inner, 3, optimizer.found_inf_decided);
    inner.add_enum(4, optimizer.outcome);
  }
}

// A trainer without a GPU says nothing of it.
void pack_devices(pbf_writer& stats, std::uint64_t driver_calls, const DeviceCounters& counters) {
  const auto add = [&stats](protozero::pbf_tag_type tag, std::uint64_t value) {
    if (value != 0) stats.add_uint64(tag, value);
  };
  add(10, driver_calls);
  add(11, counters.poll_calls);
  add(12, counters.gpu_ns);
  add(13, counters.lost_quiet);
  add(14, counters.lost_busy);
  add(15, counters.lost_late);
  add(16, counters.lost_replays);
  for (const DeviceFault& fault : counters.faults) {
    pbf_writer inner{stats, 17};
    inner.add_int32(1, fault.device);
    inner.add_enum(2, fault.cause);
    inner.add_string(3, fault.detail);
  }
}

auto block_key(const Measured& m) {
  return std::make_tuple(m.role, m.target, std::bit_cast<std::uint64_t>(m.scale), m.micro_batches);
}

// The records that a report of the attempt holds, moved to the sheet's beginning in their order.
std::span<Measured> chosen_first(const Attempt& attempt) {
  Sheet& sheet = *attempt.sheet;
  const bool found_inf = attempt.found_inf();
  const auto chosen = [found_inf](const Measured& m) {
    return m.send == SendMode::kAlways || (m.send == SendMode::kIfFoundInf && found_inf) || m.bad();
  };
  if (std::ranges::all_of(sheet, chosen)) return sheet;
  const auto rest = std::stable_partition(sheet.begin(), sheet.end(), chosen);
  return std::span(sheet).first(static_cast<std::size_t>(rest - sheet.begin()));
}

// All of a block is non-finite and there is little of it.
bool is_bad_block(protozero::pbf_reader block) {
  bool bad = false;
  std::uint32_t count = 0;
  while (block.next()) {
    bad = bad || block.tag() == kBlockNan || block.tag() == kBlockPosInf || block.tag() == kBlockNegInf;
    if (block.tag() == kBlockCount) {
      count = block.get_uint32();
    } else {
      block.skip();
    }
  }
  return bad && count <= kBadBlock;
}

}  // namespace

void TableHash::add(const TensorInfo& info) noexcept {
  const auto byte = [this](std::uint8_t b) { hash_ = (hash_ ^ b) * 0x100000001b3ULL; };
  for (const char c : info.name) byte(static_cast<std::uint8_t>(c));
  byte(0);
  byte(static_cast<std::uint8_t>(info.role));
  byte(static_cast<std::uint8_t>(info.dtype));
  for (int i = 0; i < 8; ++i) byte(static_cast<std::uint8_t>(info.numel >> (8 * i)));
  ++size_;
}

std::string pack_identity(const Identity& identity) {
  std::string data;
  pbf_writer out{data};
  out.add_uint32(1, kProtocolVersion);
  out.add_string(2, identity.run);
  out.add_uint32(3, identity.rank);
  out.add_uint32(4, identity.world_size);
  out.add_bytes(5, identity.incarnation);
  out.add_string(8, identity.host);
  out.add_uint32(9, identity.pid);
  out.add_string(10, identity.gpu_uuid);
  out.add_string(11, identity.job_id);
  out.add_string(12, identity.framework);
  out.add_enum(13, static_cast<std::int32_t>(identity.compute_dtype));
  for (const ScalerInfo& scaler : identity.scalers) {
    pbf_writer inner{out, 14};
    inner.add_string(1, scaler.name);
    inner.add_string(2, scaler.policy);
    for (const auto& [name, value] : scaler.parameters) {
      pbf_writer entry{inner, 3};
      entry.add_string(1, name);
      entry.add_double(2, value);
    }
  }
  for (const OptimizerInfo& optimizer : identity.optimizers) {
    pbf_writer inner{out, 15};
    inner.add_string(1, optimizer.name);
    inner.add_string(2, optimizer.class_name);
    inner.add_uint32(3, optimizer.scaler);
    add_known(inner, 4, optimizer.lr);
    add_known(inner, 5, optimizer.beta1);
    add_known(inner, 6, optimizer.beta2);
    add_known(inner, 7, optimizer.eps);
    add_known(inner, 8, optimizer.weight_decay);
    std::vector<std::int32_t> dtypes;
    dtypes.reserve(optimizer.state_dtypes.size());
    for (const DType dtype : optimizer.state_dtypes) dtypes.push_back(static_cast<std::int32_t>(dtype));
    inner.add_packed_enum(9, dtypes.begin(), dtypes.end());
    inner.add_bool(10, optimizer.fused);
  }
  for (const auto& [key, value] : identity.labels) {
    pbf_writer entry{out, 16};
    entry.add_string(1, key);
    entry.add_string(2, value);
  }
  out.add_int64(17, identity.start_time_ms);
  out.add_uint64(18, identity.incarnation_order);
  return data;
}

std::string pack_hello(std::string_view packed_identity, const TableHash& table, std::uint64_t last_seq,
                       std::uint64_t durable_seq) {
  std::string hello(packed_identity);
  pbf_writer out{hello};
  out.add_fixed64(6, table.value());
  out.add_uint32(7, table.size());
  out.add_uint64(19, last_seq);
  if (durable_seq != 0) out.add_uint64(21, durable_seq);
  std::string data;
  pbf_writer{data}.add_message(kHello, hello);
  return data;
}

std::string pack_table(std::uint32_t version, std::uint32_t first_id, std::span<const TensorInfo> infos) {
  std::string data;
  pbf_writer message{data};
  pbf_writer out{message, kTable};
  out.add_uint32(1, version);
  out.add_uint32(2, first_id);
  for (const TensorInfo& info : infos) {
    pbf_writer inner{out, 3};
    inner.add_string(1, info.name);
    inner.add_enum(2, static_cast<std::int32_t>(info.role));
    inner.add_enum(3, static_cast<std::int32_t>(info.dtype));
    inner.add_uint64(4, info.numel);
    inner.add_uint32(5, info.forward_index);
    if (!info.shard.empty()) inner.add_string(6, info.shard);
    if (!info.replica.empty()) inner.add_string(7, info.replica);
    if (!info.optimizer.empty()) inner.add_string(8, info.optimizer);
  }
  out.commit();
  return data;
}

std::string pack_loss(std::uint64_t first_seq, std::uint64_t last_seq, LossCause cause) {
  std::string data;
  pbf_writer message{data};
  pbf_writer out{message, kLoss};
  out.add_uint64(1, first_seq);
  out.add_uint64(2, last_seq);
  out.add_enum(3, static_cast<std::int32_t>(cause));
  out.commit();
  return data;
}

std::string pack_heartbeat(std::int32_t phase) {
  std::string data;
  pbf_writer message{data};
  pbf_writer out{message, kHeartbeat};
  out.add_enum(1, phase);
  out.commit();
  return data;
}

std::string pack_goodbye(std::uint64_t last_seq, std::string_view reason) {
  std::string data;
  pbf_writer message{data};
  pbf_writer out{message, kGoodbye};
  out.add_uint64(1, last_seq);
  out.add_string(2, reason.data(), reason.size());
  out.commit();
  return data;
}

template <class Writer>
void ReportPacker::pack_block(Writer& report, std::span<const Measured> block) {
  min_.clear(), max_.clear(), absmin_.clear(), sum_.clear(), sum_sq_.clear();
  zero_.clear(), subnormal_.clear(), flushed_.clear(), numel_.clear(), ids_.clear();
  nan_.clear(), pos_inf_.clear(), neg_inf_.clear(), over_.clear(), first_bad_.clear();
  const Measured& first = block.front();
  bool dense = true;
  bool usual_numel = true;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const Measured& m = block[i];
    const Record& r = m.record;
    const auto index = static_cast<std::uint32_t>(i);
    dense = dense && m.id == first.id + index;
    usual_numel = usual_numel && r.numel == m.table_numel * m.micro_batches;
    ids_.push_back(m.id);
    numel_.push_back(r.numel);
    min_.push_back(r.min);
    max_.push_back(r.max);
    absmin_.push_back(r.absmin_nonzero);
    sum_.push_back(round_to_24_bits(r.sum));
    sum_sq_.push_back(round_to_24_bits(r.sum_sq));
    zero_.push_back(r.zero);
    subnormal_.push_back(r.subnormal);
    flushed_.push_back(r.flushed);
    if (r.nan != 0) nan_.push_back({index, r.nan});
    if (r.pos_inf != 0) pos_inf_.push_back({index, r.pos_inf});
    if (r.neg_inf != 0) neg_inf_.push_back({index, r.neg_inf});
    if (r.over != 0) over_.push_back({index, r.over});
    if (m.first_bad_micro >= 0) first_bad_.push_back({index, static_cast<std::uint64_t>(m.first_bad_micro)});
  }
  pbf_writer out{report, kReportBlocks};
  out.add_enum(1, static_cast<std::int32_t>(first.role));
  out.add_double(2, first.scale);
  out.add_enum(3, static_cast<std::int32_t>(first.target));
  out.add_uint32(4, first.id);
  out.add_uint32(5, static_cast<std::uint32_t>(block.size()));
  if (!dense) out.add_packed_uint32(6, ids_.begin(), ids_.end());
  out.add_uint32(7, first.micro_batches);
  if (!usual_numel) out.add_packed_uint64(8, numel_.begin(), numel_.end());
  add_fixed_column(out, 9, min_);
  add_fixed_column(out, 10, max_);
  add_fixed_column(out, 11, absmin_);
  add_fixed_column(out, 12, sum_);
  add_fixed_column(out, 13, sum_sq_);
  add_count_column(out, 14, zero_);
  add_count_column(out, 15, subnormal_);
  add_count_column(out, 16, flushed_);
  const auto add_sparse = [&out](protozero::pbf_tag_type tag, const std::vector<Sparse>& values) {
    for (const Sparse& value : values) {
      pbf_writer inner{out, tag};
      inner.add_uint32(1, value.index);
      inner.add_uint64(2, value.count);
    }
  };
  add_sparse(17, nan_);
  add_sparse(18, pos_inf_);
  add_sparse(19, neg_inf_);
  add_sparse(20, over_);
  add_sparse(21, first_bad_);  // FirstBadMicro has the same two fields
  if (histograms_ == nullptr) return;
  for (std::size_t i = 0; i < block.size(); ++i) pack_histogram(out, static_cast<std::uint32_t>(i), block[i]);
}

template <class Writer>
void ReportPacker::pack_histogram(Writer& block, std::uint32_t index, const Measured& measured) {
  if (measured.histogram == kNoHistogram || measured.histogram_micros != measured.micro_batches || measured.bad()) return;
  const auto& counts = histograms_->slots[measured.histogram].counts;
  const auto counted = [](std::uint64_t count) { return count != 0; };
  const auto begin = std::ranges::find_if(counts, counted);
  const auto end = std::find_if(counts.rbegin(), std::make_reverse_iterator(begin), counted).base();
  if (begin == end || histogram_bytes_ > kHistogramBytes) return;
  constexpr std::size_t kCountBytes = 5;  // of most
  histogram_bytes_ += static_cast<std::size_t>(end - begin) * kCountBytes;
  pbf_writer out{block, 22};
  out.add_uint32(1, index);
  out.add_sint32(2, ExponentCounts::kFirst + static_cast<std::int32_t>(begin - counts.begin()));
  out.add_packed_uint64(3, begin, end);
}

// Blocks of equal key; the non-finite ones apart, where a thinned report finds them.
template <class Writer>
void ReportPacker::pack_blocks(Writer& report, std::span<Measured> records) {
  const auto order = [](const Measured& a, const Measured& b) {
    const auto ka = block_key(a);
    const auto kb = block_key(b);
    return ka != kb ? ka < kb : a.id < b.id;
  };
  if (!std::ranges::is_sorted(records, order)) std::ranges::sort(records, order);
  for (auto begin = records.begin(); begin != records.end();) {
    const auto key = block_key(*begin);
    const auto end = std::find_if(begin, records.end(), [&key](const Measured& m) { return block_key(m) != key; });
    // Of a wave of NaN both ends count: values flow forward through the one and backward through the other.
    const bool any_bad = std::any_of(begin, end, [](const Measured& m) { return m.bad(); });
    const auto middle = any_bad ? std::stable_partition(begin, end, [](const Measured& m) { return m.bad(); }) : begin;
    const std::span bad(begin, middle);
    if (bad.size() <= kBadBlock) {
      if (!bad.empty()) pack_block(report, bad);
    } else {
      std::rotate(bad.begin() + kBadBlock / 2, bad.end() - kBadBlock / 2, bad.end());
      pack_block(report, bad.first(kBadBlock));
      pack_block(report, bad.subspan(kBadBlock));
    }
    if (middle != end) pack_block(report, std::span<const Measured>(middle, end));
    begin = end;
  }
}

std::string ReportPacker::pack(const Attempt& attempt, std::uint64_t seq, std::span<const Misuse> misuses,
                               const ReportCounters& counters) {
  std::string data;
  data.reserve(256 + (attempt.sheet == nullptr ? 0 : attempt.sheet->size() * 40));
  pbf_writer message{data};
  pbf_writer out{message, kReport};
  out.add_uint64(1, seq);
  out.add_uint64(2, attempt.number);
  out.add_int64(3, attempt.step);
  out.add_int64(4, attempt.time_ms);
  histograms_ = attempt.histograms;
  histogram_bytes_ = 0;
  if (attempt.sheet != nullptr) pack_blocks(out, chosen_first(attempt));
  histograms_ = nullptr;
  for (const ScalerObservation& seen : attempt.scalers) pack_scaler(out, seen, attempt.optimizers);
  add_known(out, 7, attempt.loss);
  add_known(out, 8, attempt.lr);
  add_known(out, 9, attempt.grad_norm);
  if (attempt.grad_norm_scaled) out.add_bool(10, true);
  if (attempt.grad_norm_clipped) out.add_bool(11, true);
  if (attempt.phase != 0) out.add_enum(12, attempt.phase);
  for (const Misuse& misuse : misuses) {
    pbf_writer inner{out, 13};
    inner.add_string(1, misuse.kind.data());
    inner.add_string(2, misuse.detail.data());
    inner.add_bool(3, misuse.raised);
  }
  {
    pbf_writer inner{out, 14};
    inner.add_uint64(1, attempt.cost.trainer_thread_ns);
    inner.add_uint64(2, attempt.cost.measure_ns);
    inner.add_uint64(3, counters.reports_sent);
    inner.add_uint64(4, counters.reports_dropped);
    inner.add_uint64(5, counters.buffered_bytes);
    inner.add_uint64(6, counters.spooled_bytes);
    inner.add_uint64(7, counters.reports_thinned);
    inner.add_uint64(8, attempt.cost.misuse_dropped);
    inner.add_uint64(9, counters.client_thread_ns);
    pack_devices(inner, attempt.cost.driver_calls, counters.devices);
  }
  if (attempt.input_non_finite) out.add_bool(16, *attempt.input_non_finite);
  if (attempt.statistics_lost != LossCause::kNone) {
    out.add_enum(kReportStatisticsLost, static_cast<std::int32_t>(attempt.statistics_lost));
  }
  out.commit();
  return data;
}

std::string ReportPacker::pack_left_out(const Attempt& attempt) {
  if (attempt.sheet == nullptr) return {};
  const std::span<Measured> left_out = std::span(*attempt.sheet).subspan(chosen_first(attempt).size());
  if (left_out.empty()) return {};
  std::string data;
  data.reserve(64 + left_out.size() * 40);
  pbf_writer out{data};
  out.add_uint64(2, attempt.number);
  out.add_int64(3, attempt.step);
  out.add_int64(4, attempt.time_ms);
  pack_blocks(out, left_out);
  out.add_bool(kReportRetrospective, true);
  return data;
}

std::string with_seq(std::string_view left_out, std::uint64_t seq) {
  std::string data;
  data.reserve(left_out.size() + 32);
  pbf_writer message{data};
  std::string body;
  body.reserve(left_out.size() + 16);
  pbf_writer{body}.add_uint64(1, seq);
  body += left_out;
  message.add_message(kReport, body);
  return data;
}

std::string thin_report(std::string_view message, Fullness fullness, LossCause cause) {
  protozero::pbf_reader outer{message.data(), message.size()};
  if (!outer.next(kReport)) return {};
  const protozero::data_view body = outer.get_view();
  // Everything but the blocks is copied as it stands, from the end of the field before.
  protozero::pbf_reader fields{body};
  const char* field_begin = body.data();
  std::string kept;
  bool removed = false;
  while (fields.next()) {
    bool keep = true;
    if (fields.tag() == kReportBlocks) {
      keep = is_bad_block(fields.get_message()) && fullness == Fullness::kBadOnly;
    } else {
      fields.skip();
    }
    const char* field_end = body.data() + (body.size() - fields.length());
    if (keep) kept.append(field_begin, field_end);
    removed = removed || !keep;
    field_begin = field_end;
  }
  if (!removed) return {};
  pbf_writer{kept}.add_enum(kReportStatisticsLost, static_cast<std::int32_t>(cause));
  std::string data;
  data.reserve(kept.size() + 16);
  pbf_writer{data}.add_message(kReport, kept);
  return data;
}

}  // namespace scalewatch::client
