#include "server/domain/collection.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "server/domain/archive.h"

namespace scalewatch::domain {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31U);
}

using Leaders = std::map<std::pair<Role, RoleKey>, Rank>;

constexpr std::array kFlow{Role::kGradient, Role::kActivation, Role::kActivationGradient};
// Optimizer state too: that a tensor is finite again shows in full records only.
constexpr std::array kState{Role::kParameter, Role::kBuffer, Role::kOptimizerState};

Leaders leaders_of(const std::vector<CollectionRank>& ranks) {
  Leaders leaders;
  for (const CollectionRank& each : ranks) {
    for (std::size_t role = 0; role < each.key.roles.size(); ++role) {
      const RoleKey& key = each.key.roles[role];
      if (key.tensors > 0) leaders.try_emplace({static_cast<Role>(role), key}, each.rank);  // ranks rise
    }
  }
  return leaders;
}

const CollectionRank* find_rank(const std::vector<CollectionRank>& ranks, Rank rank) {
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank,
                                   [](const CollectionRank& each, Rank wanted) { return each.rank < wanted; });
  return at != ranks.end() && at->rank == rank ? &*at : nullptr;
}

// Of these roles, those that the rank leaves to another.
std::vector<Role> followed(const CollectionRank& rank, const std::array<Role, 3>& roles, const Leaders& leaders) {
  std::vector<Role> out;
  for (const Role role : roles) {
    const auto leader = leaders.find({role, rank.key.of(role)});
    if (leader != leaders.end() && leader->second != rank.rank) out.push_back(role);
  }
  return out;
}

void ask_followers(const std::vector<CollectionRank>& ranks, const Leaders& leaders, const CollectionOptions& options,
                   CollectionPlan& plan) {
  const auto ask = [&](const CollectionRank& rank, const char* id, const std::array<Role, 3>& roles,
                       std::uint32_t report_every) {
    CollectionRequest request;
    request.id = id;
    request.roles = followed(rank, roles, leaders);
    request.report_every = report_every;
    if (!request.roles.empty()) plan[rank.rank].push_back(std::move(request));  // no role would mean all
  };
  for (const CollectionRank& each : ranks) {
    ask(each, "leader", kFlow, CollectionRequest::kNonFiniteOnly);
    ask(each, "leader-state", kState, options.state_every);
  }
}

// A finding to look at closely, or several that blame the same.
struct Subject {
  const Blame* blame = nullptr;
  const Finding* oldest = nullptr;  // gives the id
  std::vector<Rank> ranks;          // that the blame names
  Attempt until = 0;
};

bool same(const Blame& a, const Blame& b) {
  return std::tie(a.tensor, a.role, a.rank_of_origin) == std::tie(b.tensor, b.role, b.rank_of_origin);
}

// The end moves in steps, so that a finding that goes on is not asked about anew at each attempt.
Attempt end_of(const Finding& finding, const CollectionOptions& options) {
  const Attempt step = std::max<Attempt>(1, options.microscope_attempts / 4);
  return (finding.last_attempt + options.microscope_attempts + step - 1) / step * step;
}

std::vector<Subject> subjects_of(const std::vector<Finding>& open, Attempt newest, const CollectionOptions& options) {
  std::vector<Subject> subjects;
  for (const Finding& finding : open) {
    if (finding.severity < Severity::kWarning || !finding.blame || finding.blame->tensor.empty()) continue;
    const Attempt until = end_of(finding, options);
    if (newest > until) continue;
    const auto known = std::find_if(subjects.begin(), subjects.end(),
                                    [&](const Subject& subject) { return same(*subject.blame, *finding.blame); });
    if (known != subjects.end()) {
      known->until = std::max(known->until, until);
      const auto age = [](const Finding& f) { return std::tie(f.first_time, f.id); };
      if (age(finding) < age(*known->oldest)) known->oldest = &finding;
      continue;
    }
    if (subjects.size() >= options.microscope_findings) continue;
    const Blame& blame = *finding.blame;
    subjects.push_back(
        {&blame, &finding, blame.rank_of_origin ? std::vector<Rank>{*blame.rank_of_origin} : blame.ranks, until});
  }
  return subjects;
}

