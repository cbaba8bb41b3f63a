#include "codec/codec.h"

#include <gtest/gtest.h>

namespace bole::codec {
namespace {

model::JobSpec rich() {
  model::JobSpec spec;
  model::TaskShape task;
  task.replicas = task.minAvailable = 3;
  task.gpus = {2, MilliGpu(500), kGiB * 10, {"A100", "H100"}, kGiB * 40, kGiB * 80, 80};
  task.nodeLabels = {{"zone", "a"}};
  task.memory = kGiB;
  spec.shape.after = {{JobId(3), model::DependencyKind::kAny}, {JobId(4), {}}};
  spec.shape.begin = Timestamp{77};
  spec.shape.delay = seconds(5);
  spec.shape.array = model::ArrayPlace{JobId(9), 4, 30, 2};
  spec.after = {{"ok", "prep"}};
  spec.array = {0, 10, 20, 30};
  spec.arrayMost = 2;
  spec.shape.tasks = {task};
  spec.shape.minAvailable = 3;
  spec.shape.restart = {model::RestartKind::kOnFailure, 4, seconds(1), seconds(9)};
  spec.shape.rules = {
      {0, model::PolicyEvent::kExitCode, 7, model::PolicyAction::kRestartJob, seconds(3)}};
  spec.text.name = "a \"quoted\" name\n\t\x01 \xe4\xbc\xaf\xe4\xb9\x90";
  model::TaskText text;
  text.name = "worker";
  text.command = {"/bin/sh", "-c", "echo \\ / \""};
  text.env = {{"A", "1"}, {"A", "2"}};
  text.ports = {{80, 8080, "127.0.0.1"}};
  text.mounts = {{"/data", "/d", true}};
  spec.text.tasks = {text};
  return spec;
}

TEST(Codec, ASpecSurvivesARoundTrip) {
  const auto spec = rich();
  const auto again = fromJson<model::JobSpec>(toJson(spec));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, spec);
}

model::Policy twoQueues() {
  model::Policy policy;
  model::Queue queue;
  queue.id = QueueId(2);
  queue.name = "night";
  queue.parent = model::kDefaultQueue;
  queue.guaranteed = {MilliGpu(8000), {{"A100", MilliGpu(4000)}}, MilliCpu(64000), kGiB * 512};
  queue.limit.gpus = MilliGpu(16000);
  queue.weight = 3;
  queue.preemption = model::Preemption::kLowerPriority;
  queue.perUser.gpus = MilliGpu(2000);
  queue.perUserRunning = 5;
  policy.queues.push_back(queue);
  policy.patience = minutes(3);
  policy.queues.back().windows = {{0x1F, 1200, 720}, {0x60, 0, 1440}};
  policy.bookings = {
      {"course", QueueId(2), {MilliGpu(8000), {}, {}, {}}, Timestamp{5}, Timestamp{9}}};
  policy.utcOffset = hours(8);
  return policy;
}

TEST(Codec, EveryKindOfEventSurvivesARoundTrip) {
  const std::vector<model::Event> events = {
      model::ServerStarted{"1.0", "boot"},
      model::ClockAdjusted{seconds(-3), seconds(0), seconds(2)},
      model::ProjectCreated{ProjectId(1), SideId(2)},
      model::UserSeen{UserId(3), SideId(4)},
      model::NodeRegistered{NodeId(1), {}},
      model::NodeLost{NodeId(1)},
      model::JobSubmitted{JobId(1), ProjectId(1), UserId(2), rich().shape, SideId(3)},
      model::AttemptPlanned{AttemptId(1), JobId(1), 2, {{0, 1, NodeId(1), {3, 4}}}},
      model::AttemptStarted{AttemptId(1)},
      model::StopRequested{JobId(1), model::StopReason::kPreempted, seconds(4), JobId(7)},
      model::AttemptEnded{AttemptId(1),
                          model::AttemptOutcome::kRankLost,
                          2,
                          {{2, false, 0}, {3, true, 137}},
                          SideId(9)},
      model::JobRequeued{JobId(1), Timestamp{5}, 6},
      model::JobEnded{JobId(1), model::JobState::kCancelled, model::StopReason::kCancelled},
      model::CheckpointRecorded{AttemptId(1), 5, kMiB, SideId(7)},
      model::JobForgotten{JobId(1)},
      model::PolicySet{twoQueues()},
      model::ReservationMade{JobId(1), {NodeId(2), NodeId(3)}},
      model::HealthSet{NodeId(1), 3, model::GpuHealth::kDown, Timestamp{7}, SideId(4)},
      model::NodeLabelled{NodeId(1), {{"zone", "a"}}},
  };
  static_assert(std::variant_size_v<model::Event> == 19,
                "a new kind of event belongs into this list");
  std::size_t index = 0;
  for (const auto& event : events) {
    EXPECT_EQ(event.index(), index++);
    const auto body = encodeBody(event);
    const auto again = decodeEvent(model::kindOf(event), 1, body);
    ASSERT_TRUE(again) << model::kindOf(event) << ": " << again.error().message();
    EXPECT_EQ(again->index(), event.index());
    EXPECT_EQ(encodeBody(*again), body);
  }
}

TEST(Codec, ANewerVersionIsRefusedWithWhatToDo) {
  const auto event = decodeEvent("job.forgotten", 2, "{}");
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(decodeEvent("job.teleported", 1, "{}"));
}

TEST(Codec, AnUnknownFieldIsRefusedWithAGuess) {
  const auto request = fromJson<model::SubmitRequest>(R"({"spec":"x","reqest_id":"1"})", "body");
  ASSERT_FALSE(request);
  EXPECT_NE(request.error().message().find("request_id"), std::string::npos)
      << request.error().message();
}

TEST(Codec, BrokenJsonNeverThrows) {
  for (const auto* text :
       {"", "{", "[]", "nul", "{\"spec\":1}", "{\"spec\":\"a\",\"spec\":\"b\"}",
        "{\"dry_run\":\"yes\"}", "\xff\xfe", "{\"env\":[[1,2]]}", "{\"spec\":null}"}) {
    EXPECT_FALSE(fromJson<model::SubmitRequest>(text)) << text;
  }
  EXPECT_FALSE(fromJson<model::SubmitRequest>(std::string(100'000, '[')));
}

TEST(Codec, NumbersKeepToTheirRange) {
  EXPECT_FALSE(decodeEvent("job.forgotten", 1, R"({"job":-1})"));
  EXPECT_FALSE(decodeEvent("job.forgotten", 1, R"({"job":1.5})"));
  EXPECT_FALSE(decodeEvent("job.forgotten", 1, R"({"job":99999999999999999999999})"));
}

}  // namespace
}  // namespace bole::codec
