#include "model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "random.h"

namespace digits {
namespace {

constexpr std::uint64_t kWeightStream = 1ULL << 56;
constexpr float kMomentum = 0.9F;

using Hidden = std::array<float, kHidden>;
using Scores = std::array<float, kClasses>;

// The same layout for weights and for gradients.
template <class Float>
struct Layers {
  Float* first;       // [pixel][hidden]: inner loops run over hidden units and vectorise
  Float* firstBias;   // [hidden]
  Float* second;      // [hidden][class]
  Float* secondBias;  // [class]
};

template <class Float>
Layers<Float> layersOf(std::span<Float> flat) {
  Float* first = flat.data();
  Float* firstBias = first + kPixels * kHidden;
  Float* second = firstBias + kHidden;
  return {first, firstBias, second, second + kHidden * kClasses};
}

Hidden hiddenOf(const Layers<const float>& layers, const Image& image) {
  Hidden hidden;
  std::copy_n(layers.firstBias, kHidden, hidden.begin());
  for (std::size_t i = 0; i < kPixels; ++i) {
    const float pixel = image[i];
    const float* row = layers.first + i * kHidden;
    for (std::size_t j = 0; j < kHidden; ++j) hidden[j] += pixel * row[j];
  }
  for (float& value : hidden) value = std::max(value, 0.0F);
  return hidden;
}

Scores scoresOf(const Layers<const float>& layers, const Hidden& hidden) {
  Scores scores;
  std::copy_n(layers.secondBias, kClasses, scores.begin());
  for (std::size_t j = 0; j < kHidden; ++j) {
    const float* row = layers.second + j * kClasses;
    for (std::size_t c = 0; c < kClasses; ++c) scores[c] += hidden[j] * row[c];
  }
  return scores;
}

// Makes `scores` the gradient of the loss by the scores; returns the loss.
float softmaxLoss(Scores& scores, std::size_t label) {
  const float highest = *std::max_element(scores.begin(), scores.end());
  const float own = scores[label] - highest;
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - highest);
  for (float& score : scores) score /= sum;
  scores[label] -= 1;
  return std::log(sum) - own;
}

}  // namespace

std::vector<float> initialWeights(std::uint64_t seed) {
  std::vector<float> weights(kParameters, 0.0F);
  const auto layers = layersOf(std::span(weights));
  Random random(seed, kWeightStream);
  const float firstRange = std::sqrt(6.0F / static_cast<float>(kPixels));
  const float secondRange = std::sqrt(6.0F / static_cast<float>(kHidden));
  for (float& w : std::span(layers.first, kPixels * kHidden)) {
    w = random.uniform(-firstRange, firstRange);
  }
  for (float& w : std::span(layers.second, kHidden * kClasses)) {
    w = random.uniform(-secondRange, secondRange);
  }
  return weights;
}

float addGradient(std::span<const float> weights, const Sample& sample, std::span<float> gradient) {
  const auto layers = layersOf(weights);
  const auto sums = layersOf(gradient);
  const Hidden hidden = hiddenOf(layers, sample.image);
  Scores delta = scoresOf(layers, hidden);
  const float loss = softmaxLoss(delta, sample.label);

  Hidden hiddenDelta;
  for (std::size_t c = 0; c < kClasses; ++c) sums.secondBias[c] += delta[c];
  for (std::size_t j = 0; j < kHidden; ++j) {
    float back = 0;
    for (std::size_t c = 0; c < kClasses; ++c) {
      sums.second[j * kClasses + c] += hidden[j] * delta[c];
      back += layers.second[j * kClasses + c] * delta[c];
    }
    hiddenDelta[j] = hidden[j] > 0 ? back : 0;
    sums.firstBias[j] += hiddenDelta[j];
  }
  for (std::size_t i = 0; i < kPixels; ++i) {
    const float pixel = sample.image[i];
    float* row = sums.first + i * kHidden;
    for (std::size_t j = 0; j < kHidden; ++j) row[j] += pixel * hiddenDelta[j];
  }
  return loss;
}

std::size_t classify(std::span<const float> weights, const Image& image) {
  const auto layers = layersOf(weights);
  const Scores scores = scoresOf(layers, hiddenOf(layers, image));
  const auto best = std::max_element(scores.begin(), scores.end());
  return static_cast<std::size_t>(best - scores.begin());
}

void descend(std::span<float> weights, std::span<float> velocity, std::span<const float> gradient,
             float learningRate) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    velocity[i] = kMomentum * velocity[i] - learningRate * gradient[i];
    weights[i] += velocity[i];
  }
}

}  // namespace digits
