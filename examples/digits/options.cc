#include "options.h"

#include <getopt.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "hash.h"
#include "model.h"

namespace digits {
namespace {

constexpr std::size_t kMostRanks = 1024;

template <class Number>
Result<Number> number(std::string_view name, std::string_view text, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && value >= least && value <= most) return value;
  const auto show = [](Number n) {
    std::string shown = std::to_string(n);
    if constexpr (std::is_floating_point_v<Number>) {
      shown.erase(shown.find_last_not_of('0') + 1);
      if (shown.ends_with('.')) shown.pop_back();
    }
    return shown;
  };
  return misused(std::string(name) + ": found '" + std::string(text) +
                 "', expected a number from " + show(least) + " to " + show(most));
}

template <class Number>
Result<void> set(Number& target, std::string_view name, std::string_view text, Number least,
                 Number most) {
  const auto value = number(name, text, least, most);
  if (!value) return passOn(value.error());
  target = *value;
  return {};
}

struct Description {
  const char* name;
  const char* value;
  const char* help;
  std::function<Result<void>(Options&, std::string_view)> store;
};

Result<void> storeDirectory(Options& options, const std::string& name, std::string_view text) {
  if (text.empty()) return misused(name + ": is empty, expected a directory");
  if (text.find_first_of(" \t\n\r") != std::string_view::npos) {
    return misused(
        name + ": found '" + std::string(text) +
        "', expected a path without spaces (it is reported in a line of key=value pairs)");
  }
  options.checkpointDir = text;
  return {};
}

std::function<Result<void>(Options&, std::string_view)> fileInto(std::string Options::*member,
                                                                 const char* name) {
  return [=](Options& options, std::string_view text) -> Result<void> {
    if (text.empty()) return misused(std::string(name) + ": is empty, expected a file");
    options.*member = text;
    return {};
  };
}

// Short names for the table below.
template <class Number>
std::function<Result<void>(Options&, std::string_view)> into(Number Options::*member,
                                                             const char* name, Number least,
                                                             Number most) {
  return [=](Options& options, std::string_view text) {
    return set(options.*member, name, text, least, most);
  };
}

const std::vector<Description>& descriptions() {
  static const std::vector<Description> table = {
      {"epochs", "N", "epochs in all, those before a resume included (20)",
       into(&Options::epochs, "--epochs", 1, 1'000'000)},
      {"checkpoint-dir", "DIR",
       "write checkpoints here and resume from the newest complete one (BOLE_CHECKPOINT_DIR)",
       [](Options& options, std::string_view text) {
         return storeDirectory(options, "--checkpoint-dir", text);
       }},
      {"checkpoint-every", "N", "epochs between checkpoints (5)",
       into(&Options::checkpointEvery, "--checkpoint-every", 1, 1'000'000)},
      {"seed", "N", "decides pictures, first weights and order (1)",
       into(&Options::seed, "--seed", std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max())},
      {"samples", "N", "training pictures of all ranks together (16384)",
       into(&Options::samples, "--samples", std::size_t{1}, std::size_t{10'000'000})},
      {"batch", "N", "pictures a step, of all ranks together (256)",
       into(&Options::batch, "--batch", std::size_t{1}, std::size_t{1'000'000})},
      {"lr", "X", "learning rate (0.04)", into(&Options::learningRate, "--lr", 1e-6F, 10.0F)},
      {"sleep-ms", "N", "an epoch takes at least so many milliseconds, for watching (0)",
       into(&Options::sleepMillis, "--sleep-ms", 0, 86'400'000)},
      {"timeout", "N", "seconds to wait for other ranks before giving up (60)",
       into(&Options::timeoutSeconds, "--timeout", 1, 86400)},
      {"result", "FILE", "write loss, accuracy and a hash of the weights here at the end",
       fileInto(&Options::result, "--result")},
      {"fail-epoch", "N", "for tests: fail in this epoch",
       into(&Options::failEpoch, "--fail-epoch", 1, 1'000'000)},
      {"fail-rank", "R", "for tests: the rank that fails (0)",
       into(&Options::failRank, "--fail-rank", 0, static_cast<int>(kMostRanks) - 1)},
      {"fail-code", "C", "for tests: the exit code it fails with (1)",
       into(&Options::failCode, "--fail-code", 1, 255)},
      {"fail-marker", "FILE", "for tests: fail once; this file says that it has been",
       fileInto(&Options::failMarker, "--fail-marker")},
  };
  return table;
}

Result<void> checkAlone(const Options& options) {
  if (options.samples % options.batch != 0) {
    return misused("--samples: found " + std::to_string(options.samples) +
                   ", expected a multiple of --batch (" + std::to_string(options.batch) + ")");
  }
  return {};
}

}  // namespace

