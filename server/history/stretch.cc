#include "server/history/stretch.h"

#include <zlib.h>

#include <algorithm>
#include <map>

#include "server/history/record_reader.h"
#include "server/history/seal.h"
#include "server/history/varint.h"

namespace scalewatch::history {

namespace {

constexpr std::size_t kMaxDetail = std::size_t{1} << 30;  // unpacked

// Blocks without the columns that are in the frames.
v1::RecordBlock bare(const v1::RecordBlock& block) {
  v1::RecordBlock out;
  out.set_role(block.role());
  out.set_measured_under_scale(block.measured_under_scale());
  out.set_target(block.target());
  out.set_first_id(block.first_id());
  out.set_count(block.count());
  *out.mutable_ids() = block.ids();
  out.set_micro_batches(block.micro_batches());
  *out.mutable_exponents() = block.exponents();
  return out;
}

template <class Column>
void clear_if_zero(Column* column) {
  if (std::all_of(column->begin(), column->end(), [](auto value) { return value == 0; })) column->Clear();
}

void fill_block(v1::RecordBlock& block, const std::function<std::optional<Measured>(std::uint32_t)>& record_of,
                const std::function<std::uint64_t(std::uint32_t)>& numel_of) {
  const std::uint32_t count = block.ids().empty() ? block.count() : static_cast<std::uint32_t>(block.ids_size());
  bool usual_numel = true;
  const auto sparse = [](auto* list, std::uint32_t index, std::uint64_t value) {
    if (value == 0) return;
    auto* entry = list->Add();
    entry->set_index(index);
    entry->set_count(value);
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t id = id_at(block, i);
    const Measured measured = record_of(id).value_or(Measured{});
    const Record& record = measured.record;
    block.add_numel(record.numel);
    usual_numel = usual_numel && record.numel == numel_of(id) * std::max(1U, block.micro_batches());
    block.add_min(record.min);
    block.add_max(record.max);
    block.add_absmin_nonzero(record.absmin_nonzero);
    block.add_sum(record.sum);
    block.add_sum_sq(record.sum_sq);
    block.add_zero(record.zero);
    block.add_subnormal(record.subnormal);
    block.add_flushed(record.flushed);
    sparse(block.mutable_nan(), i, record.nan);
    sparse(block.mutable_pos_inf(), i, record.pos_inf);
    sparse(block.mutable_neg_inf(), i, record.neg_inf);
    sparse(block.mutable_over(), i, record.over);
    if (measured.first_bad_micro) {
      auto* entry = block.add_first_bad_micro();
      entry->set_index(i);
      entry->set_micro(*measured.first_bad_micro);
    }
  }
  if (usual_numel) block.clear_numel();
  clear_if_zero(block.mutable_zero());
  clear_if_zero(block.mutable_subnormal());
  clear_if_zero(block.mutable_flushed());
}

void put_bytes(std::string_view bytes, std::string& out) {
  put_varint(bytes.size(), out);
  out += bytes;
}

bool take_bytes(std::string_view& from, std::string_view& bytes) {
  std::uint64_t size = 0;
  if (!take_varint(from, size) || size > from.size()) return false;
  bytes = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

}  // namespace

std::vector<TableTensor> stored_table(Connection& connection, std::int64_t stream, bool* whole) {
  if (whole != nullptr) *whole = true;
  std::vector<TableTensor> table;
  Query query(connection, "SELECT delta FROM table_deltas WHERE stream = ? ORDER BY version", stream);
  while (query.step()) {
    v1::TableDelta delta;
    if (!parse_sealed(query, 0, delta) || delta.first_id() > table.size()) {
      if (whole != nullptr) *whole = false;
      continue;
    }
    // A client whose table was not whole here sends from that part on.
    if (whole != nullptr) *whole = true;
    table.resize(
        std::max<std::size_t>(table.size(), std::size_t{delta.first_id()} + static_cast<std::size_t>(delta.infos_size())));
    std::size_t id = delta.first_id();
    for (const auto& info : delta.infos()) table[id++] = {info.name(), info.numel()};
  }
  return table;
}

struct StretchBuilder::Indexed {
  struct Sparse {
    Record counts;
    std::optional<std::uint32_t> first_bad_micro;
  };
  v1::Report report;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> places;  // by id: block + 1 (0: no record), index
  std::unordered_map<std::uint32_t, Sparse> sparse;             // by id
  bool non_finite = false;

