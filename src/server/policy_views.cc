#include "server/policy_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codec/describe_model.h"
#include "scheduler/match.h"
#include "scheduler/window.h"
#include "scheduler/world.h"
#include "spec/policy.h"
#include "spec/when.h"

namespace bole::server {
namespace {

using scheduler::Amount;
using scheduler::Queues;

std::vector<const model::Node*> presentNodes(const model::Tables& tables) {
  std::vector<const model::Node*> nodes;
  tables.nodes.forEach([&](NodeId, const model::NodeRecord& record) {
    if (record.present) nodes.push_back(record.node.get());
    return true;
  });
  return nodes;
}

// What the scheduler counts, as people write it. `none`: what stands where nothing is named.
model::Amounts amountsOf(const Queues& queues, const Amount& amount, std::int64_t none) {
  model::Amounts out;
  const auto named = [&](std::size_t dimension) { return amount.of[dimension] != none; };
  if (named(scheduler::kGpuDimension)) out.gpus = MilliGpu(amount.of[scheduler::kGpuDimension]);
  if (named(scheduler::kCpuDimension)) out.cpus = MilliCpu(amount.of[scheduler::kCpuDimension]);
  if (named(scheduler::kMemoryDimension))
    out.memory = Bytes(amount.of[scheduler::kMemoryDimension]);
  constexpr std::string_view kSuffix = " GPUs";  // of the dimension's name
  for (std::size_t d = scheduler::kFirstKind; d < queues.dimensions(); ++d) {
    const auto name = queues.nameOf(d);
    if (named(d))
      out.kinds.push_back({name.substr(0, name.size() - kSuffix.size()), MilliGpu(amount.of[d])});
  }
  return out;
}

std::string countText(std::int64_t count, const std::string& dimension) {
  if (dimension == "memory") return formatBytes(Bytes(count)) + " of memory";
  return spec::writeThousandths(count) + " " +
         (count == 1000 ? dimension.substr(0, dimension.size() - 1) : dimension);
}

// How much of each the policy gives away below a queue: its own, or what those below it are
// guaranteed together.
std::int64_t promised(const Queues& queues, const model::Policy& policy, std::size_t queue,
                      std::size_t dimension) {
  std::int64_t below = 0;
  for (const auto child : queues.at(queue).children)
    below += promised(queues, policy, child, dimension);
  const auto* own = policy.find(queues.at(queue).id);
  if (!own) return below;
  const auto& guaranteed = own->guaranteed;
  std::int64_t count = 0;
  if (dimension == scheduler::kGpuDimension) count = guaranteed.gpus.value_or(MilliGpu()).value;
  if (dimension == scheduler::kCpuDimension) count = guaranteed.cpus.value_or(MilliCpu()).value;
  if (dimension == scheduler::kMemoryDimension) count = guaranteed.memory.value_or(Bytes()).value;
  for (const auto& kind : guaranteed.kinds) {
    if (dimension >= scheduler::kFirstKind && queues.nameOf(dimension) == kind.kind + " GPUs")
      count = kind.gpus.value;
  }
  return std::max(count, below);
}

void warnOfReduced(const Queues& queues, const model::Policy& policy,
                   std::vector<std::string>& out) {
  for (std::size_t d = 0; d < queues.dimensions(); ++d) {
    const auto given = promised(queues, policy, 0, d);
    const auto there = queues.capacity().of[d];
    if (given <= there) continue;
    out.push_back(fmt::format(
        "all queues together are guaranteed {}, and the cloud has {}: each guarantee counts in "
        "proportion",
        countText(given, queues.nameOf(d)),
        there == 0 ? "none" : countText(there, queues.nameOf(d))));
  }
}

void warnOfKinds(const std::vector<const model::Node*>& nodes, const model::Policy& policy,
                 std::vector<std::string>& out) {
  std::set<std::string> kinds;
  for (const auto& queue : policy.queues) {
    for (const auto* amounts : {&queue.guaranteed, &queue.limit, &queue.perUser})
      for (const auto& kind : amounts->kinds) kinds.insert(kind.kind);
  }
  for (const auto& booking : policy.bookings)
    for (const auto& kind : booking.amounts.kinds) kinds.insert(kind.kind);
  for (const auto& kind : kinds) {
    const bool here = std::any_of(nodes.begin(), nodes.end(), [&](const model::Node* node) {
      return std::any_of(node->gpus.begin(), node->gpus.end(), [&](const model::Gpu& gpu) {
        return scheduler::namesModel(kind, gpu.model);
      });
    });
    if (!here) out.push_back(fmt::format("no GPU of this cloud is one of the kind {}", kind));
  }
}

struct Jobs {
  std::uint64_t waiting = 0;
  std::uint64_t running = 0;
};

std::vector<Jobs> jobsOf(const Queues& queues, const model::Tables& tables) {
  std::vector<Jobs> counts(queues.size());
  tables.jobs.forEach([&](JobId, const model::JobRecord& job) {
    if (model::isTerminal(job.state)) return true;
    for (auto q = queues.indexOf(job.shape->queue); q != 0; q = queues.at(q).parent) {
      (job.state == model::JobState::kQueued ? counts[q].waiting : counts[q].running) += 1;
    }
    return true;
  });
  return counts;
}

class QueueTree {
 public:
  QueueTree(const model::Tables& tables, Timestamp now)
      : policy_(*tables.policy),
        time_(now),
        world_(tables, scheduler::Of::kNow, now),
        queues_(world_.queues()),
        jobs_(jobsOf(queues_, tables)) {}

