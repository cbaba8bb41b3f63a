// From a snapshot to what people are shown: pure functions, no clock, no file.
//
// Everyone sees that a job is there, how large it is and how it fares. What it runs, with which
// values and what it prints is for its owner, whoever runs the server, and root: for others those
// fields are empty.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "controller/snapshot.h"
#include "model/views.h"
#include "server/http.h"
#include "server/server.h"

namespace bole::server {

// A snapshot, the moment it is looked at and by whom. References: lives no longer than what it was
// made from.
struct Scene {
  const controller::Snapshot& snapshot;
  const ServerOptions& options;  // for what stands beside the state: progress, directories, facts
  Caller caller;
  Timestamp now;              // ledger time
  bool emulatedGpus = false;  // every GPU of the cloud is emulated
};

// `wall` is what the clock says; ledger time is never before the last event.
[[nodiscard]] Scene makeScene(const controller::Snapshot& snapshot, const ServerOptions& options,
                              Caller caller, Timestamp wall);

// May the caller stop it, read its logs, see what it runs?
[[nodiscard]] bool mayManage(const Scene& scene, const model::JobRecord& job);

[[nodiscard]] model::JobView jobView(const Scene& scene, const model::JobRecord& job);

// Without lastLines, which stand in the logs.
[[nodiscard]] model::JobDetail jobDetail(const Scene& scene, const model::JobRecord& job);

// When the job, which waits, is expected to start; nothing: not known. Takes its time.
[[nodiscard]] std::optional<model::ExpectedView> expectedView(const Scene& scene,
                                                              const model::JobRecord& job);

// The same of jobs of a dry run.
void addExpected(const Scene& scene, model::SubmitAnswer& answer);

[[nodiscard]] std::optional<model::ProgressView> progressOf(const Scene& scene,
                                                            const model::JobRecord& job);

struct JobFilter {
  bool all = false;                     // those that have ended too
  std::vector<model::JobState> states;  // any of these, ended or not; empty: by `all`
  std::optional<std::string> user;
  std::optional<std::string> project;
  std::optional<std::string> name;
  std::size_t limit = SIZE_MAX;
};
[[nodiscard]] model::JobList jobList(const Scene& scene, const JobFilter& filter);

// The job of this number or name: of a name the caller's own before others', live ones before ended
// ones, then the newest. Null: there is none.
[[nodiscard]] const model::JobRecord* findJob(const Scene& scene, const std::string& reference);

// Does the reference mean all elements of the job's array: the array's name, and no number?
[[nodiscard]] bool namesWholeArray(const Scene& scene, const model::JobRecord& job,
                                   const std::string& reference);

// The attempts of a job that are in the tables, oldest first.
[[nodiscard]] std::vector<const model::AttemptRecord*> attemptsOf(const model::Tables& tables,
                                                                  const model::JobRecord& job);
[[nodiscard]] const model::AttemptRecord* attemptNumbered(const model::Tables& tables,
                                                          const model::JobRecord& job,
                                                          std::uint32_t number);

// What `bole run` exits with (docs/exit-codes.md); -1 while the job has not ended.
[[nodiscard]] std::int32_t exitCodeOf(const model::Tables& tables, const model::JobRecord& job);

[[nodiscard]] model::ExitView exitView(const model::RankExit& exit);

[[nodiscard]] model::StatusView statusView(const Scene& scene);
[[nodiscard]] model::NodeList nodeList(const Scene& scene);
[[nodiscard]] model::GpuList gpuList(const Scene& scene);
[[nodiscard]] model::TopologyView topologyView(const Scene& scene);

}  // namespace bole::server