  bool index();
  // False: no record of the tensor.
  bool at(std::uint32_t id, std::uint64_t numel, Measured& measured) const;
};

// False when a tensor is named twice or a column is short.
bool StretchBuilder::Indexed::index() {
  for (int number = 0; number < report.blocks_size(); ++number) {
    const auto& block = report.blocks(number);
    const std::uint32_t count = records_of(block);
    if (count == 0) continue;
    const std::uint64_t most = std::max(id_at(block, 0), id_at(block, count - 1));
    if (places.size() <= most) places.resize(most + 1);
    for (std::uint32_t i = 0; i < count; ++i) {
      auto& place = places[id_at(block, i)];
      if (place.first != 0) return false;
      place = {static_cast<std::uint32_t>(number) + 1, i};
    }
    const auto take = [&](const auto& list, std::uint64_t Record::*field) {
      for (const auto& entry : list) {
        if (entry.index() < count) sparse[id_at(block, entry.index())].counts.*field = entry.count();
      }
    };
    take(block.nan(), &Record::nan);
    take(block.pos_inf(), &Record::pos_inf);
    take(block.neg_inf(), &Record::neg_inf);
    take(block.over(), &Record::over);
    for (const auto& entry : block.first_bad_micro()) {
      if (entry.index() < count) sparse[id_at(block, entry.index())].first_bad_micro = entry.micro();
    }
    non_finite = non_finite || block.nan_size() + block.pos_inf_size() + block.neg_inf_size() > 0;
  }
  return true;
}

bool StretchBuilder::Indexed::at(std::uint32_t id, std::uint64_t numel, Measured& measured) const {
  if (id >= places.size() || places[id].first == 0) return false;
  dense_record(report.blocks(static_cast<int>(places[id].first - 1)), static_cast<int>(places[id].second), numel, measured);
  if (!sparse.empty()) {
    if (const auto found = sparse.find(id); found != sparse.end()) {
      measured.record.nan = found->second.counts.nan;
      measured.record.pos_inf = found->second.counts.pos_inf;
      measured.record.neg_inf = found->second.counts.neg_inf;
      measured.record.over = found->second.counts.over;
      measured.first_bad_micro = found->second.first_bad_micro;
    }
  }
  return true;
}

StretchBuilder::StretchBuilder(const std::vector<TableTensor>& table) : table_(table) {}
StretchBuilder::~StretchBuilder() = default;

bool StretchBuilder::add(std::uint64_t attempt, std::string_view payload) {
  if (!attempts_.empty() && attempt <= attempts_.back()) return false;
  auto indexed = std::make_unique<Indexed>();
  if (!indexed->report.ParseFromArray(payload.data(), static_cast<int>(payload.size())) || !indexed->index()) return false;
  attempts_.push_back(attempt);
  reports_.push_back(std::move(indexed));
  return true;
}

bool StretchBuilder::non_finite(std::size_t place) const {
  return reports_[place]->non_finite;
}

void StretchBuilder::chunks(const std::function<void(ChunkRow)>& take) {
  std::size_t ids = 0;
  for (const auto& report : reports_) ids = std::max(ids, report->places.size());
  TensorRows rows;
  for (std::uint32_t begin = 0; begin < ids; begin += kChunkTensors) {
    const std::size_t count = std::min<std::size_t>(kChunkTensors, ids - begin);
    ChunkBuilder builder(begin / kChunkTensors, count, attempts_);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t id = begin + i;
      const std::uint64_t numel = id < table_.size() ? table_[id].numel : 0;
      rows.places.clear();
      rows.rows.assign(reports_.size(), Measured{});
      std::size_t records = 0;
      for (std::size_t place = 0; place < reports_.size(); ++place) {
        if (!reports_[place]->at(id, numel, rows.rows[records])) continue;
        rows.places.push_back(static_cast<std::uint8_t>(place));
        ++records;
      }
      rows.rows.resize(records);
      builder.set(i, rows, numel, id < table_.size() ? std::string_view(table_[id].name) : std::string_view());
    }
    if (ChunkRow row = builder.finish(); row.records > 0) take(std::move(row));
  }
}

std::string StretchBuilder::attempts() const {
  return write_attempts(attempts_);
}

std::string write_attempts(std::span<const std::uint64_t> attempts) {
  // Counted from the place in the stretch, so that attempts without a gap need no bit.
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i < attempts.size(); ++i) values.push_back(attempts[i] - i);
  std::string out;
  pack_column(values, NumberKind::kInteger, out);
  return out;
}

