#include "spec/suggest.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

namespace bole::spec {
namespace {

constexpr std::size_t kLongest = 64;  // of a name worth comparing

std::string flatten(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') continue;
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

// Edits of one letter (add, drop, change, swap two neighbours) from one name to the other.
std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

// Words of other tools, and what they are called here.
std::string_view translate(std::string_view found) {
  using Pair = std::pair<std::string_view, std::string_view>;
  static constexpr Pair kWords[] = {
      {"cmd", "command"},
      {"args", "command"},
      {"script", "command"},
      {"run", "command"},
      {"entrypoint", "command"},
      {"partition", "queue"},
      {"mem", "memory"},
      {"ram", "memory"},
      {"cores", "cpus"},
      {"time", "time_limit"},
      {"timeout", "time_limit"},
      {"walltime", "time_limit"},
      {"volumes", "mounts"},
      {"binds", "mounts"},
      {"environment", "env"},
      {"envs", "env"},
      {"workdir", "working_dir"},
      {"cwd", "working_dir"},
      {"chdir", "working_dir"},
      {"container", "image"},
      {"ntasks", "replicas"},
      {"nodes", "replicas"},
      {"num_nodes", "replicas"},
      {"count", "replicas"},
      {"resources", "gpus"},
      {"accelerators", "gpus"},
      {"gres", "gpus"},
      {"retries", "max_retries"},
      {"account", "project"},
      {"namespace", "project"},
      {"tenant", "project"},
      {"job_name", "name"},
      {"interval", "every"},
      {"src", "source"},
      {"dst", "target"},
      {"destination", "target"},
      {"ro", "read_only"},
      {"shm", "shm_size"},
      {"dir", "path"},
      {"directory", "path"},
  };
  const auto* word = std::find_if(std::begin(kWords), std::end(kWords),
                                  [&](const Pair& pair) { return pair.first == found; });
  return word == std::end(kWords) ? std::string_view() : word->second;
}

}  // namespace

std::string_view nearest(std::string_view found, const std::vector<std::string_view>& candidates) {
  if (found.empty() || found.size() > kLongest) return {};
  const auto word = translate(found);
  if (!word.empty() && std::find(candidates.begin(), candidates.end(), word) != candidates.end())
    return word;
  const auto wanted = flatten(found);
  std::string_view best;
  std::size_t bestDistance =
      wanted.size() <= 4 ? 2 : std::max<std::size_t>(3, wanted.size() / 3 + 1);  // one better
  for (const auto candidate : candidates) {
    const auto distance = editDistance(wanted, flatten(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

std::string joinAlternatives(const std::vector<std::string_view>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

}  // namespace bole::spec
