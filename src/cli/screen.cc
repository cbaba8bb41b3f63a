#include "cli/screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/text.h"
#include "cli/wording.h"

namespace bole::cli {
namespace {

constexpr std::array<int, 6> kRankColours = {36, 32, 33, 35, 34, 96};
constexpr std::size_t kBarCells = 20;
constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr std::string_view kProgressLine = "BOLE progress ";
constexpr std::string_view kCheckpointLine = "BOLE checkpoint ";

std::string prefixOf(std::uint32_t rank, bool colour) {
  if (!colour) return fmt::format("[{}] ", rank);
  return fmt::format("\x1b[{}m[{}]\x1b[0m ", kRankColours[rank % kRankColours.size()], rank);
}

std::string cells(std::uint64_t done, std::uint64_t total) {
  const auto full = static_cast<std::size_t>(static_cast<double>(std::min(done, total)) /
                                             static_cast<double>(total) * kBarCells);
  return "[" + std::string(full, '#') + std::string(kBarCells - full, '-') + "]";
}

}  // namespace

Screen::Screen(Context& context, LineStyle style) : context_(context), style_(style) {
  const auto& environment = context.environment();
  terminal_ = style.toError ? environment.stderrIsTerminal : environment.stdoutIsTerminal;
  const auto look = style.toError ? context.errorStyle() : context.outStyle();
  colour_ = look.colour;
  columns_ = look.width - 1;  // the last column would wrap
  style_.bar = style.bar && terminal_ && context.variable("TERM") != "dumb";
}

void Screen::line(const model::LogLineView& line) {
  if (style_.bar && !style_.raw && isProgressLine(line.text)) return;  // the bar says it
  if (style_.timestamps) lines_ += preciseTime(line.time) + " ";
  if (style_.prefix) lines_ += prefixOf(line.rank, colour_);
  lines_ += terminal_ ? terminalLine(line.text) : line.text;
  lines_ += '\n';
}

void Screen::tell(const std::string& text) {
  const auto bar = bar_;
  bar_.clear();
  flush();
  context_.tell(text);
  bar_ = bar;
  flush();
}

void Screen::bar(const std::string& text) {
  if (style_.bar) bar_ = truncated(neutralised(text), columns_);
}

bool Screen::flush() {
  if (lines_.empty() && bar_ == shownBar_) return !context_.outputClosed();
  std::string text(shownBar_.empty() ? std::string_view() : kEraseLine);
  text += lines_ + bar_;
  lines_.clear();
  shownBar_ = bar_;
  if (!style_.toError) return context_.print(text);
  context_.printError(text);
  return !context_.outputClosed();
}

std::string preciseTime(Timestamp time) {
  auto text = formatTimestamp(time);
  std::replace(text.begin(), text.end(), ' ', 'T');
  return fmt::format("{}.{:03}Z", text, time.micros % 1'000'000 / 1000);
}

namespace {

// "KEY=VALUE ...", separated by spaces, and nothing else; docs/progress.md.
bool arePairs(std::string_view text) {
  bool any = false;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(" \t\r"), text.size());
    const auto word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const auto equals = word.find('=');
    if (equals == 0 || equals == std::string_view::npos) return false;
    any = true;
  }
  return any;
}

std::string_view valueOf(std::string_view line, std::string_view key) {
  const auto at = line.find(" " + std::string(key) + "=");
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + key.size() + 2);
  return line.substr(0, line.find_first_of(" \t\r"));
}

}  // namespace

bool isProgressLine(std::string_view line) {
  for (const auto prefix : {kProgressLine, kCheckpointLine}) {
    if (line.starts_with(prefix)) return arePairs(line.substr(prefix.size()));
  }
  return false;
}

std::string checkpointIn(std::string_view line) {
  if (!line.starts_with(kCheckpointLine) || !isProgressLine(line)) return {};
  for (const auto* unit : {"epoch", "step"}) {
    const auto number = valueOf(line, unit);
    if (!number.empty()) return fmt::format("{} {}", unit, number);
  }
  return std::string(valueOf(line, "path"));
}

std::string barText(const model::JobView& job, std::size_t columns, std::string_view saved) {
  auto text =
      fmt::format("{}  {}", job.name.empty() ? jobTitle(job) : job.name, stateName(job.state));
  if (job.state == model::JobState::kRunning && job.progress) {
    if (job.progress->total > 0) text += "  " + cells(job.progress->done, job.progress->total);
    text += "  " + progressText(*job.progress);
    if (!saved.empty()) text += fmt::format("  (saved: {})", saved);
  } else if (!job.reason.empty()) {
    text += "  " + job.reason;
  }
  return truncated(neutralised(text), columns);
}

}  // namespace bole::cli
