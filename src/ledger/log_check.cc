#include "ledger/log_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "ledger/advice.h"
#include "ledger/files.h"

namespace bole::ledger {
namespace {

constexpr std::size_t kHeaderSize = 32;
constexpr std::size_t kFrameHeaderSize = 24;
constexpr std::uint32_t kMagic = 0x377f0682;  // the last bit: sums are over big-endian words
constexpr std::size_t kDefaultPage = 4096;
// The write that was cut off may have left its own commit, and no other's.
constexpr int kProof = 2;
constexpr std::string_view kEnding = "-wal";

using Header = std::array<unsigned char, kHeaderSize>;

std::uint32_t bigEndian(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
}

std::uint32_t littleEndian(const unsigned char* bytes) {
  return std::uint32_t{bytes[3]} << 24 | std::uint32_t{bytes[2]} << 16 |
         std::uint32_t{bytes[1]} << 8 | bytes[0];
}

struct Sum {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  bool operator==(const Sum&) const = default;

  void add(const unsigned char* bytes, std::size_t size, bool bigWords) {
    for (std::size_t at = 0; at + 8 <= size; at += 8) {
      const auto* word = bytes + at;
      first += (bigWords ? bigEndian(word) : littleEndian(word)) + second;
      second += (bigWords ? bigEndian(word + 4) : littleEndian(word + 4)) + first;
    }
  }
};

Sum sumAt(const unsigned char* bytes) {
  return {bigEndian(bytes), bigEndian(bytes + 4)};
}

// Reads as much as there is.
Result<std::size_t> readAt(int file, unsigned char* into, std::size_t size, std::size_t offset,
                           const std::string& path) {
  std::size_t have = 0;
  while (have < size) {
    const auto got = ::pread(file, into + have, size - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(systemError(errno, "cannot read the write-ahead log", path));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  return have;
}

class LogScan {
 public:
  explicit LogScan(const Header& header) {
    const auto magic = bigEndian(header.data());
    bigWords_ = magic == (kMagic | 1);
    const auto page = bigEndian(header.data() + 8);
    const bool pageFits = page >= 512 && page <= 65536 && (page & (page - 1)) == 0;
    page_ = pageFits ? page : kDefaultPage;
    Sum sum;
    sum.add(header.data(), kFrameHeaderSize, bigWords_);
    previous_ = sumAt(header.data() + kFrameHeaderSize);
    sound_ = (magic | 1) == (kMagic | 1) && pageFits && sum == previous_;
    if (sound_) salt_.assign(header.begin() + 16, header.begin() + 24);
  }

  [[nodiscard]] std::size_t frameSize() const { return kFrameHeaderSize + page_; }

  // Frame after frame. The sum of each goes on from the one that stands in the frame before it.
  void add(const unsigned char* frame) {
    ++frames_;
    if (salt_.empty()) salt_.assign(frame + 8, frame + 16);  // the header tells none
    Sum sum = previous_;
    sum.add(frame, 8, bigWords_);
    sum.add(frame + kFrameHeaderSize, page_, bigWords_);
    previous_ = sumAt(frame + 16);
    const bool fits = sum == previous_ && std::memcmp(frame + 8, salt_.data(), 8) == 0;
    if (sound_ && fits) return;
    if (sound_) firstBad_ = frames_;
    sound_ = false;
    if (fits && bigEndian(frame + 4) != 0) ++commitsAfter_;
  }

  [[nodiscard]] static std::string advice(const std::string& log) {
    const auto home = homeOf(log.substr(0, log.size() - kEnding.size()));
    if (home.empty()) return "use another copy of the ledger";
    // Not to go on in this home from before it: attempts would be numbered anew, and what lies in
    // the home of those that came after would be taken for theirs.
    return "move the whole home away, then restore the newest backup with " +
           commandFor("restore BACKUP", home) +
           "; where there is none, move this file alone away first and make one of what is left "
           "with " +
           commandFor("backup BACKUP", home);
  }

  [[nodiscard]] Result<void> verdict(const std::string& path) const {
    if (sound_ || commitsAfter_ < kProof) return {};
    const auto where = firstBad_ == 0 ? std::string("the header")
                                      : fmt::format("frame {} of {}", firstBad_, frames_);
    return fail(makeError(ErrorCode::kCorrupt, "the ledger's write-ahead log is damaged")
                    .at(path)
                    .foundValue(fmt::format("{} does not match its sum, and {} whole commits "
                                            "stand behind it",
                                            where, commitsAfter_))
                    .withHint("the newest events are in it: " + advice(path)));
  }

 private:
  bool bigWords_ = false;
  bool sound_ = false;
  std::size_t page_ = kDefaultPage;
  std::vector<unsigned char> salt_;
  Sum previous_;
  std::size_t frames_ = 0;
  std::size_t firstBad_ = 0;  // 0: the header
  int commitsAfter_ = 0;
};

// Empty: the writer began the log anew meanwhile.
Result<std::optional<LogScan>> scan(int file, const std::string& path) {
  Header header{};
  BOLE_ASSIGN(const auto size, readAt(file, header.data(), header.size(), 0, path));
  LogScan scan(header);
  if (size < header.size()) return std::optional(scan);
  std::vector<unsigned char> frame(scan.frameSize());
  for (auto at = kHeaderSize;; at += frame.size()) {
    BOLE_ASSIGN(const auto got, readAt(file, frame.data(), frame.size(), at, path));
    if (got < frame.size()) break;
    scan.add(frame.data());
  }
  Header now{};
  BOLE_TRY(readAt(file, now.data(), now.size(), 0, path));
  if (now != header) return std::optional<LogScan>();
  return std::optional(scan);
}

}  // namespace

Result<void> checkLog(const std::string& path) {
  const auto log = path + std::string(kEnding);
  if (fileSize(log) <= kHeaderSize) return {};
  BOLE_ASSIGN(const auto file, openFile(log, O_RDONLY, 0, "cannot read the write-ahead log"));
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    BOLE_ASSIGN(const auto scanned, scan(file.get(), log));
    if (scanned) return scanned->verdict(log);
  }
  return {};  // a writer that is so busy with it finds it whole
}

}  // namespace bole::ledger
