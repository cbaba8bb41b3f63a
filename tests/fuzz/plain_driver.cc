// Runs a fuzz target without libFuzzer: every file of the corpus as it is, then a fixed number of
// mutations of them, the same in every run. An input that breaks a promise is written to
// crash-<run> in the working directory.
//
//     fuzz_NAME [--runs N] [--seed S] [--dictionary FILE] CORPUS...     FILE or DIRECTORY each
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kLongest = 16 * 1024;  // of a mutated input

struct Options {
  std::uint64_t runs = 1000;
  std::uint64_t seed = 1;
  std::vector<std::string> corpus;
  std::vector<std::string> dictionary;
};

// What runs now, for the handler of signals.
struct Running {
  const std::string* input = nullptr;
  char fileName[64] = {};
};
Running running;  // NOLINT: a handler of signals can be told nothing else

void saveAndDie(int signal) {
  const int file = open(running.fileName, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file >= 0 && running.input) {
    static_cast<void>(!write(file, running.input->data(), running.input->size()));
    static constexpr char kSaved[] = "the input is saved as ";
    static_cast<void>(!write(2, kSaved, sizeof kSaved - 1));
    static_cast<void>(
        !write(2, running.fileName, std::char_traits<char>::length(running.fileName)));
    static_cast<void>(!write(2, "\n", 1));
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// splitmix64: https://prng.di.unimi.it/splitmix64.c
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    auto z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t bound) {
    return bound == 0 ? 0 : static_cast<std::size_t>(next() % bound);
  }

 private:
  std::uint64_t state_;
};

std::string readAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

// libFuzzer's form: "token" or name="token" a line, with \" \\ and \xNN inside.
std::vector<std::string> readDictionary(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  std::vector<std::string> tokens;
  for (std::string line; std::getline(file, line);) {
    const auto begin = line.find('"');
    const auto end = line.rfind('"');
    if (line.starts_with('#') || begin == std::string::npos || end == begin) continue;
    std::string token;
    for (auto i = begin + 1; i < end; ++i) {
      if (line[i] != '\\') {
        token += line[i];
      } else if (line[i + 1] == 'x') {
        token += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        token += line[++i];
      }
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, const std::vector<std::string>& dictionary,
          std::uint64_t seed)
      : corpus_(corpus), dictionary_(dictionary), random_(seed) {}

  std::string next() {
    auto text = corpus_[random_.below(corpus_.size())];
    for (auto steps = 1 + random_.below(6); steps > 0; --steps) step(text);
    if (text.size() > kLongest) text.resize(kLongest);
    return text;
  }

 private:
  void step(std::string& text) {
    const auto at = random_.below(text.size() + 1);
    const auto length = std::min(1 + random_.below(16), text.size() - at);
    switch (random_.below(10)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random_.below(8)));
        return;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random_.below(256));
        return;
      case 2:
        text.erase(at, length);
        return;
      case 3:
        text.insert(at, text.substr(at, length));
        return;
      case 4:
        moveLine(text);
        return;
      case 5:
        splice(text, at);
        return;
      case 6:
        replaceWord(text, at);
        return;
      default:
        if (!dictionary_.empty()) text.insert(at, dictionary_[random_.below(dictionary_.size())]);
        return;
    }
  }

  // A line, doubled or moved to another place.
  void moveLine(std::string& text) {
    const auto from = lineAt(text, random_.below(text.size() + 1));
    const auto line = text.substr(from.first, from.second);
    if (random_.below(2) == 0) text.erase(from.first, from.second);
    text.insert(lineAt(text, random_.below(text.size() + 1)).first, line);
  }

  static std::pair<std::size_t, std::size_t> lineAt(const std::string& text, std::size_t at) {
    const auto before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    const auto begin = before == std::string::npos ? 0 : before + 1;
    const auto end = text.find('\n', begin);
    return {begin, (end == std::string::npos ? text.size() : end + 1) - begin};
  }

  void splice(std::string& text, std::size_t at) {
    const auto& other = corpus_[random_.below(corpus_.size())];
    const auto begin = random_.below(other.size() + 1);
    text = text.substr(0, at) + other.substr(begin);
  }

  // What stands between spaces and brackets becomes a token: most likely a value, and one that is
  // nearly right.
  void replaceWord(std::string& text, std::size_t at) {
    constexpr std::string_view kEnds = " \n\t,:[]{}\"'";
    if (dictionary_.empty()) return;
    const auto before = at == 0 ? std::string::npos : text.find_last_of(kEnds, at - 1);
    const auto begin = before == std::string::npos ? 0 : before + 1;
    const auto end = std::min(text.find_first_of(kEnds, begin), text.size());
    text.replace(begin, end - begin, dictionary_[random_.below(dictionary_.size())]);
  }

  const std::vector<std::string>& corpus_;
  const std::vector<std::string>& dictionary_;
  Random random_;
};

void run(const std::string& input, const std::string& name) {
  running.input = &input;
  std::snprintf(running.fileName, sizeof running.fileName, "crash-%s", name.c_str());
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

Options parseOptions(int argc, char** argv) {
  Options options;
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool hasValue = i + 1 < words.size();
    if (words[i] == "--runs" && hasValue) {
      options.runs = std::stoull(words[++i]);
    } else if (words[i] == "--seed" && hasValue) {
      options.seed = std::stoull(words[++i]);
    } else if (words[i] == "--dictionary" && hasValue) {
      options.dictionary = readDictionary(words[++i]);
    } else if (std::filesystem::is_directory(words[i])) {
      for (const auto& entry : std::filesystem::directory_iterator(words[i]))
        options.corpus.push_back(entry.path());
    } else {
      options.corpus.push_back(words[i]);
    }
  }
  std::sort(options.corpus.begin(), options.corpus.end());  // the order of a directory is anyone's
  if (!options.corpus.empty()) return options;
  std::fprintf(stderr, "usage: %s [--runs N] [--seed S] [--dictionary FILE] CORPUS...\n", argv[0]);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parseOptions(argc, argv);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    std::signal(signal, saveAndDie);
  std::vector<std::string> corpus;
  for (const auto& path : options.corpus) {
    corpus.push_back(readAll(path));
    run(corpus.back(), std::filesystem::path(path).filename());
  }
  Mutator mutator(corpus, options.dictionary, options.seed);
  for (std::uint64_t i = 0; i < options.runs; ++i)
    run(mutator.next(), std::to_string(options.seed) + "-" + std::to_string(i));
  std::printf("%zu files and %llu mutations held\n", corpus.size(),
              static_cast<unsigned long long>(options.runs));
  return 0;
}
