// For the tests of this room: directories that go away, orders as the scheduler would give them,
// clock and chance.
#pragma once

#include <gtest/gtest.h>
#include <time.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "base/clock.h"
#include "ports/engine.h"

namespace bole::engine::testing {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "bole-engine-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = std::filesystem::canonical(name).string();
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline void writeText(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string readText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Real time: what is tested here are real processes.
class RealClock final : public Clock {
 public:
  Timestamp wall() override { return Timestamp{read(CLOCK_REALTIME)}; }
  Duration monotonic() override { return Duration(read(CLOCK_MONOTONIC)); }
  Duration boottime() override { return Duration(read(CLOCK_BOOTTIME)); }

 private:
  static std::int64_t read(clockid_t id) {
    timespec now{};
    ::clock_gettime(id, &now);
    return now.tv_sec * 1'000'000LL + now.tv_nsec / 1000;
  }
};

class CountingRng final : public Rng {
 public:
  explicit CountingRng(std::uint64_t seed) : next_(seed) {}
  void fill(void* bytes, std::size_t size) override {
    for (std::size_t i = 0; i < size; ++i) {
      next_ = next_ * 6364136223846793005ULL + 1442695040888963407ULL;
      static_cast<unsigned char*>(bytes)[i] = static_cast<unsigned char>(next_ >> 56);
    }
  }

 private:
  std::uint64_t next_;
};

inline std::shared_ptr<model::Node> nodeWithGpus(std::size_t count, bool emulated = false) {
  auto node = std::make_shared<model::Node>();
  node->name = "node-0";
  node->emulated = emulated;
  node->cpus = MilliCpu(64'000);
  node->memory = kGiB * 512;
  for (std::size_t i = 0; i < count; ++i) {
    model::Gpu gpu;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.model = "A100-SXM4-80GB";
    gpu.memory = kGiB * 80;
    gpu.minor = static_cast<std::uint32_t>(i);
    node->gpus.push_back(gpu);
  }
  return node;
}

// A gang of one task, `worker`, with `gpusEach` GPUs for each rank, dealt out in order.
inline ports::AttemptOrder gangOrder(std::uint64_t attempt, std::uint32_t ranks,
                                     std::vector<std::string> command, std::size_t gpusEach = 0) {
  auto shape = std::make_shared<model::JobShape>();
  auto text = std::make_shared<model::JobText>();
  model::TaskShape task;
  task.replicas = task.minAvailable = ranks;
  task.gpus.count = static_cast<std::uint32_t>(gpusEach);
  shape->tasks.push_back(task);
  shape->minAvailable = ranks;
  model::TaskText taskText;
  taskText.name = "worker";
  taskText.command = std::move(command);
  text->name = "digits";
  text->tasks.push_back(taskText);
  text->workingDir = "/home/alice/digits";

  ports::AttemptOrder order;
  order.attempt = AttemptId(attempt);
  order.job = JobId(3);
  order.project = ProjectId(2);
  const auto node = nodeWithGpus(ranks * gpusEach, true);
  for (std::uint32_t i = 0; i < ranks; ++i) {
    model::RankPlacement place;
    place.replica = i;
    place.node = NodeId(1);
    for (std::size_t g = 0; g < gpusEach; ++g) {
      place.gpus.push_back(static_cast<std::uint32_t>(i * gpusEach + g));
    }
    order.ranks.push_back(place);
    order.nodes.push_back(node);
  }
  order.shape = shape;
  order.text = text;
  return order;
}

// The order's halves for change: these tests made them.
inline model::JobShape& shapeOf(ports::AttemptOrder& order) {
  return const_cast<model::JobShape&>(*order.shape);
}
inline model::JobText& textOf(ports::AttemptOrder& order) {
  return const_cast<model::JobText&>(*order.text);
}

}  // namespace bole::engine::testing
