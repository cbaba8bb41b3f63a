#include "scheduler/queues.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scheduler/match.h"

namespace bole::scheduler {
namespace {

// What is counted without looking at a kind.
Amount plain(const model::TaskShape& task) {
  Amount amount;
  amount.of[kGpuDimension] = std::int64_t{task.gpus.count} * task.gpus.share.value;
  amount.of[kCpuDimension] = task.cpus.value;
  amount.of[kMemoryDimension] = task.memory.value;
  return amount;
}

// What is held now counts so much beside the mean of the past, in which it is contained already:
// enough that many starts of one cycle are spread, and little enough that in the long run the means
// are brought to the weights.
constexpr double kNowBesidePast = 0.125;

bool within(std::int64_t used, std::int64_t more, std::int64_t most) {
  return more <= 0 || most == Queues::kEndless || used + more <= most;
}

}  // namespace

Queues::Queues(const model::Policy& policy, const std::vector<const model::Node*>& nodes,
               Timestamp now) {
  const auto name = [&](const model::Amounts& amounts) {
    for (const auto& kind : amounts.kinds) {
      if (std::find(kinds_.begin(), kinds_.end(), kind.kind) == kinds_.end() &&
          kFirstKind + kinds_.size() < kMostDimensions) {
        kinds_.push_back(kind.kind);
      }
    }
  };
  for (const auto& queue : policy.queues) {
    name(queue.guaranteed);
    name(queue.limit);
    name(queue.perUser);
  }
  for (const auto& booking : policy.bookings) name(booking.amounts);
  for (const auto* node : nodes) {
    if (node->health != model::GpuHealth::kHealthy) continue;
    capacity_.of[kCpuDimension] += node->cpus.value;
    capacity_.of[kMemoryDimension] += node->memory.value;
    for (const auto& gpu : node->gpus) {
      if (gpu.health != model::GpuHealth::kHealthy) continue;
      capacity_.of[kGpuDimension] += kWholeGpu.value;
      const auto kinds = kindsOf(gpu.model);
      for (std::size_t k = 0; k < kinds_.size(); ++k) {
        if ((kinds >> k) & 1) capacity_.of[kFirstKind + k] += kWholeGpu.value;
      }
    }
  }
  Node root;
  root.name = "the cloud";
  root.guaranteed = capacity_;
  root.limit.of.fill(kEndless);
  nodes_.push_back(std::move(root));
  for (const auto& queue : policy.queues) {
    Node node;
    node.id = queue.id;
    node.name = queue.name;
    node.parent = queue.parent.isSet() ? indexOf(queue.parent) : 0;
    node.depth = nodes_[node.parent].depth + 1;
    node.weight = std::max(queue.weight, 1);
    node.preemption = queue.preemption;
    node.usersCount = queue.perUserRunning || queue.perUser != model::Amounts();
    node.perUser = amountsIn(queue.perUser, kEndless);
    if (queue.perUserRunning) node.perUserRunning = *queue.perUserRunning;
    node.guaranteed = amountsIn(queue.guaranteed, kNone);
    node.limit = amountsIn(queue.limit, kEndless);
    nodes_[node.parent].children.push_back(nodes_.size());
    byId_[queue.id.value] = nodes_.size();
    nodes_.push_back(std::move(node));
  }
  addBookings(policy, now);
}

// Each level is the guarantees and what is booked at its moment.
void Queues::addBookings(const model::Policy& policy, Timestamp now) {
  std::set<Timestamp> times = {now};
  for (const auto& booking : policy.bookings)
    if (booking.from > now) times.insert(booking.from);
  for (const auto at : times) {
    Level level{at, {}, std::vector<Amount>(nodes_.size()), std::vector<Amount>(nodes_.size())};
    for (const auto& node : nodes_) level.guaranteed.push_back(node.guaranteed);
    for (const auto& booking : policy.bookings) {
      if (at < booking.from || at >= booking.to) continue;
      const auto booked = amountsIn(booking.amounts, kNone);
      auto& own = level.guaranteed[indexOf(booking.queue)];
      for (std::size_t d = 0; d < kMostDimensions; ++d)
        if (booked.of[d] != kNone) own.of[d] = std::max<std::int64_t>(own.of[d], 0) + booked.of[d];
    }
    settle(level);
    levels_.push_back(std::move(level));
  }
  for (std::size_t q = 0; q < nodes_.size(); ++q)
    nodes_[q].guaranteed = levels_.front().guaranteed[q];
}

void Queues::settle(Level& level) {
  sumGuarantees(level, 0);
  reduceGuarantees(level, 0);
  for (std::size_t q = nodes_.size(); q-- > 0;) {
    if (nodes_[q].children.empty()) commit(level, q);
  }
}

// A queue is guaranteed no less than its children together.
void Queues::sumGuarantees(Level& level, std::size_t queue) const {
  Amount sum;
  sum.of.fill(kNone);
  for (const auto child : nodes_[queue].children) {
    sumGuarantees(level, child);
    for (std::size_t d = 0; d < kMostDimensions; ++d) {
      const auto own = level.guaranteed[child].of[d];
      if (own != kNone) sum.of[d] = std::max<std::int64_t>(sum.of[d], 0) + own;
    }
  }
  if (queue == 0) return;
  auto& own = level.guaranteed[queue];
  for (std::size_t d = 0; d < kMostDimensions; ++d) own.of[d] = std::max(own.of[d], sum.of[d]);
}

void Queues::reduceGuarantees(Level& level, std::size_t parent) {
  auto& guaranteed = level.guaranteed;
  for (std::size_t d = 0; d < dimensions(); ++d) {
    std::int64_t sum = 0;
    for (const auto child : nodes_[parent].children)
      sum += std::max<std::int64_t>(guaranteed[child].of[d], 0);
    const auto most = guaranteed[parent].of[d];
    if (most == kNone || sum <= most || sum == 0) continue;
    for (const auto child : nodes_[parent].children) {
      auto& own = guaranteed[child].of[d];
      if (own > 0) own = static_cast<std::int64_t>(static_cast<__int128>(own) * most / sum);
    }
    if (parent == 0 && levels_.empty()) {
      warnings_.push_back(
          fmt::format("the guarantees of {} are reduced in proportion: {} are given, {} are there",
                      nameOf(d), sum, most));
    }
  }
  for (const auto child : nodes_[parent].children) reduceGuarantees(level, child);
}

std::size_t Queues::indexOf(QueueId id) const {
  if (const auto found = byId_.find(id.value); found != byId_.end()) return found->second;
  const auto fallback = byId_.find(model::kDefaultQueue.value);
  return fallback == byId_.end() ? 0 : fallback->second;
}

std::string Queues::nameOf(std::size_t dimension) const {
  switch (dimension) {
    case kGpuDimension:
      return "GPUs";
    case kCpuDimension:
      return "CPUs";
    case kMemoryDimension:
      return "memory";
    default:
      return kinds_[dimension - kFirstKind] + " GPUs";
  }
}

std::uint16_t Queues::kindsOf(const std::string& gpuModel) const {
  if (const auto known = kindsOfModel_.find(gpuModel); known != kindsOfModel_.end())
    return known->second;
  std::uint16_t kinds = 0;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    if (namesModel(kinds_[k], gpuModel)) kinds = static_cast<std::uint16_t>(kinds | (1U << k));
  }
  kindsOfModel_[gpuModel] = kinds;
  return kinds;
}

