#include "trainer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "hash.h"
#include "model.h"
#include "output.h"
#include "wire.h"

namespace digits {
namespace {

constexpr std::size_t kTestSamples = 2000;

using SteadyClock = std::chrono::steady_clock;

double secondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

}  // namespace

Trainer::Trainer(const Options& options, Gang& gang, Keeper& keeper)
    : options_(options),
      gang_(gang),
      keeper_(keeper),
      shard_(options.seed, options.samples, options.batch, gang.rank(), gang.size()),
      tests_(testShard(options.seed, kTestSamples, gang.rank(), gang.size())),
      gradient_(kParameters + 1) {}

Result<void> Trainer::run() {
  if (auto started = start(); !started) return started;
  double accuracy = -1;
  for (int epoch = state_.epoch + 1; epoch <= options_.epochs; ++epoch) {
    const auto begun = SteadyClock::now();
    if (auto fine = failOnPurpose(epoch); !fine) return fine;
    const auto loss = trainEpoch(epoch);
    if (!loss) return passOn(loss.error());
    const auto measured = testAccuracy();
    if (!measured) return passOn(measured.error());
    accuracy = *measured;
    state_.epoch = epoch;
    state_.loss = *loss;
    keeper_.keep(state_, false);
    report(epoch, {*loss, accuracy, secondsSince(begun)});
    const bool due = epoch % options_.checkpointEvery == 0 || epoch == options_.epochs;
    if (!due || gang_.rank() != 0) continue;
    if (auto saved = keeper_.save(); !saved) return saved;
  }
  return finish(accuracy);
}

// Rank 0 finds the state, the others get it from there: they need no common file system.
Result<void> Trainer::start() {
  printLine(
      format("rank %zu of %zu: %zu training pictures", gang_.rank(), gang_.size(), shard_.size()));
  state_ = {0, 0, initialWeights(options_.seed), std::vector<float>(kParameters)};
  if (gang_.rank() == 0 && !options_.checkpointDir.empty()) {
    auto found = newestCheckpoint(options_.checkpointDir, options_.seed);
    if (!found) return passOn(found.error());
    if (*found) state_ = std::move(**found);
  }
  float epoch = static_cast<float>(state_.epoch);  // exact: there are at most 10^6 epochs
  // The loss stays with rank 0, which alone reports it.
  for (const auto& values :
       {std::span(&epoch, 1), std::span(state_.weights), std::span(state_.velocity)}) {
    if (auto sent = gang_.broadcast(values); !sent) return sent;
  }
  state_.epoch = static_cast<int>(epoch);
  keeper_.keep(state_, true);
  if (gang_.rank() == 0 && state_.epoch > 0) {
    printLine(format("resumed from %s after epoch %d of %d", options_.checkpointDir.c_str(),
                     state_.epoch, options_.epochs));
  }
  return {};
}

Result<double> Trainer::trainEpoch(int epoch) {
  const auto begun = SteadyClock::now();
  const std::size_t steps = shard_.stepsPerEpoch();
  shard_.shuffle(static_cast<std::uint64_t>(epoch));
  double loss = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    const auto stepLoss = trainStep(step);
    if (!stepLoss) return stepLoss;
    loss += *stepLoss / static_cast<double>(steps);
    // The waiting is spread over the steps, so that a rank that dies meanwhile is noticed at once.
    const double share = static_cast<double>(step + 1) / static_cast<double>(steps);
    std::this_thread::sleep_until(
        begun + std::chrono::duration_cast<SteadyClock::duration>(
                    std::chrono::duration<double, std::milli>(options_.sleepMillis * share)));
  }
  if (!std::isfinite(loss)) {
    return failed(format(
        "the loss of epoch %d is not a number: training has diverged; try a smaller --lr (now %g)",
        epoch, static_cast<double>(options_.learningRate)));
  }
  return loss;
}