std::string usage() {
  std::string text =
      "usage: digits [options]\n"
      "Trains a small network to read generated pictures of digits, on one rank or a gang.\n"
      "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say where this process stands; without them "
      "it is alone.\n\n";
  for (const auto& description : descriptions()) {
    std::string line = std::string("  --") + description.name + " " + description.value;
    line.resize(26, ' ');
    text += line + description.help + "\n";
  }
  return text + "  --help                  this text\n";
}

Result<Options> parseOptions(int argc, char** argv, const Environment& environment) {
  std::vector<option> longOptions;
  for (const auto& description : descriptions()) {
    longOptions.push_back({description.name, required_argument, nullptr, 0});
  }
  longOptions.push_back({"help", no_argument, nullptr, 'h'});
  longOptions.push_back({nullptr, 0, nullptr, 0});

  Options options;
  if (const char* directory = environment("BOLE_CHECKPOINT_DIR")) {
    auto stored = storeDirectory(options, "BOLE_CHECKPOINT_DIR", directory);
    if (!stored) return passOn(stored.error());
  }
  opterr = 0;
  optind = 1;
  for (;;) {
    int index = -1;
    const int code = getopt_long(argc, argv, ":h", longOptions.data(), &index);
    if (code == -1) break;
    if (code == 'h') {
      options.help = true;
      return options;
    }
    if (code == ':') return misused(std::string(argv[optind - 1]) + ": a value is missing");
    if (code != 0) {
      return misused(std::string(argv[optind - 1]) +
                     ": unknown option; --help lists those there are");
    }
    const auto& description = descriptions()[static_cast<std::size_t>(index)];
    if (auto stored = description.store(options, optarg); !stored) return passOn(stored.error());
  }
  if (optind < argc) {
    return misused("'" + std::string(argv[optind]) +
                   "': unexpected argument; digits takes options only");
  }
  if (auto checked = checkAlone(options); !checked) return passOn(checked.error());
  return options;
}

Result<Place> readPlace(const Environment& environment) {
  const char* rank = environment("RANK");
  const char* worldSize = environment("WORLD_SIZE");
  Place place;
  if (!rank && !worldSize) return place;
  if (!rank || !worldSize) {
    return misused(std::string(rank ? "WORLD_SIZE" : "RANK") + ": is not set although " +
                   (rank ? "RANK" : "WORLD_SIZE") + " is; set both, or neither for a single rank");
  }
  if (auto ok = set(place.worldSize, "WORLD_SIZE", worldSize, std::size_t{1}, kMostRanks); !ok) {
    return passOn(ok.error());
  }
  if (auto ok = set(place.rank, "RANK", rank, std::size_t{0}, place.worldSize - 1); !ok) {
    return passOn(ok.error());
  }
  if (place.worldSize == 1) return place;
  const char* address = environment("MASTER_ADDR");
  const char* port = environment("MASTER_PORT");
  if (!address || !*address || !port) {
    return misused(
        "MASTER_ADDR and MASTER_PORT: must say where rank 0 can be reached when "
        "WORLD_SIZE is above 1");
  }
  if (auto ok = number("MASTER_PORT", port, 1, 65535); !ok) return passOn(ok.error());
  place.masterAddr = address;
  place.masterPort = port;
  return place;
}

Result<void> checkTogether(const Options& options, const Place& place) {
  if (options.batch < place.worldSize) {
    return misused("--batch: found " + std::to_string(options.batch) +
                   ", expected at least one a rank (" + std::to_string(place.worldSize) + ")");
  }
  if (static_cast<std::size_t>(options.failRank) >= place.worldSize) {
    return misused("--fail-rank: found " + std::to_string(options.failRank) +
                   ", the last rank is " + std::to_string(place.worldSize - 1));
  }
  return {};
}

std::uint64_t fingerprint(const Options& options) {
  std::string all;
  for (const std::uint64_t value :
       {std::uint64_t{kParameters}, static_cast<std::uint64_t>(options.epochs), options.seed,
        std::uint64_t{options.samples}, std::uint64_t{options.batch}}) {
    all += std::to_string(value) + ' ';
  }
  return hashBytes(all + std::to_string(options.learningRate));
}

}  // namespace digits
