// The training loop of one rank.
#pragma once

#include "checkpoint.h"
#include "data.h"
#include "gang.h"
#include "options.h"

namespace digits {

class Trainer {
 public:
  // Makes this rank's pictures. `keeper` is given the state after each epoch; rank 0 alone saves
  // it.
  Trainer(const Options& options, Gang& gang, Keeper& keeper);

  // Resumes if it can, trains the epochs that are left, reports, and makes sure that all ranks
  // agree.
  [[nodiscard]] Result<void> run();

 private:
  struct Measured {
    double loss = 0;      // mean over the training set, while training
    double accuracy = 0;  // share of the test set
    double seconds = 0;
  };

  [[nodiscard]] Result<void> start();
  [[nodiscard]] Result<double> trainEpoch(int epoch);
  [[nodiscard]] Result<double> trainStep(std::size_t step);
  [[nodiscard]] Result<double> testAccuracy();
  [[nodiscard]] Result<void> finish(double accuracy);
  [[nodiscard]] Result<void> writeResult(double accuracy, std::uint64_t hash) const;
  [[nodiscard]] Result<void> failOnPurpose(int epoch) const;
  void report(int epoch, const Measured& measured) const;

  const Options& options_;
  Gang& gang_;
  Keeper& keeper_;
  Shard shard_;
  std::vector<Sample> tests_;
  TrainingState state_;
  std::vector<float> gradient_;  // and the loss as its last element, so that one all-reduce does
};

}  // namespace digits
