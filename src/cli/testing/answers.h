// Answers of a server, as a test wants them.
#pragma once

#include <string>

#include "codec/codec.h"
#include "model/views.h"

namespace bole::cli::testing {

inline constexpr Timestamp kSubmitted{1'789'999'000'000'000};

inline model::JobView digitsJob() {
  model::JobView job;
  job.id = JobId(7);
  job.name = "digits";
  job.project = "default";
  job.user = "alice";
  job.state = model::JobState::kRunning;
  job.ranks = 4;
  job.gpus = 4;
  job.emulated = true;
  job.submittedAt = kSubmitted;
  job.startedAt = kSubmitted + seconds(1);
  job.running = seconds(62);
  job.attempts = 1;
  return job;
}

inline model::ProgressView digitsProgress(std::uint64_t epoch) {
  model::ProgressView progress;
  progress.done = epoch;
  progress.total = 20;
  progress.unit = "epoch";
  progress.values = {{"loss", "0.3121"}, {"accuracy", "0.913"}};
  return progress;
}

inline model::JobDetail digitsDetail() {
  model::JobDetail detail;
  detail.summary = digitsJob();
  model::TaskShape shape;
  shape.replicas = 4;
  shape.gpus.count = 1;
  shape.cpus = MilliCpu(500);
  shape.memory = kMiB * 512;
  detail.spec.shape.tasks = {shape};
  model::TaskText text;
  text.name = "worker";
  text.command = {"/bin/sh", "-c", "./digits --epochs 20"};
  detail.spec.text.name = "digits";
  detail.spec.text.tasks = {text};
  model::AttemptView attempt;
  attempt.id = AttemptId(9);
  attempt.plannedAt = kSubmitted;
  attempt.startedAt = kSubmitted + seconds(1);
  attempt.logDirectory = "/srv/bole/attempts/9/log";
  for (std::uint32_t i = 0; i < 4; ++i) {
    model::RankView rank;
    rank.rank = i;
    rank.task = "worker";
    rank.replica = i;
    rank.node = "emu-a100-1";
    rank.gpus = {i};
    attempt.ranks.push_back(rank);
  }
  detail.attempts = {attempt};
  detail.gpuMilliseconds = 248'000;
  detail.workingDirectory = "/srv/bole/work/7";
  detail.checkpointDirectory = "/srv/bole/work/7/checkpoints";
  return detail;
}

inline model::JobDetail endedDetail(model::JobState state, std::int32_t exitCode) {
  auto detail = digitsDetail();
  auto& job = detail.summary;
  job.state = state;
  job.endedAt = kSubmitted + seconds(63);
  job.reason = state == model::JobState::kSucceeded ? "completed" : "rank 2 failed first: exit 3";
  auto& attempt = detail.attempts[0];
  attempt.endedAt = job.endedAt;
  attempt.outcome = state == model::JobState::kSucceeded ? "completed" : "failed";
  for (auto& rank : attempt.ranks) {
    const bool failed = exitCode != 0 && rank.rank == 2;
    rank.exit = model::ExitView{rank.rank, true, failed ? exitCode : 0, 0,
                                failed ? "exit " + std::to_string(exitCode) : "exit 0"};
  }
  if (exitCode != 0) {
    attempt.firstFailed = 2;
    detail.lastLines = {"Traceback (most recent call last):", "RuntimeError: \x1b[2Jboom"};
  }
  detail.checkpoint = model::CheckpointView{20, "/srv/bole/work/7/checkpoints/epoch-0020"};
  detail.exitCode = exitCode;
  return detail;
}

inline model::StatusView healthyStatus() {
  model::StatusView status;
  status.version = "0.1.0";
  status.home = "/srv/bole";
  status.pid = 4242;
  status.startedAt = kSubmitted;
  status.events = 123;
  status.queued = 2;
  status.running = 1;
  status.gpus = 8;
  status.gpusUsed = 4;
  status.emulated = true;
  status.sandbox = "bubblewrap";
  status.notes = {"no NVIDIA driver: the GPUs are emulated"};
  return status;
}

inline std::string errorBody(const Error& error, const std::vector<std::string>& missingEnv = {}) {
  model::ErrorView view;
  view.code = errorCodeName(error.code);
  view.message = error.message();
  view.what = error.what;
  view.where = error.where;
  view.found = error.found;
  view.expected = error.expected;
  view.hint = error.hint;
  view.missingEnv = missingEnv;
  return codec::toJson(view);
}

inline std::string eventText(const std::string& name, const std::string& data,
                             const std::string& id = {}) {
  return "event: " + name + "\n" + (id.empty() ? "" : "id: " + id + "\n") + "data: " + data +
         "\n\n";
}

inline std::string lineEvent(std::uint32_t rank, const std::string& text,
                             const std::string& id = {}) {
  model::LogLineView line;
  line.time = Timestamp{1'789'999'999'123'000};
  line.rank = rank;
  line.stream = "out";
  line.text = text;
  return eventText("line", codec::toJson(line), id);
}

}  // namespace bole::cli::testing