  void appendBelow(std::size_t parent, std::vector<model::QueueView>& out) const {
    for (const auto child : queues_.at(parent).children) {
      out.push_back(viewOf(child));
      appendBelow(child, out);
    }
  }

 private:
  [[nodiscard]] model::QueueView viewOf(std::size_t index) const {
    const auto& node = queues_.at(index);
    model::QueueView view;
    view.name = node.name;
    if (node.parent != 0) view.parent = queues_.at(node.parent).name;
    view.depth = static_cast<std::uint32_t>(node.depth - 1);
    view.effective = amountsOf(queues_, node.guaranteed, Queues::kNone);
    view.used = amountsOf(queues_, node.use, INT64_MIN);
    view.waiting = jobs_[index].waiting;
    view.running = jobs_[index].running;
    const auto* queue = policy_.find(node.id);
    if (!queue) return view;
    view.opensAt = scheduler::opensAt(policy_, queue->id, time_);
    view.guaranteed = queue->guaranteed;
    view.limit = queue->limit;
    view.weight = queue->weight;
    view.preemption = queue->preemption;
    view.perUser = queue->perUser;
    view.perUserRunning = queue->perUserRunning;
    return view;
  }

  const model::Policy& policy_;
  Timestamp time_;
  scheduler::World world_;
  const Queues& queues_;
  std::vector<Jobs> jobs_;
};

// ---- changes

// "8 GPUs, 4 A100 GPUs, 64 CPUs, 512GiB of memory, 10 running jobs": exactly, so that two that
// differ look different.
std::string amountsText(const model::Amounts& amounts, const char* none,
                        const std::optional<std::uint32_t>& running = {}) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (amounts.gpus) add(countText(amounts.gpus->value, "GPUs"));
  for (const auto& kind : amounts.kinds) add(countText(kind.gpus.value, kind.kind + " GPUs"));
  if (amounts.cpus) add(countText(amounts.cpus->value, "CPUs"));
  if (amounts.memory) add(spec::writeSize(*amounts.memory) + " of memory");
  if (running) add(fmt::format("{} running job{}", *running, *running == 1 ? "" : "s"));
  return text.empty() ? none : text;
}

std::string placeText(const model::Policy& policy, const model::Queue& queue) {
  const auto* above = policy.find(queue.parent);
  return above ? "below " + above->name : std::string("at the top");
}

class Changes {
 public:
  Changes(const model::Policy& before, const model::Policy& now) : before_(before), now_(now) {}

  std::vector<std::string> take() {
    for (const auto& queue : now_.queues) {
      const auto* old = before_.find(queue.name);
      if (old)
        compare(*old, queue);
      else
        tellNew(queue);
    }
    for (const auto& queue : before_.queues) {
      if (!now_.find(queue.name)) out_.push_back(fmt::format("queue {} goes", queue.name));
    }
    if (out_.empty() && names(before_) != names(now_))
      out_.emplace_back("the queues stand in another order");
    tell("patience", spec::writeDuration(before_.patience), spec::writeDuration(now_.patience));
    tell("utc_offset", spec::writeOffset(before_.utcOffset), spec::writeOffset(now_.utcOffset));
    for (const auto& booking : now_.bookings) compare(bookingNamed(before_, booking.name), booking);
    for (const auto& booking : before_.bookings) {
      if (!bookingNamed(now_, booking.name))
        out_.push_back(fmt::format("booking {} goes", booking.name));
    }
    tell("half_life", spec::writeDuration(before_.halfLife), spec::writeDuration(now_.halfLife));
    return std::move(out_);
  }

