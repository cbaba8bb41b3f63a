#include "engine/local/local_engine.h"

#include <unistd.h>

#include <cerrno>

#include "engine/local/engine_core.h"
#include "engine/local/launch_builder.h"
#include "engine/local/log_retention.h"

namespace bole::engine {

LocalEngine::LocalEngine(LocalEngineOptions options, Clock& clock, Rng& rng)
    : core_(std::make_unique<Core>(std::move(options), clock, rng)) {}

LocalEngine::~LocalEngine() = default;

void LocalEngine::open(std::function<void(ports::EngineReport)> report) {
  core_->open(std::move(report));
}

void LocalEngine::start(ports::AttemptOrder order) {
  adopt(std::move(order));
}

// The same as a start: what was started is watched, what was not is started.
void LocalEngine::adopt(ports::AttemptOrder order) {
  core_->post(
      [core = core_.get(), order = std::move(order)]() mutable { core->admit(std::move(order)); });
}

void LocalEngine::stop(AttemptId attempt, model::StopReason reason, Duration grace) {
  core_->post([core = core_.get(), attempt, reason, grace] { core->stop(attempt, reason, grace); });
}

void LocalEngine::forget(AttemptId attempt) {
  core_->post([core = core_.get(), attempt] { core->forget(attempt); });
}

ports::NumbersInUse LocalEngine::numbersInUse() const {
  return {AttemptId(highestNumberIn(core_->layout.attempts())),
          JobId(highestNumberIn(core_->layout.work()))};
}

Result<void> LocalEngine::check() const {
  return core_->check();
}

void LocalEngine::sweep() {
  core_->post([core = core_.get()] { core->sweep(); });
}

std::optional<model::ProgressView> LocalEngine::progress(AttemptId attempt) const {
  return core_->progress(attempt);
}

const Layout& LocalEngine::layout() const {
  return core_->layout;
}

std::vector<std::string> LocalEngine::notes() const {
  return core_->notes();
}

std::string LocalEngine::sandbox() const {
  return core_->sandbox();
}

namespace {

bool runsPlain(const model::JobShape& shape, const LocalEngineOptions& options) {
  return shape.runtime == model::Runtime::kPlain ||
         (options.plain && shape.runtime == model::Runtime::kProcess);
}

}  // namespace

std::string LocalEngine::workDirectory(JobId job, const model::JobSpec& spec) const {
  const bool plain = runsPlain(spec.shape, core_->options) && !spec.text.workingDir.empty();
  return plain ? spec.text.workingDir : core_->layout.work(job);
}

std::string LocalEngine::checkpointDirectory(JobId job, const model::JobSpec& spec) const {
  auto shape = spec.shape;
  if (runsPlain(shape, core_->options)) shape.runtime = model::Runtime::kPlain;
  return engine::checkpointDirectory(shape, spec.text, core_->layout.work(job));
}

}  // namespace bole::engine
