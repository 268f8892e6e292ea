// Silences, as the alert book keeps them: what people asked for and what it changes are one transaction.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <random>
#include <stdexcept>
#include <utility>

#include "server/alerting/alert_book.h"

namespace scalewatch::alerting {

void AlertBook::silence(const v1::CreateSilenceRequest& request, Silenced done) {
  std::lock_guard lock(mutex_);
  engine::CommitBatch batch;
  std::uint32_t alerts = 0;
  v1::Silence silence = silence_locked(request, batch, alerts);
  if (stopping_) return;
  submit_locked(std::move(batch), [silence = std::move(silence), alerts, done = std::move(done)] { done(silence, alerts); });
}

void AlertBook::unsilence(const std::string& id, const std::string& who, std::function<void(const v1::Silence&)> done) {
  std::lock_guard lock(mutex_);
  engine::CommitBatch batch;
  v1::Silence silence = unsilence_locked(id, who, batch);
  if (stopping_) return;
  submit_locked(std::move(batch), [silence = std::move(silence), done = std::move(done)] { done(silence); });
}

v1::Silence AlertBook::stage_silence(const v1::CreateSilenceRequest& request, engine::CommitBatch& batch,
                                     std::uint32_t& alerts) {
  std::lock_guard lock(mutex_);
  return silence_locked(request, batch, alerts);
}

v1::Silence AlertBook::stage_unsilence(const std::string& id, const std::string& who, engine::CommitBatch& batch) {
  std::lock_guard lock(mutex_);
  return unsilence_locked(id, who, batch);
}

v1::Silence AlertBook::silence_locked(const v1::CreateSilenceRequest& request, engine::CommitBatch& batch,
                                      std::uint32_t& alerts) {
  const Now at = now();
  v1::Silence silence = Silences::checked(request, at.wall);
  if (silences_.full(at.wall)) {
    throw std::length_error(fmt::format("{} silences have not ended, which is the limit: end some", Silences::kMax));
  }
  std::random_device random;
  silence.set_id(fmt::format("{:08x}{:08x}", random(), random()));
  silences_.put(silence, at.wall);
  settle_all_at_ = 0;
  for (const auto& [uid, run] : runs_) {
    for (const auto& [id, entry] : run) alerts += silences_.takes(silence.id(), entry.alert) ? 1 : 0;
  }
  batch.silences.push_back(Silences::row(silence));
  return silence;
}

v1::Silence AlertBook::unsilence_locked(const std::string& id, const std::string& who, engine::CommitBatch& batch) {
  const Now at = now();
  const v1::Silence* found = silences_.find(id);
  if (found == nullptr) throw std::out_of_range(fmt::format("unknown silence '{}'; list silences for those that exist", id));
  if (found->ends_ms() <= at.wall) throw std::logic_error(fmt::format("silence '{}' has ended", id));
  v1::Silence silence = *found;
  silence.set_ends_ms(at.wall);
  silence.set_ended_by(who);
  silences_.put(silence, at.wall);
  settle_all_at_ = 0;
  batch.silences.push_back(Silences::row(silence));
  return silence;
}

void AlertBook::load_silences_again(std::int64_t now_ms) {
  if (reader_ == nullptr) return;
  try {
    for (const engine::SilenceRow& row : reader_->silences(now_ms - Silences::kKeptMs, Silences::kMaxLoaded)) {
      // What is known here may be newer than what is stored.
      const v1::Silence* known = silences_.find(row.id);
      silences_.load(known == nullptr ? row : Silences::row(v1::Silence(*known)), now_ms);
    }
  } catch (const engine::StoreError& error) {
    spdlog::warn("silences can't be read now; those that the clock had ended hold again after a restart: {}", error.what());
  }
}

std::vector<v1::Silence> AlertBook::silences(bool ended) {
  std::lock_guard lock(mutex_);
  return silences_.list(clock_.wall_ms(), ended);
}

}  // namespace scalewatch::alerting
