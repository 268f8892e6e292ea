#include "server/history/catalog.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "scalewatch/v1/ingest.pb.h"
#include "server/history/api_error.h"
#include "server/history/seal.h"

namespace scalewatch::history {

namespace {

constexpr std::string_view kNoMessage("\xff", 1);  // can't be parsed
constexpr std::size_t kMaxEntries = 4;
constexpr std::size_t kMaxSlots = 8'000'000;  // 128 MB

auto order_of(const v1::TensorInfo& info) {
  return std::make_tuple(info.forward_index(), static_cast<std::int32_t>(info.role()), std::string_view(info.name()));
}

class Builder {
 public:
  void add(std::int64_t stream, std::uint32_t rank, std::uint64_t order, std::vector<std::string> deltas) {
    // Data-parallel ranks have equal tables: parse and keep them once.
    if (!slots_ || deltas != deltas_) {
      slots_ = parse(deltas);
      deltas_ = std::move(deltas);
      total_ += slots_->size();
      if (total_ > kMaxSlots) {
        throw ApiError{{engine::Status::kResourceExhausted, "the tensor tables of this segment are larger than can be joined"}};
      }
    }
    for (const auto& slot : *slots_) {
      if (slot.tensor != Catalog::kNone) entries_[slot.tensor].ranks.insert(rank);
    }
    catalog_->streams[stream] = {rank, order, slots_};
    own_.emplace_back(slots_);
  }

  std::shared_ptr<const Catalog> finish() {
    std::vector<std::uint32_t> by_order(entries_.size());
    for (std::uint32_t i = 0; i < by_order.size(); ++i) by_order[i] = i;
    std::sort(by_order.begin(), by_order.end(),
              [&](auto a, auto b) { return order_of(entries_[a].info) < order_of(entries_[b].info); });
    std::vector<std::uint32_t> place(entries_.size());
    for (std::uint32_t i = 0; i < by_order.size(); ++i) {
      auto& entry = entries_[by_order[i]];
      place[by_order[i]] = i;
      if (entry.shards.size() > 1) {
        entry.info.clear_shard();
        entry.info.clear_replica();
      }
      catalog_->tensors.push_back({std::move(entry.info), static_cast<std::uint32_t>(entry.ranks.size())});
    }
    std::sort(own_.begin(), own_.end());
    own_.erase(std::unique(own_.begin(), own_.end()), own_.end());
    for (const auto& slots : own_) {
      for (auto& slot : *slots) {
        if (slot.tensor != Catalog::kNone) slot.tensor = place[slot.tensor];
      }
    }
    return std::move(catalog_);
  }

 private:
  using Slots = std::shared_ptr<std::vector<Catalog::Slot>>;
  struct Entry {
    v1::TensorInfo info;
    std::set<std::uint32_t> shards;
    std::set<std::uint32_t> ranks;
  };

  Slots parse(const std::vector<std::string>& deltas) {
    auto slots = std::make_shared<std::vector<Catalog::Slot>>();
    bool damaged = false;
    for (const auto& bytes : deltas) {
      v1::TableDelta delta;
      // The engine wrote what it had parsed: other bytes mean a damaged file. The client then sends from that part on.
      damaged = !delta.ParseFromString(bytes) || delta.first_id() > slots->size();
      if (damaged) continue;
      slots->resize(
          std::max<std::size_t>(slots->size(), std::size_t{delta.first_id()} + static_cast<std::size_t>(delta.infos_size())));
      std::size_t id = delta.first_id();
      for (const auto& info : delta.infos()) (*slots)[id++] = slot_of(info);
    }
    if (damaged) {
      throw ApiError{{engine::Status::kInternal, "a stored tensor table cannot be read: the history file is damaged"}};
    }
    return slots;
  }

  Catalog::Slot slot_of(const v1::TensorInfo& info) {
    const auto shard = shards_.emplace(info.shard(), static_cast<std::uint32_t>(shards_.size())).first->second;
    const auto [found, is_new] = by_name_.emplace(std::make_pair(info.name(), static_cast<std::int32_t>(info.role())),
                                                  static_cast<std::uint32_t>(entries_.size()));
    if (is_new) {
      entries_.push_back({info, {shard}, {}});
    } else if (entries_[found->second].shards.insert(shard).second) {
      auto& whole = entries_[found->second].info;
      whole.set_numel(whole.numel() + info.numel());
    }
    return {found->second, shard, info.numel()};
  }

  std::shared_ptr<Catalog> catalog_ = std::make_shared<Catalog>();
  std::vector<Entry> entries_;
  std::map<std::pair<std::string, std::int32_t>, std::uint32_t> by_name_;
  std::map<std::string, std::uint32_t> shards_;
  std::vector<std::string> deltas_;  // that slots_ came from
  Slots slots_;
  std::vector<Slots> own_;
  std::size_t total_ = 0;
};

}  // namespace

std::vector<std::uint32_t> Catalog::find(std::string_view name) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].info.name() == name) found.push_back(i);
  }
  return found;
}

std::size_t Catalog::after(std::uint32_t forward_index, std::int32_t role, std::string_view name) const {
  const auto key = std::make_tuple(forward_index, role, name);
  const auto found = std::upper_bound(tensors.begin(), tensors.end(), key,
                                      [](const auto& value, const Tensor& tensor) { return value < order_of(tensor.info); });
  return static_cast<std::size_t>(found - tensors.begin());
}

std::shared_ptr<const Catalog> CatalogCache::get(std::int64_t run, std::uint32_t segment) {
  auto now = keys(run, segment);
  const auto is_it = [&](const Entry& entry) { return entry.run == run && entry.segment == segment; };
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), is_it);
    if (found != entries_.end() && found->keys == now) {
      std::rotate(found, found + 1, entries_.end());
      return entries_.back().catalog;
    }
  }
  auto catalog = build(now);
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, is_it);
  if (entries_.size() == kMaxEntries) entries_.erase(entries_.begin());
  entries_.push_back({run, segment, std::move(now), catalog});
  return catalog;
}

std::vector<CatalogCache::Key> CatalogCache::keys(std::int64_t run, std::uint32_t segment) {
  ReadPool::Lease lease(pool_, ReadPool::Limit::kNone);
  Query query(*lease,
              "SELECT id, rank, ord, (SELECT count(*) FROM table_deltas WHERE stream = streams.id) FROM streams "
              "WHERE run = ? AND segment = ? ORDER BY rank, ord DESC, id DESC",
              run, segment);
  std::vector<Key> keys;
  while (query.step()) keys.push_back({query.i64(0), query.u32(1), query.u64(2), query.u32(3)});
  return keys;
}

std::shared_ptr<const Catalog> CatalogCache::build(const std::vector<Key>& keys) {
  Builder builder;
  for (const auto& key : keys) builder.add(key.stream, key.rank, key.order, deltas(key.stream));
  return builder.finish();
}

std::vector<std::string> CatalogCache::deltas(std::int64_t stream) {
  ReadPool::Lease lease(pool_, ReadPool::Limit::kNone);
  Query query(*lease, "SELECT delta FROM table_deltas WHERE stream = ? ORDER BY version", stream);
  std::vector<std::string> deltas;
  while (query.step()) deltas.emplace_back(unsealed(query, 0).value_or(kNoMessage));
  return deltas;
}

}  // namespace scalewatch::history