 private:
  static std::vector<std::string> names(const model::Policy& policy) {
    std::vector<std::string> out;
    for (const auto& queue : policy.queues) out.push_back(queue.name);
    return out;
  }

  void tell(const std::string& what, const std::string& old, const std::string& now) {
    if (old != now) out_.push_back(fmt::format("{}: {}, until now {}", what, now, old));
  }

  void compare(const model::Queue& old, const model::Queue& now) {
    const auto field = [&](const char* name) {
      return fmt::format("queue {}: {}", now.name, name);
    };
    tell(field("place"), placeText(before_, old), placeText(now_, now));
    tell(field("guaranteed"), amountsText(old.guaranteed, "nothing"),
         amountsText(now.guaranteed, "nothing"));
    tell(field("limit"), amountsText(old.limit, "none"), amountsText(now.limit, "none"));
    tell(field("weight"), std::to_string(old.weight), std::to_string(now.weight));
    tell(field("preemption"), std::string(codec::enumName(old.preemption)),
         std::string(codec::enumName(now.preemption)));
    tell(field("windows"), windowsText(old), windowsText(now));
    tell(field("per user"), amountsText(old.perUser, "no limit", old.perUserRunning),
         amountsText(now.perUser, "no limit", now.perUserRunning));
  }

  static std::string windowsText(const model::Queue& queue) {
    std::string text;
    for (const auto& window : queue.windows)
      text += (text.empty() ? "" : "; ") + spec::writeWindow(window);
    return text.empty() ? "always" : text;
  }

  static const model::Booking* bookingNamed(const model::Policy& policy, const std::string& name) {
    for (const auto& booking : policy.bookings)
      if (booking.name == name) return &booking;
    return nullptr;
  }

  static std::string bookingText(const model::Policy& policy, const model::Booking& booking) {
    return fmt::format("{} for queue {}, {} to {}", amountsText(booking.amounts, "nothing"),
                       policy.find(booking.queue)->name, spec::writeTime(booking.from),
                       spec::writeTime(booking.to));
  }

  void compare(const model::Booking* old, const model::Booking& now) {
    if (old) {
      tell("booking " + now.name, bookingText(before_, *old), bookingText(now_, now));
    } else {
      out_.push_back(fmt::format("booking {} is new: {}", now.name, bookingText(now_, now)));
    }
  }

  void tellNew(const model::Queue& queue) {
    auto text = fmt::format("queue {} is new, {}: guaranteed {}, limit {}, weight {}", queue.name,
                            placeText(now_, queue), amountsText(queue.guaranteed, "nothing"),
                            amountsText(queue.limit, "none"), queue.weight);
    if (queue.preemption != model::Preemption::kNever)
      text += fmt::format(", preemption {}", codec::enumName(queue.preemption));
    if (queue.perUser != model::Amounts() || queue.perUserRunning)
      text += ", per user " + amountsText(queue.perUser, "", queue.perUserRunning);
    if (!queue.windows.empty()) text += ", starts jobs " + windowsText(queue);
    out_.push_back(std::move(text));
  }

  const model::Policy& before_;
  const model::Policy& now_;
  std::vector<std::string> out_;
};

}  // namespace

model::QueueList queueList(const model::Tables& tables, Timestamp now) {
  model::QueueList list;
  QueueTree(tables, now).appendBelow(0, list.queues);
  for (const auto* node : presentNodes(tables))
    list.emulated = list.emulated || (node->emulated && !node->gpus.empty());
  for (const auto& booking : tables.policy->bookings) {
    if (booking.to <= now) continue;
    list.bookings.push_back({booking.name, tables.policy->find(booking.queue)->name,
                             booking.amounts, booking.from, booking.to});
  }
  std::sort(list.bookings.begin(), list.bookings.end(),
            [](const auto& a, const auto& b) { return a.from < b.from; });
  list.warnings = policyWarnings(*tables.policy, tables);
  return list;
}

std::vector<std::string> policyWarnings(const model::Policy& policy, const model::Tables& tables) {
  const auto nodes = presentNodes(tables);
  std::vector<std::string> out;
  warnOfReduced(Queues(policy, nodes), policy, out);
  warnOfKinds(nodes, policy, out);
  return out;
}

std::vector<std::string> policyChanges(const model::Policy& before, const model::Policy& now) {
  return Changes(before, now).take();
}

}  // namespace bole::server