// Names around the blamed tensor, nearest first; empty when the table does not have it.
std::vector<std::string> neighbourhood(const TensorTable& table, const Blame& blame, const CollectionOptions& options) {
  const auto blamed = std::find_if(
      table.begin(), table.end(), [&](const TensorInfo& info) { return info.name == blame.tensor && info.role == blame.role; });
  if (blamed == table.end()) return {};
  const auto distance = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; };
  std::vector<std::tuple<std::uint64_t, std::uint64_t, const std::string*>> near;  // places, ids
  const auto at = static_cast<std::uint64_t>(blamed - table.begin());
  for (std::uint64_t id = 0; id < table.size(); ++id) {
    const std::uint64_t places = distance(table[id].forward_index, blamed->forward_index);
    if (places <= options.microscope_reach) near.emplace_back(places, distance(id, at), &table[id].name);
  }
  // Names repeat over roles and shards, by a few.
  const std::size_t most = std::min<std::size_t>(near.size(), std::size_t{options.microscope_tensors} * 16);
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(most), near.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < most && names.size() < options.microscope_tensors; ++i) {
    const std::string& name = *std::get<2>(near[i]);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

class Microscope {
 public:
  Microscope(const std::vector<CollectionRank>& ranks, const Leaders& leaders, const CollectionOptions& options,
             CollectionPlan& plan)
      : ranks_(ranks), leaders_(leaders), options_(options), plan_(plan) {}

  void look_at(const Subject& subject) {
    const Role role = subject.blame->role;
    std::map<RoleKey, std::vector<std::string>> names;  // by group, as ids may differ but names do not
    std::set<Rank> asked;
    for (const CollectionRank* rank : named(subject)) {
      const RoleKey& key = rank->key.of(role);
      const auto [entry, fresh] = names.try_emplace(key);
      if (fresh) entry->second = within_budget(neighbourhood(*rank->table, *subject.blame, options_));
      if (entry->second.empty()) continue;
      asked.insert(rank->rank);
      asked.insert(leaders_.at({role, key}));
    }
    for (const Rank rank : asked) {
      CollectionRequest request;
      request.id = "microscope/" + subject.oldest->id;
      request.tensors = names.at(find_rank(ranks_, rank)->key.of(role));
      request.every = 1;
      request.send_ring = true;
      request.until = subject.until;
      plan_[rank].push_back(std::move(request));
    }
  }

 private:
  // Ranks to ask, less their leaders. A blame that names none that is here is looked at on every leader.
  std::vector<const CollectionRank*> named(const Subject& subject) const {
    std::vector<const CollectionRank*> out;
    const auto add = [&](Rank rank) {
      const CollectionRank* each = find_rank(ranks_, rank);
      const bool holds = each != nullptr && each->key.of(subject.blame->role).tensors > 0;
      if (holds && out.size() < options_.microscope_ranks) out.push_back(each);
    };
    for (const Rank rank : subject.ranks) add(rank);
    if (!out.empty()) return out;
    for (const auto& [key, leader] : leaders_) {
      if (key.first == subject.blame->role) add(leader);
    }
    return out;
  }

  std::vector<std::string> within_budget(std::vector<std::string> names) {
    std::erase_if(names, [&](const std::string& name) {
      if (budget_.contains(name)) return false;
      if (budget_.size() >= options_.microscope_tensors) return true;
      budget_.insert(name);
      return false;
    });
    return names;
  }

  const std::vector<CollectionRank>& ranks_;
  const Leaders& leaders_;
  const CollectionOptions& options_;
  CollectionPlan& plan_;
  std::set<std::string> budget_;
};

}  // namespace

TableKey key_of(const TensorTable& table, TableKey known) {
  for (; known.size < table.size(); ++known.size) {
    const TensorInfo& info = table[known.size];
    RoleKey& key = known.roles[static_cast<std::size_t>(info.role) % known.roles.size()];
    ++key.tensors;
    key.sum += mixed(fnv1a(info.shard, mixed(fnv1a(info.name))));  // a sum does not mind the order
  }
  return known;
}

CollectionPlan plan_collection(const std::vector<CollectionRank>& ranks, const std::vector<Finding>& open, Attempt newest,
                               const CollectionOptions& options) {
  CollectionPlan plan;
  const Leaders leaders = leaders_of(ranks);
  if (options.stats_leader) ask_followers(ranks, leaders, options, plan);
  if (options.microscope) {
    Microscope microscope(ranks, leaders, options, plan);
    for (const Subject& subject : subjects_of(open, newest, options)) microscope.look_at(subject);
  }
  return plan;
}

}  // namespace scalewatch::domain
