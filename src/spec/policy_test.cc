// Policies: what each field becomes, and that what is written is read again. (What is refused
// stands in testdata/policy.txt.)
#include "spec/policy.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "state/state.h"

namespace bole::spec {
namespace {

using model::Amounts;
using model::Preemption;

model::Policy parse(const std::string& text) {
  const auto parsed = parsePolicy({text, "policy.yaml"});
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message()) << "\n" << text;
  return parsed ? parsed->policy : model::Policy();
}

constexpr auto kWhole = R"(queues:
  default:
    weight: 1
  research:
    guaranteed: {gpus: 8, A100: 4, cpus: 64, memory: 512GiB}
    limit: {gpus: 16}
    weight: 3
    preemption: lower-priority
    per_user: {gpus: 4, running: 10}
    queues:
      nlp:
        guaranteed: {gpus: 2.5}
        weight: 1
      vision:
        weight: 2
patience: 10m
half_life: 7d
)";

TEST(Policy, EveryField) {
  const auto policy = parse(kWhole);
  ASSERT_EQ(policy.queues.size(), 4U);
  model::Queue research;
  research.id = QueueId(2);
  research.name = "research";
  research.guaranteed = {MilliGpu(8000), {{"A100", MilliGpu(4000)}}, MilliCpu(64'000), kGiB * 512};
  research.limit.gpus = MilliGpu(16'000);
  research.weight = 3;
  research.preemption = Preemption::kLowerPriority;
  research.perUser.gpus = MilliGpu(4000);
  research.perUserRunning = 10;
  EXPECT_EQ(policy.queues[0], model::Policy().queues[0]);
  EXPECT_EQ(policy.queues[1], research);
  EXPECT_EQ(policy.queues[2].parent, QueueId(2));
  EXPECT_EQ(policy.queues[2].guaranteed.gpus, MilliGpu(2500));
  EXPECT_EQ(policy.queues[3].id, QueueId(4));
  EXPECT_EQ(policy.queues[3].weight, 2);
  EXPECT_EQ(policy.patience, minutes(10));
  EXPECT_EQ(policy.halfLife, hours(7 * 24));
}

TEST(Policy, WhatIsNotSaidIsAsTheModelHasIt) {
  EXPECT_EQ(parse("queues: {}\n"), model::Policy());
  EXPECT_EQ(parse("queues:\n  default:\n"), model::Policy());
  EXPECT_EQ(parse("half_life: 7d\n"), model::Policy());
  const auto nested = parse("queues: {all: {queues: {night: {}, default: {weight: 2}}}}\n");
  ASSERT_EQ(nested.queues.size(), 3U);
  EXPECT_EQ(nested.queues[2].id, model::kDefaultQueue);
  EXPECT_EQ(nested.queues[2].parent, nested.queues[0].id);
}

TEST(Policy, KindsAreKnownByOneName) {
  EXPECT_EQ(parse("queues: {a: {limit: {h100: 1, RTX 3090: 2, A100: 3}}}\n"),
            parse("queues: {a: {limit: {A100: 3, H100: 1, rtx-3090: 2}}}\n"));
}

TEST(Policy, TheCanonicalTextStaysAsItIs) {
  EXPECT_EQ(writePolicy(parse(kWhole)), kWhole);
  EXPECT_EQ(writePolicy(model::Policy()),
            "queues:\n  default:\n    weight: 1\npatience: 10m\nhalf_life: 7d\n");
}

// Numbers that are given once are not those of a file; children are written below their parents
// wherever they stand.
TEST(Policy, NumbersAndTheOrderOfTheListDoNotShow) {
  auto policy = parse("queues: {a: {queues: {a1: {}}}, b: {queues: {b1: {}}}}\n");
  const auto text = writePolicy(policy);
  std::swap(policy.queues[2], policy.queues[3]);  // default, a, b, a1, b1
  policy.queues[1].id = policy.queues[3].parent = QueueId(77);
  EXPECT_EQ(writePolicy(policy), text);
}

TEST(Policy, NamesThatYamlWouldTakeForSomethingElse) {
  const auto* text = "queues: {'1e3': {}, 'true': {}, 'null': {}, '007': {limit: {'4090': 1}}}\n";
  const auto policy = parse(text);
  const auto written = writePolicy(policy);
  for (const auto* name : {"\"1e3\":", "\"true\":", "\"null\":", "\"007\":", "{\"4090\": 1}"})
    EXPECT_NE(written.find(name), std::string::npos) << name;
  EXPECT_EQ(parse(written), policy);
}

TEST(Policy, AThousandQueuesAreTheMost) {
  const auto textOf = [](int count) {
    std::string text = "queues:\n";
    for (int i = 0; i < count; ++i) text += "  q" + std::to_string(i) + ": {}\n";
    return text;
  };
  EXPECT_EQ(parse(textOf(999)).queues.size(), 1000U);
  EXPECT_EQ(parse(textOf(999) + "  default: {}\n").queues.size(), 1000U);
  const auto more = parsePolicy({textOf(1000), "policy.yaml"});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().message(),
            "policy.yaml:1001:3: too many queues: expected at most 1000, with `default`");
}

TEST(Policy, SizesAndTimesAreExact) {
  EXPECT_EQ(writeSize(Bytes(0)), "0");
  EXPECT_EQ(writeSize(kMiB * 1536), "1536MiB");
  EXPECT_EQ(writeSize(Bytes(1000)), "1000B");
  EXPECT_EQ(writeSize(kMaxQueueMemory), "8PiB");
  EXPECT_EQ(writeDuration(Duration(0)), "0s");
  EXPECT_EQ(writeDuration(minutes(90)), "1h30m");
  EXPECT_EQ(writeDuration(hours(24) + milliseconds(1)), "1d1ms");
  EXPECT_EQ(writeThousandths(2500), "2.5");
  EXPECT_EQ(writeThousandths(1), "0.001");
}

// ---- any policy

Amounts anyAmounts(bool guaranteed) {
  Amounts amounts;
  // Guarantees stay far below limits, their sums too.
  const auto number = [&](std::int64_t most) {
    return guaranteed ? *rc::gen::inRange<std::int64_t>(0, 100)
                      : *rc::gen::inRange<std::int64_t>(10'000, most + 1);
  };
  if (*rc::gen::arbitrary<bool>()) amounts.gpus = MilliGpu(number(kMaxQueueGpus.value));
  if (*rc::gen::arbitrary<bool>()) amounts.cpus = MilliCpu(number(kMaxQueueCpus.value));
  if (*rc::gen::arbitrary<bool>()) amounts.memory = Bytes(number(kMaxQueueMemory.value));
  for (const auto* kind : {"4090", "A100", "H100", "TITAN-V"}) {
    if (*rc::gen::inRange(0, 4) == 0)
      amounts.kinds.push_back({kind, MilliGpu(number(kMaxQueueGpus.value))});
  }
  return amounts;
}

// Parents first, children behind their parents, the default one somewhere.
model::Policy anyPolicy() {
  model::Policy policy;
  policy.queues.clear();
  const auto count = *rc::gen::inRange(1, 30);
  const auto fallback = *rc::gen::inRange(0, count);
  std::vector<QueueId> above;  // of the last one, itself included
  std::uint64_t last = model::kDefaultQueue.value;
  for (int i = 0; i < count; ++i) {
    model::Queue queue;
    const bool isDefault = i == fallback;
    queue.id = isDefault ? model::kDefaultQueue : QueueId(++last);
    queue.name = isDefault ? "default"
                           : *rc::gen::elementOf(std::vector<std::string>{"a", "no", "12", "nlp"}) +
                                 "-" + std::to_string(i);
    above.resize(static_cast<std::size_t>(
        *rc::gen::inRange<int>(0, static_cast<int>(std::min<std::size_t>(above.size(), 7)) + 1)));
    if (!above.empty() && above.back() == model::kDefaultQueue) above.pop_back();
    if (!above.empty()) queue.parent = above.back();
    above.push_back(queue.id);
    queue.guaranteed = anyAmounts(true);
    queue.limit = anyAmounts(false);
    queue.perUser = anyAmounts(*rc::gen::arbitrary<bool>());
    queue.weight = *rc::gen::inRange(1, 1'000'001);
    if (*rc::gen::arbitrary<bool>()) queue.preemption = Preemption::kLowerPriority;
    if (*rc::gen::arbitrary<bool>())
      queue.perUserRunning = *rc::gen::inRange<std::uint32_t>(0, kMaxQueueRunning + 1);
    policy.queues.push_back(std::move(queue));
  }
  policy.patience = milliseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000));
  policy.halfLife = milliseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000));
  return policy;
}

TEST(Policy, WhatIsWrittenIsReadAgain) {
  EXPECT_TRUE(rc::check([] {
    const auto policy = anyPolicy();
    const auto sound = state::checkPolicy(policy);
    RC_ASSERT(sound.has_value());
    const auto text = writePolicy(policy);
    const auto again = parsePolicy({text, "policy.yaml"});
    if (!again) RC_FAIL(again.error().message() + "\n" + text);
    RC_ASSERT(again->policy == policy);
    RC_ASSERT(writePolicy(again->policy) == text);
  }));
}

}  // namespace
}  // namespace bole::spec
