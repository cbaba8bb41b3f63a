#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <thread>

#include "checkpoint.h"
#include "data.h"
#include "model.h"
#include "options.h"
#include "random.h"
#include "store_server.h"
#include "tcp_store.h"
#include "testing/gang_run.h"

namespace digits {
namespace {

using examples::TempDir;

const Environment kNothing = [](const char*) -> const char* { return nullptr; };

Environment environmentOf(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

Result<Options> parse(std::vector<std::string> arguments,
                      const Environment& environment = kNothing) {
  arguments.insert(arguments.begin(), "digits");
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return parseOptions(static_cast<int>(arguments.size()), pointers.data(), environment);
}

TEST(DigitsData, APictureDependsOnSeedAndNumberAlone) {
  EXPECT_EQ(renderSample(1, 7).image, renderSample(1, 7).image);
  EXPECT_NE(renderSample(1, 7).image, renderSample(1, 8).image);
  EXPECT_NE(renderSample(1, 7).image, renderSample(2, 7).image);
}

TEST(DigitsData, EveryDigitOccursAboutAsOften) {
  std::array<int, kClasses> counts{};
  for (std::uint64_t i = 0; i < 5000; ++i) ++counts[renderSample(3, i).label];
  for (const int count : counts) EXPECT_NEAR(count, 500, 100);
}

// The labels and first pixels of a batch, whoever holds its pictures.
std::multiset<std::pair<int, float>> batchOf(std::vector<Shard>& shards, std::size_t step) {
  std::multiset<std::pair<int, float>> batch;
  for (auto& shard : shards) {
    for (const auto* sample : shard.batchPart(step)) batch.emplace(sample->label, sample->image[0]);
  }
  return batch;
}

TEST(DigitsData, BatchesDoNotDependOnTheNumberOfRanks) {
  for (const std::uint64_t epoch : {1, 2}) {
    std::vector<std::multiset<std::pair<int, float>>> alone;
    for (std::size_t ranks = 1; ranks <= 5; ++ranks) {
      std::vector<Shard> shards;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        shards.emplace_back(1, 96, 16, rank, ranks);
        shards.back().shuffle(epoch);
      }
      for (std::size_t step = 0; step < 6; ++step) {
        auto batch = batchOf(shards, step);
        EXPECT_EQ(batch.size(), 16U);
        if (ranks == 1)
          alone.push_back(std::move(batch));
        else
          EXPECT_EQ(batch, alone[step]) << ranks << " ranks, step " << step;
      }
    }
  }
}

TEST(DigitsData, AnEpochUsesEveryPictureOnceAndInANewOrder) {
  std::vector<Shard> shards;
  shards.emplace_back(1, 96, 16, 0, 1);
  std::multiset<std::pair<int, float>> all;
  for (std::uint64_t i = 0; i < 96; ++i)
    all.emplace(renderSample(1, i).label, renderSample(1, i).image[0]);
  std::vector<std::multiset<std::pair<int, float>>> firsts;
  for (const std::uint64_t epoch : {1, 2}) {
    shards[0].shuffle(epoch);
    std::multiset<std::pair<int, float>> used;
    for (std::size_t step = 0; step < 6; ++step) used.merge(batchOf(shards, step));
    EXPECT_EQ(used, all);
    firsts.push_back(batchOf(shards, 0));
  }
  EXPECT_NE(firsts[0], firsts[1]);
}

// Against the difference quotient, at some weights of each layer.
TEST(DigitsModel, TheGradientIsTheSlopeOfTheLoss) {
  auto weights = initialWeights(5);
  const auto sample = renderSample(5, 3);
  std::vector<float> gradient(kParameters, 0.0F);
  addGradient(weights, sample, gradient);
  std::vector<float> ignored(kParameters);
  Random random(1, 1);
  int steep = 0;
  int wrong = 0;
  for (int i = 0; i < 400; ++i) {
    // Half of them in the second layer, which is small.
    const auto at =
        i % 2 == 0 ? random.below(kParameters) : kParameters - 1 - random.below(kHidden * kClasses);
    constexpr float kStep = 2e-3F;
    const float kept = weights[at];
    weights[at] = kept + kStep;
    const float above = addGradient(weights, sample, ignored);
    weights[at] = kept - kStep;
    const float below = addGradient(weights, sample, ignored);
    weights[at] = kept;
    wrong += std::abs((above - below) / (2 * kStep) - gradient[at]) > 5e-3F ? 1 : 0;
    steep += std::abs(gradient[at]) > 1e-2F ? 1 : 0;
  }
  EXPECT_LE(wrong, 2) << "more than the kinks of the rectified units explain";
  EXPECT_GT(steep, 50) << "hardly any slope was not flat";
}

TEST(DigitsCheckpoint, ComesBackAsItWas) {
  const TempDir directory;
  Keeper keeper(directory.path(), 9);
  TrainingState state{7, 0.25, initialWeights(9), std::vector<float>(kParameters, 0.5F)};
  keeper.keep(state, false);
  ASSERT_TRUE(keeper.save());
  const auto found = newestCheckpoint(directory.path(), 9);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->epoch, 7);
  EXPECT_EQ((*found)->loss, 0.25);
  EXPECT_EQ((*found)->weights, state.weights);
  EXPECT_EQ((*found)->velocity, state.velocity);
  EXPECT_FALSE(newestCheckpoint(directory.path(), 8));
}

TEST(DigitsCheckpoint, EveryDamagedByteIsNoticed) {
  const TempDir directory;
  const TrainingState state{1, 0.5, initialWeights(9), std::vector<float>(kParameters)};
  const auto path = writeCheckpoint(directory.path(), 9, state);
  ASSERT_TRUE(path);
  const auto whole = directory.read("epoch-0001.ckpt");
  Random random(1, 2);
  for (int i = 0; i < 50; ++i) {
    // The header byte by byte, then anywhere.
    const auto at = i < 40 ? static_cast<std::size_t>(i) : random.below(whole.size());
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    directory.write("epoch-0001.ckpt", damaged);
    const auto found = newestCheckpoint(directory.path(), 9);
    ASSERT_TRUE(found) << at;
    EXPECT_FALSE(found->has_value()) << at;
    directory.write("epoch-0001.ckpt", whole.substr(0, at));
    EXPECT_FALSE(newestCheckpoint(directory.path(), 9)->has_value()) << at;
  }
}

TEST(DigitsCheckpoint, AFullDiskLeavesNothingThatLooksWhole) {
  const TempDir directory;
  const TrainingState state{1, 0.5, initialWeights(9), std::vector<float>(kParameters)};
  std::filesystem::create_symlink("/dev/full", directory.path("epoch-0001.ckpt.tmp"));
  const auto path = writeCheckpoint(directory.path(), 9, state);
  ASSERT_FALSE(path);
  EXPECT_NE(path.error().message.find("No space left"), std::string::npos) << path.error().message;
  EXPECT_FALSE(newestCheckpoint(directory.path(), 9)->has_value());
}

TEST(DigitsOptions, AreReadAndChecked) {
  const auto options =
      parse({"--epochs", "3", "--samples=512", "--sleep-ms", "5", "--fail-code", "9"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->epochs, 3);
  EXPECT_EQ(options->samples, 512U);
  EXPECT_EQ(options->sleepMillis, 5);
  EXPECT_EQ(options->failCode, 9);
  const std::vector<std::pair<std::vector<std::string>, std::string>> bad = {
      {{"--epochs", "0"}, "--epochs: found '0', expected a number from 1 to 1000000"},
      {{"--epochs", "3x"}, "--epochs: found '3x', expected a number from 1 to 1000000"},
      {{"--epochs"}, "--epochs: a value is missing"},
      {{"--epoks", "3"}, "--epoks: unknown option; --help lists those there are"},
      {{"train"}, "'train': unexpected argument; digits takes options only"},
      {{"--samples", "100", "--batch", "16"},
       "--samples: found 100, expected a multiple of --batch (16)"},
      {{"--lr", "nan"}, "--lr: found 'nan', expected a number from 0.000001 to 10"},
      {{"--checkpoint-dir", ""}, "--checkpoint-dir: is empty, expected a directory"},
      {{"--result", ""}, "--result: is empty, expected a file"},
      {{"--fail-code", "256"}, "--fail-code: found '256', expected a number from 1 to 255"}};
  for (const auto& [arguments, message] : bad) {
    const auto refused = parse(arguments);
    ASSERT_FALSE(refused) << message;
    EXPECT_EQ(refused.error().message, message);
    EXPECT_EQ(refused.error().exitCode, kExitUsage);
  }
}

TEST(DigitsOptions, TheCommandLineGoesBeforeTheEnvironment) {
  const auto environment = environmentOf({{"BOLE_CHECKPOINT_DIR", "/from/bole"}});
  EXPECT_EQ(parse({}, environment)->checkpointDir, "/from/bole");
  EXPECT_EQ(parse({"--checkpoint-dir", "mine"}, environment)->checkpointDir, "mine");
  EXPECT_EQ(parse({})->checkpointDir, "");
}

TEST(DigitsOptions, ThePlaceComesFromTheStandardVariables) {
  EXPECT_EQ(readPlace(kNothing)->worldSize, 1U);
  const auto place = readPlace(environmentOf({{"RANK", "2"},
                                              {"WORLD_SIZE", "4"},
                                              {"MASTER_ADDR", "127.0.0.1"},
                                              {"MASTER_PORT", "29500"}}));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 2U);
  EXPECT_EQ(place->worldSize, 4U);
  const std::vector<std::map<std::string, std::string>> bad = {
      {{"RANK", "0"}},
      {{"WORLD_SIZE", "2"}},
      {{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
      {{"RANK", "-1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "0"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", ""}, {"MASTER_PORT", "1"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "65536"}}};
  for (const auto& values : bad) EXPECT_FALSE(readPlace(environmentOf(values)));
}

Place placeAt(int port, std::size_t rank, std::size_t worldSize) {
  return {rank, worldSize, "127.0.0.1", std::to_string(port)};
}

std::unique_ptr<TcpStore> connectTo(int port, std::size_t rank, std::size_t worldSize) {
  auto store = TcpStore::connect(placeAt(port, rank, worldSize), 42, std::chrono::seconds(10));
  EXPECT_TRUE(store) << store.error().message;
  return store ? std::move(*store) : nullptr;
}

std::vector<char> chars(const std::string& text) {
  return {text.begin(), text.end()};
}

TEST(DigitsStore, ARankWaitsForWhatAnotherSets) {
  const int port = examples::freePort();
  const auto server = StoreServer::start(placeAt(port, 0, 2), 42);
  ASSERT_TRUE(server) << server.error().message;
  const auto first = connectTo(port, 0, 2);
  const auto second = connectTo(port, 1, 2);
  EXPECT_EQ(first->localAddress(), "127.0.0.1");
  std::vector<char> seen;
  std::thread waiting([&] { seen = second->get("0"); });
  first->set("0", chars(std::string("a\0b", 3)));
  waiting.join();
  EXPECT_EQ(seen, chars(std::string("a\0b", 3)));
  EXPECT_EQ(first->get("0"), seen);
}

TEST(DigitsStore, ARankThatLeavesFailsThoseWhoWait) {
  const int port = examples::freePort();
  const auto server = StoreServer::start(placeAt(port, 0, 2), 42);
  ASSERT_TRUE(server);
  const auto first = connectTo(port, 0, 2);
  auto second = connectTo(port, 1, 2);
  std::thread leaving([&] { second.reset(); });
  try {
    first->get("1");
    FAIL() << "there is no such key";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "rank 1 left while the ranks were finding each other");
  }
  leaving.join();
}

TEST(DigitsStore, StrangersCostNothing) {
  const int port = examples::freePort();
  const auto server = StoreServer::start(placeAt(port, 0, 2), 42);
  ASSERT_TRUE(server);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("H\xff\xff\xff\xff"), std::string(),
        encode({Tag::kGet, "0", ""}), encode({Tag::kHello, "", "nonsense"}),
        encode({Tag::kHello, "", "digits1 9 2 42"})}) {
    const Fd stranger(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(stranger.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_TRUE(sendAll(stranger.get(), text));
  }
  const auto first = connectTo(port, 0, 2);
  first->set("k", chars("v"));
  EXPECT_EQ(connectTo(port, 1, 2)->get("k"), chars("v"));
}

TEST(DigitsStore, RefusalsNameTheReason) {
  const int port = examples::freePort();
  const auto server = StoreServer::start(placeAt(port, 0, 2), 42);
  ASSERT_TRUE(server);
  const auto first = connectTo(port, 0, 2);
  const auto patience = std::chrono::seconds(10);
  const auto twice = TcpStore::connect(placeAt(port, 0, 2), 42, patience);
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("there already is a rank 0"), std::string::npos)
      << twice.error().message;
  const auto larger = TcpStore::connect(placeAt(port, 1, 3), 42, patience);
  ASSERT_FALSE(larger);
  EXPECT_NE(larger.error().message.find("WORLD_SIZE is 3 here and 2 for rank 0"),
            std::string::npos);
  const auto other = TcpStore::connect(placeAt(port, 1, 2), 43, patience);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("differ from those of rank 0"), std::string::npos);
}

TEST(DigitsStore, NoRankZeroIsSaidAfterTheTimeout) {
  const auto store =
      TcpStore::connect(placeAt(examples::freePort(), 1, 2), 42, std::chrono::seconds(1));
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("is rank 0 running"), std::string::npos)
      << store.error().message;
}

TEST(DigitsWire, FramesComeBackHoweverTheyAreCut) {
  const Frame frame{Tag::kSet, "key", std::string("v\0lue", 5)};
  const auto bytes = encode(frame) + encode({Tag::kBye, "", ""});
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::string buffer = bytes.substr(0, cut);
    Frame read;
    int frames = 0;
    while (decode(buffer, read) == Decoded::kFrame) ++frames;
    buffer += bytes.substr(cut);
    while (decode(buffer, read) == Decoded::kFrame) ++frames;
    EXPECT_EQ(frames, 2) << cut;
    EXPECT_EQ(read.tag, Tag::kBye);
    EXPECT_TRUE(buffer.empty());
  }
}

}  // namespace
}  // namespace digits
