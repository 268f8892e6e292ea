// What ranks are asked to collect: the domain decides, each stream is told what changed for it.
#include <algorithm>
#include <utility>

#include "server/engine/run.h"
#include "server/engine/stream.h"

namespace scalewatch::engine {

namespace {

// A backstop should the withdrawal never arrive. Told anew at half of it, and whole with each HelloAck.
constexpr std::int64_t kExpireMs = 3'600'000;
// Plans are looked at this often though nothing is known to have changed: ends by attempt pass, and expiries come near.
constexpr std::int64_t kLookAgainMs = 5'000;

// Nothing when it ends before the incarnation's first attempt.
std::optional<v1::Directive> directive_of(const domain::CollectionRequest& request, domain::Attempt base,
                                          std::int64_t expires_ms) {
  if (request.until != 0 && request.until <= base) return std::nullopt;
  v1::Directive out;
  out.set_id(request.id);
  out.set_expires_ms(expires_ms);
  if (request.until != 0) out.set_until_attempt(request.until - base);
  for (const std::string& tensor : request.tensors) out.add_tensors(tensor);
  for (const Role role : request.roles) out.add_roles(static_cast<v1::Role>(role));
  out.set_every(request.every);
  out.set_report_every(request.report_every);
  out.set_send_ring(request.send_ring);
  return out;
}

v1::Directive withdrawal_of(const std::string& id) {
  v1::Directive out;
  out.set_id(id);
  out.set_expires_ms(1);  // long ago
  return out;
}

}  // namespace

void Run::note_table(RankSlot& slot, std::shared_ptr<const domain::TensorTable> table) {
  slot.table_key = domain::key_of(*table, slot.table_key);
  slot.known_table = std::move(table);
}

domain::CollectionPlan Run::plan() const {
  const std::int64_t now = services_.clock.steady_ms();
  std::vector<domain::CollectionRank> ranks;
  for (const auto& [rank, slot] : slots_) {
    const bool lost = silence_of(*slot, now) >= rules_->rank_lost_after_ms;
    if (slot->segment == segment_ && !slot->left && !lost && slot->known_table) {
      ranks.push_back({rank, slot->table_key, slot->known_table});
    }
  }
  return domain::plan_collection(ranks, state_.view().open, closer_.last_closed(), services_.options.collection);
}

std::vector<v1::Directive> Run::ask_all(RankSlot& slot, const std::vector<domain::CollectionRequest>& requests) const {
  const std::int64_t expires_ms = services_.clock.wall_ms() + kExpireMs;
  std::vector<v1::Directive> out;
  slot.asked.clear();
  for (const domain::CollectionRequest& request : requests) {
    auto directive = directive_of(request, slot.attempt_base, expires_ms);
    if (!directive) continue;
    out.push_back(std::move(*directive));
    slot.asked[request.id] = {request, expires_ms};
  }
  return out;
}

void Run::deliver_directives() {
  const std::int64_t now = services_.clock.steady_ms();
  if (!plan_dirty_ && now - plan_ms_ < kLookAgainMs) return;
  if (std::none_of(slots_.begin(), slots_.end(), [](const auto& entry) { return entry.second->connected; })) return;
  plan_dirty_ = false;
  plan_ms_ = now;
  auto requests = plan();
  const std::int64_t wall = services_.clock.wall_ms();
  for (const auto& [rank, slot] : slots_) {
    const auto stream = slot->connected ? slot->stream() : nullptr;
    if (!stream) continue;  // it is told all when it comes back
    const std::vector<domain::CollectionRequest>& wanted = requests[rank];
    for (auto told = slot->asked.begin(); told != slot->asked.end();) {
      const bool keep = std::any_of(wanted.begin(), wanted.end(), [&](const auto& each) { return each.id == told->first; });
      if (!keep) stream->tell(withdrawal_of(told->first));
      told = keep ? std::next(told) : slot->asked.erase(told);
    }
    for (const domain::CollectionRequest& request : wanted) {
      const auto told = slot->asked.find(request.id);
      if (told != slot->asked.end() && told->second.request == request && told->second.expires_ms - wall > kExpireMs / 2)
        continue;
      const auto directive = directive_of(request, slot->attempt_base, wall + kExpireMs);
      if (!directive) continue;
      stream->tell(*directive);
      slot->asked[request.id] = {request, wall + kExpireMs};
    }
  }
}

}  // namespace scalewatch::engine
