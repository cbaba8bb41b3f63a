// The network: 256 pixels, one hidden layer of 64 rectified units, 10 classes; softmax and
// cross-entropy.
//
// Its parameters are one flat vector, so that a gradient is summed over the ranks in one
// all-reduce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data.h"

namespace digits {

inline constexpr std::size_t kHidden = 64;
// weights and biases of the first layer, then of the second
inline constexpr std::size_t kParameters =
    kPixels * kHidden + kHidden + kHidden * kClasses + kClasses;

// He's initialisation (He et al., 2015), uniform: deviation sqrt(2 / inputs).
[[nodiscard]] std::vector<float> initialWeights(std::uint64_t seed);

// Adds the gradient of one sample's loss to `gradient` (kParameters long) and returns the loss.
float addGradient(std::span<const float> weights, const Sample& sample, std::span<float> gradient);

// The class that the network believes in most.
[[nodiscard]] std::size_t classify(std::span<const float> weights, const Image& image);

// Stochastic gradient descent with momentum 0.9; `gradient` is the mean over the batch.
void descend(std::span<float> weights, std::span<float> velocity, std::span<const float> gradient,
             float learningRate);

}  // namespace digits