// One batch: every rank adds up over its part, all-reduce adds up over the ranks, everyone makes
// the same step.
Result<double> Trainer::trainStep(std::size_t step) {
  std::fill(gradient_.begin(), gradient_.end(), 0.0F);
  const std::span all(gradient_);
  const auto gradient = all.first(kParameters);
  for (const Sample* sample : shard_.batchPart(step)) {
    gradient_.back() += addGradient(state_.weights, *sample, gradient);
  }
  if (auto summed = gang_.sum(all); !summed) return passOn(summed.error());
  const float share = 1.0F / static_cast<float>(options_.batch);
  for (float& value : gradient_) value *= share;
  descend(state_.weights, state_.velocity, gradient, options_.learningRate);
  return gradient_.back();
}

Result<double> Trainer::testAccuracy() {
  float right = 0;
  for (const auto& test : tests_) {
    if (classify(state_.weights, test.image) == test.label) ++right;
  }
  if (auto summed = gang_.sum(std::span(&right, 1)); !summed) return passOn(summed.error());
  return static_cast<double>(right) / kTestSamples;
}

void Trainer::report(int epoch, const Measured& measured) const {
  if (gang_.rank() != 0) return;
  printLine(format("epoch %2d/%d  loss %.4f  test accuracy %.4f  %.2f s", epoch, options_.epochs,
                   measured.loss, measured.accuracy, measured.seconds));
  printLine(
      format("BOLE progress epoch=%d epochs=%d loss=%.4f accuracy=%.4f samples_per_second=%.0f",
             epoch, options_.epochs, measured.loss, measured.accuracy,
             static_cast<double>(options_.samples) / std::max(measured.seconds, 1e-6)));
}

Result<void> Trainer::finish(double accuracy) {
  const std::uint64_t hash = hashBytes(bytesOf(state_.weights));
  const auto same = gang_.isSameEverywhere(hash);
  if (!same) return passOn(same.error());
  if (!*same) {
    return failed(format(
        "the ranks ended with different weights (%016llx here): their gradients were not the same",
        static_cast<unsigned long long>(hash)));
  }
  if (accuracy < 0) {  // nothing was left to train
    const auto measured = testAccuracy();
    if (!measured) return passOn(measured.error());
    accuracy = *measured;
  }
  printLine(format(
      "rank %zu of %zu: done after epoch %d, test accuracy %.4f, weights %016llx on all ranks",
      gang_.rank(), gang_.size(), state_.epoch, accuracy, static_cast<unsigned long long>(hash)));
  return gang_.rank() == 0 && !options_.result.empty() ? writeResult(accuracy, hash)
                                                       : Result<void>();
}

// Complete or absent.
Result<void> Trainer::writeResult(double accuracy, std::uint64_t hash) const {
  const std::string temporary = options_.result + ".tmp";
  std::ofstream file(temporary);
  file << format("{\"epochs\": %d, \"loss\": %.9g, \"accuracy\": %.4f, \"weights\": \"%016llx\"}\n",
                 state_.epoch, state_.loss, accuracy, static_cast<unsigned long long>(hash));
  file.close();
  if (!file) return failed("--result: cannot write " + temporary + ": " + std::strerror(errno));
  std::error_code error;
  std::filesystem::rename(temporary, options_.result, error);
  if (error) return failed("--result: cannot write " + options_.result + ": " + error.message());
  return {};
}

Result<void> Trainer::failOnPurpose(int epoch) const {
  if (epoch != options_.failEpoch) return {};
  if (gang_.rank() != static_cast<std::size_t>(options_.failRank)) return {};
  if (!options_.failMarker.empty()) {
    const Fd marker(
        ::open(options_.failMarker.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!marker.isOpen() && errno == EEXIST) return {};  // it has failed once
    if (!marker.isOpen()) {
      return failed("--fail-marker: cannot make " + options_.failMarker + ": " +
                    std::strerror(errno));
    }
  }
  printErrorLine(format("rank %zu: fails in epoch %d with exit code %d, as --fail-epoch asks",
                        gang_.rank(), epoch, options_.failCode));
  ::_exit(options_.failCode);  // as a crash would end it: nothing is tidied up
}

}  // namespace digits