Amount Queues::amountsIn(const model::Amounts& amounts, std::int64_t absent) const {
  Amount out;
  out.of.fill(absent);
  if (amounts.gpus) out.of[kGpuDimension] = amounts.gpus->value;
  if (amounts.cpus) out.of[kCpuDimension] = amounts.cpus->value;
  if (amounts.memory) out.of[kMemoryDimension] = amounts.memory->value;
  for (const auto& kind : amounts.kinds) {
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      if (kinds_[k] == kind.kind) out.of[kFirstKind + k] = kind.gpus.value;
    }
  }
  return out;
}

Amount Queues::amountOf(const model::TaskShape& task) const {
  return plain(task);
}

Amount Queues::amountOf(const model::TaskShape& task, const model::Node& node,
                        const std::vector<std::uint32_t>& gpus) const {
  if (task.gpus.isWhole() && kinds_.empty()) return plain(task);
  model::RankPlacement rank;
  rank.gpus = gpus;
  if (!task.gpus.isWhole())
    for (const auto gpu : gpus) rank.grants.push_back(grantOf(task.gpus, node.gpus[gpu]));
  return amountOf(task, node, rank);
}

Amount Queues::amountOf(const model::TaskShape& task, const model::Node& node,
                        const model::RankPlacement& rank) const {
  auto amount = plain(task);
  amount.of[kGpuDimension] = 0;
  for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
    const auto share = rank.grant(i).share.value;
    amount.of[kGpuDimension] += share;
    if (kinds_.empty() || rank.gpus[i] >= node.gpus.size()) continue;
    const auto kinds = kindsOf(node.gpus[rank.gpus[i]].model);
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      if ((kinds >> k) & 1) amount.of[kFirstKind + k] += share;
    }
  }
  return amount;
}

