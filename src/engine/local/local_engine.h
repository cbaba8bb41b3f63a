// The engine of one machine: runs attempts through bole-supervise and tells what becomes of them.
//
// It keeps docs/design/process-protocol.md from the server's side. One thread of its own watches
// the attempts' directories and their supervisors; callers only leave a message for it and never
// wait, not even on the disk. All that it knows lies in the attempts' directories: a new engine,
// given the same orders, goes on where the last one was, whenever that died. Supervisors and ranks
// outlive it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/local/layout.h"
#include "engine/local/log_retention.h"
#include "engine/local/upload_archive.h"
#include "model/views.h"
#include "ports/engine.h"

namespace bole::engine {

struct LocalEngineOptions {
  std::string home;      // absolute, and the server's alone; uploads lie in HOME/uploads
  std::string programs;  // the directory of bole-supervise
  std::string bootId;    // of the machine's kernel, for messages
  // No sandbox: jobs without an image run as the server's own user, as Runtime::kPlain. Otherwise
  // an order for kPlain is refused: it would give whoever submits a job the server's own rights.
  bool plain = false;
  std::uint32_t baseUid =
      200'000;  // ranks run as this + the project's id, where the server is root
  std::vector<std::string> maskPaths;       // hidden from ranks besides the home
  std::vector<std::string> environment = {  // the supervisor's, and so what podman and bwrap see
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"};
  UploadLimits uploadLimits;
  Bytes logBytes = kMiB * 64;  // a rank's log file is rotated at this size,
  std::uint32_t logFiles = 4;  // and so many are kept
  RetentionLimits keepLogs;    // of ended attempts
};

class LocalEngine final : public ports::Engine {
 public:
  // `clock` and `rng` outlive it and are used from its threads.
  LocalEngine(LocalEngineOptions options, Clock& clock, Rng& rng);
  // Ends its threads; attempts go on. No report is made after it.
  ~LocalEngine() override;
  LocalEngine(const LocalEngine&) = delete;
  LocalEngine& operator=(const LocalEngine&) = delete;

  void open(std::function<void(ports::EngineReport)> report) override;
  void start(ports::AttemptOrder order) override;
  void stop(AttemptId attempt, model::StopReason reason, Duration grace) override;
  void adopt(ports::AttemptOrder order) override;
  [[nodiscard]] ports::NumbersInUse numbersInUse() const override;
  void forget(AttemptId attempt) override;

  // To be called once every live attempt was handed over after a restart: attempts on the disk that
  // nobody asked for (their end was told, but the server died before it could forget them; a ledger
  // was restored from a backup) are stopped where they run, and reported as finished, so that they
  // are forgotten.
  void sweep();

  // Before open(): an error if it could not run anything here, for example because bole-supervise
  // is not where it was said to be.
  [[nodiscard]] Result<void> check() const;

  // Reads of what is in memory; from any thread, never block.
  [[nodiscard]] std::optional<model::ProgressView> progress(AttemptId attempt) const;
  [[nodiscard]] const Layout& layout() const;
  // What this machine cannot do, or does otherwise than expected; plain lines for people.
  [[nodiscard]] std::vector<std::string> notes() const;
  // Around jobs without an image: "bubblewrap", "plain", or "none" where bubblewrap is missing.
  [[nodiscard]] std::string sandbox() const;

  // Where a job runs and keeps its checkpoints, for people.
  [[nodiscard]] std::string workDirectory(JobId job, const model::JobSpec& spec) const;
  [[nodiscard]] std::string checkpointDirectory(JobId job, const model::JobSpec& spec) const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace bole::engine