std::vector<std::uint64_t> read_attempts(std::string_view bytes, std::size_t reports) {
  PackedColumn column;
  std::vector<std::uint64_t> attempts;
  if (!column.open(bytes, reports, NumberKind::kInteger)) return attempts;
  for (std::size_t i = 0; i < reports; ++i) attempts.push_back(column.at(i) + i);
  return attempts;
}

std::string StretchBuilder::detail() {
  std::map<std::string, std::size_t, std::less<>> skeletons;
  std::vector<const std::string*> in_order;
  std::string rests;
  for (const auto& indexed : reports_) {
    v1::Report skeleton;
    for (const auto& block : indexed->report.blocks()) *skeleton.add_blocks() = bare(block);
    const auto [found, is_new] = skeletons.emplace(skeleton.SerializeAsString(), skeletons.size());
    if (is_new) in_order.push_back(&found->first);
    indexed->report.clear_blocks();
    put_varint(found->second, rests);
    put_bytes(indexed->report.SerializeAsString(), rests);
  }
  std::string raw;
  put_varint(in_order.size(), raw);
  for (const auto* skeleton : in_order) put_bytes(*skeleton, raw);
  raw += rests;
  std::string out;
  put_varint(raw.size(), out);
  uLongf size = compressBound(raw.size());
  const std::size_t begin = out.size();
  out.resize(begin + size);
  compress2(reinterpret_cast<Bytef*>(&out[begin]), &size, reinterpret_cast<const Bytef*>(raw.data()), raw.size(), 3);
  out.resize(begin + size);
  return out;
}

bool StretchDetail::open(std::string_view bytes, std::size_t reports) {
  std::uint64_t size = 0;
  if (!take_varint(bytes, size) || size > kMaxDetail) return false;
  raw_.resize(size);
  uLongf written = size;
  if (uncompress(reinterpret_cast<Bytef*>(raw_.data()), &written, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) !=
          Z_OK ||
      written != size) {
    return false;
  }
  std::string_view rest = raw_;
  std::uint64_t count = 0;
  if (!take_varint(rest, count) || count > reports) return false;
  skeletons_.resize(count);
  rests_.resize(reports);
  for (auto& skeleton : skeletons_) {
    if (!take_bytes(rest, skeleton)) return false;
  }
  for (auto& one : rests_) {
    std::uint64_t skeleton = 0;
    if (!take_varint(rest, skeleton) || skeleton >= count || !take_bytes(rest, one.bytes)) return false;
    one.skeleton = skeleton;
  }
  return true;
}

std::optional<v1::Report> StretchDetail::bare_blocks(std::size_t place) const {
  if (place >= rests_.size()) return std::nullopt;
  v1::Report report;
  if (!report.MergeFromString(std::string(skeletons_[rests_[place].skeleton]))) return std::nullopt;
  return report;
}

std::optional<v1::Report> StretchDetail::rebuild(std::size_t place,
                                                 const std::function<std::optional<Measured>(std::uint32_t)>& record,
                                                 const std::function<std::uint64_t(std::uint32_t)>& numel) const {
  if (place >= rests_.size()) return std::nullopt;
  v1::Report report;
  const auto skeleton = skeletons_[rests_[place].skeleton];
  const auto rest = rests_[place].bytes;
  // Two messages end to end are one merged.
  if (!report.MergeFromString(std::string(rest)) || !report.MergeFromString(std::string(skeleton))) return std::nullopt;
  for (auto& block : *report.mutable_blocks()) fill_block(block, record, numel);
  return report;
}

}  // namespace scalewatch::history