void Queues::remember(std::size_t queue, const model::QueueUse& past) {
  remembers_ = true;
  for (auto q = queue;; q = nodes_[q].parent) {
    nodes_[q].past[kGpuDimension] += past.gpus;
    nodes_[q].past[kCpuDimension] += past.cpus;
    nodes_[q].past[kMemoryDimension] += past.memory;
    if (q == 0) return;
  }
}

void Queues::forget() {
  remembers_ = false;
  for (auto& node : nodes_) node.past.fill(0);
}

std::optional<Queues::Refusal> Queues::refusal(std::size_t queue, const Amount& more,
                                               Hold hold) const {
  for (auto q = queue; q != 0; q = nodes_[q].parent) {
    const auto& node = nodes_[q];
    for (std::size_t d = 0; d < dimensions(); ++d) {
      if (within(node.use.of[d], more.of[d], node.limit.of[d])) continue;
      return Refusal{q, d, more.of[d],
                     std::max<std::int64_t>(node.limit.of[d] - node.use.of[d], 0)};
    }
    if (!node.usersCount || !hold.user.isSet()) continue;
    const auto* own = useOf(q, hold.user);
    for (std::size_t d = 0; d < dimensions(); ++d) {
      const auto used = own ? own->use.of[d] : 0;
      if (within(used, more.of[d], node.perUser.of[d])) continue;
      return Refusal{q,     d,   more.of[d], std::max<std::int64_t>(node.perUser.of[d] - used, 0),
                     false, true};
    }
  }
  for (std::size_t l = 0; hold.firm && l < levels_.size(); ++l) {
    const bool reaches =
        l == 0 || hold.lasts.value == 0 || levels_[l].at < levels_.front().at + hold.lasts;
    if (!reaches) break;
    if (auto refused = borrowRefusal(queue, more, l)) return refused;
  }
  return std::nullopt;
}

// Firm holds may go beyond the guarantee only into what nobody is guaranteed.
std::optional<Queues::Refusal> Queues::borrowRefusal(std::size_t queue, const Amount& more,
                                                     std::size_t at) const {
  const auto& guaranteed = levels_[at].guaranteed;
  const auto& firm = levels_[at].firm;
  const auto& committed = levels_[at].committed;
  for (std::size_t d = 0; d < dimensions(); ++d) {
    if (more.of[d] <= 0) continue;
    auto before = committed[queue].of[d];
    auto after = std::max(guaranteed[queue].of[d], firm[queue].of[d] + more.of[d]);
    for (auto q = queue; q != 0; q = nodes_[q].parent) {
      const auto above = nodes_[q].parent;
      const auto sum = [&](std::int64_t own) {
        std::int64_t all = own;
        for (const auto child : nodes_[above].children)
          if (child != q) all += committed[child].of[d];
        return all;
      };
      after = above == 0 ? sum(after) : std::max(guaranteed[above].of[d], sum(after));
      before = above == 0 ? sum(before) : committed[above].of[d];
    }
    if (after <= before || after <= capacity_.of[d]) continue;
    const auto most = std::max(capacity_.of[d], before) - (after - more.of[d]);
    return Refusal{queue,
                   d,
                   more.of[d],
                   std::clamp<std::int64_t>(most, 0, more.of[d] - 1),
                   true,
                   false,
                   at == 0 ? Timestamp() : levels_[at].at};
  }
  return std::nullopt;
}

std::optional<std::size_t> Queues::fullFor(std::size_t queue, UserId user) const {
  for (auto q = queue; q != 0 && user.isSet(); q = nodes_[q].parent) {
    const auto* own = useOf(q, user);
    if (nodes_[q].usersCount && (own ? own->jobs : 0) >= nodes_[q].perUserRunning) return q;
  }
  return std::nullopt;
}

const Queues::UserUse* Queues::useOf(std::size_t queue, UserId user) const {
  const auto found = users_.find({queue, user});
  return found == users_.end() ? nullptr : &found->second;
}

void Queues::countUser(std::size_t queue, const Amount& amount, UserId user, std::int64_t jobs,
                       bool more) {
  for (auto q = queue; q != 0 && user.isSet(); q = nodes_[q].parent) {
    if (!nodes_[q].usersCount) continue;
    auto& own = users_[{q, user}];
    own.jobs += more ? jobs : -jobs;
    if (more)
      own.use += amount;
    else
      own.use -= amount;
  }
}

bool Queues::entitled(std::size_t queue, const Amount& more) const {
  const auto& node = nodes_[queue];
  bool gpus = false;
  bool other = false;
  for (std::size_t d = 0; d < dimensions(); ++d) {
    if (more.of[d] <= 0 || node.guaranteed.of[d] == kNone) continue;
    if (node.owned.of[d] + more.of[d] > node.guaranteed.of[d]) return false;
    (d == kGpuDimension || d >= kFirstKind ? gpus : other) = true;
  }
  return more.of[kGpuDimension] > 0 ? gpus : other;
}

bool Queues::canLose(std::size_t queue, const Amount& less) const {
  const auto& node = nodes_[queue];
  for (std::size_t d = 0; d < dimensions(); ++d) {
    if (less.of[d] <= 0 || node.guaranteed.of[d] == kNone) continue;
    if (node.owned.of[d] - less.of[d] < node.guaranteed.of[d]) return false;
  }
  return true;
}

std::pair<std::size_t, std::size_t> Queues::branches(std::size_t a, std::size_t b) const {
  while (nodes_[a].depth > nodes_[b].depth && nodes_[a].parent != b) a = nodes_[a].parent;
  while (nodes_[b].depth > nodes_[a].depth && nodes_[b].parent != a) b = nodes_[b].parent;
  if (nodes_[a].depth != nodes_[b].depth) return {a, a};  // one lies above the other
  while (a != b && nodes_[a].parent != nodes_[b].parent) {
    a = nodes_[a].parent;
    b = nodes_[b].parent;
  }
  return {a, b};
}

// From the leaf up: what the queue holds for itself, whatever the others want: the guarantee, or
// more where firm holds go beyond it.
void Queues::commit(Level& level, std::size_t queue) const {
  for (auto q = queue;; q = nodes_[q].parent) {
    const auto& children = nodes_[q].children;
    for (std::size_t d = 0; d < dimensions(); ++d) {
      std::int64_t held = level.firm[q].of[d];
      if (!children.empty()) {
        held = 0;
        for (const auto child : children) held += level.committed[child].of[d];
      }
      level.committed[q].of[d] =
          q == 0 ? held : std::max({level.guaranteed[q].of[d], held, std::int64_t{0}});
    }
    if (q == 0) return;
  }
}

void Queues::countFirm(std::size_t queue, const Amount& amount, Duration lasts, bool more) {
  for (auto& level : levels_) {
    const auto now = levels_.front().at;
    if (level.at > now && lasts.value > 0 && level.at >= now + lasts) return;
    for (auto q = queue;; q = nodes_[q].parent) {
      if (more)
        level.firm[q] += amount;
      else
        level.firm[q] -= amount;
      if (q == 0) break;
    }
    commit(level, queue);
  }
}

void Queues::add(std::size_t queue, const Amount& amount, Hold hold, std::int64_t jobs) {
  countUser(queue, amount, hold.user, jobs, true);
  for (auto q = queue;; q = nodes_[q].parent) {
    nodes_[q].use += amount;
    if (!hold.spot) nodes_[q].owned += amount;
    if (q == 0) break;
  }
  if (hold.firm) countFirm(queue, amount, hold.lasts, true);
}

void Queues::remove(std::size_t queue, const Amount& amount, Hold hold, std::int64_t jobs) {
  countUser(queue, amount, hold.user, jobs, false);
  for (auto q = queue;; q = nodes_[q].parent) {
    nodes_[q].use -= amount;
    if (!hold.spot) nodes_[q].owned -= amount;
    if (q == 0) break;
  }
  if (hold.firm) countFirm(queue, amount, hold.lasts, false);
}

double Queues::shareOf(std::size_t queue) const {
  double most = 0;
  for (std::size_t d = 0; d < dimensions(); ++d) {
    if (capacity_.of[d] <= 0) continue;
    auto used = static_cast<double>(nodes_[queue].use.of[d]);
    // The past of kinds is not kept: they count with what is held now alone.
    if (remembers_) used = used * kNowBesidePast + (d < kFirstKind ? nodes_[queue].past[d] : 0);
    most = std::max(most, used / static_cast<double>(capacity_.of[d]));
  }
  return most / nodes_[queue].weight;
}

double Queues::guaranteeUsed(std::size_t queue) const {
  double most = -1;
  for (std::size_t d = 0; d < dimensions(); ++d) {
    const auto own = nodes_[queue].guaranteed.of[d];
    if (own == kNone) continue;
    const auto used = static_cast<double>(nodes_[queue].owned.of[d]);
    most = std::max(most, own == 0 ? (used > 0 ? 2.0 : 1.0) : used / static_cast<double>(own));
  }
  return most < 0 ? 1 : most;
}

}  // namespace bole::scheduler
