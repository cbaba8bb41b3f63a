#include "spec/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "spec/quote.h"

namespace bole::spec {
namespace {

// Thrown through yaml-cpp, which offers its handlers no other way to stop; caught in readYaml().
struct Stop {
  Error error;
};

bool isContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Turns the library's positions (bytes from 0) into those of editors. Each answer takes the same
// short time however long a line is: a job in JSON is one line.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    starts_.push_back(0);
    std::size_t continuations = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i % kBlock == 0) continuations_.push_back(continuations);
      if (isContinuation(text[i])) ++continuations;
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
    continuations_.push_back(continuations);
  }

  [[nodiscard]] std::string_view line(std::size_t index) const {
    if (index >= starts_.size()) return {};
    const auto end = index + 1 < starts_.size() ? starts_[index + 1] : text_.size();
    return text_.substr(starts_[index], end - starts_[index]);
  }

  [[nodiscard]] Position position(const YAML::Mark& mark) const {
    if (mark.line < 0 || mark.column < 0) return {};
    const auto index = std::min(static_cast<std::size_t>(mark.line), starts_.size() - 1);
    return place(index, std::min(static_cast<std::size_t>(mark.column), line(index).size()));
  }

  [[nodiscard]] Position positionOf(std::size_t offset) const {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
    const auto index = static_cast<std::size_t>(next - starts_.begin()) - 1;
    return place(index, offset - starts_[index]);
  }

  // The library takes the end of the file for the end of a quoted text. True where no quote stands
  // at the mark.
  [[nodiscard]] bool isClosed(const YAML::Mark& mark) const {
    if (mark.line < 0 || mark.column < 0 || static_cast<std::size_t>(mark.line) >= starts_.size())
      return true;
    const auto begin =
        starts_[static_cast<std::size_t>(mark.line)] + static_cast<std::size_t>(mark.column);
    const char quote = begin < text_.size() ? text_[begin] : ' ';
    if (quote != '"' && quote != '\'') return true;
    for (auto i = begin + 1; i < text_.size(); ++i) {
      const bool doubled = text_[i] == quote && i + 1 < text_.size() && text_[i + 1] == quote;
      const bool escapes = quote == '"' ? text_[i] == '\\' : doubled;
      if (escapes)
        ++i;
      else if (text_[i] == quote)
        return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t kBlock = 256;

  [[nodiscard]] Position place(std::size_t index, std::size_t bytes) const {
    const auto inside =
        continuationsBefore(starts_[index] + bytes) - continuationsBefore(starts_[index]);
    return {index + 1, bytes - inside + 1};
  }

  [[nodiscard]] std::size_t continuationsBefore(std::size_t offset) const {
    const auto block = offset / kBlock;
    if (offset >= text_.size()) return continuations_.back();
    const auto rest = text_.substr(block * kBlock, offset % kBlock);
    return continuations_[block] +
           static_cast<std::size_t>(std::count_if(rest.begin(), rest.end(), isContinuation));
  }

  std::string_view text_;
  std::vector<std::size_t> starts_;         // of lines
  std::vector<std::size_t> continuations_;  // how many stand before each block; the last: in all
};

constexpr std::string_view kStandardTags = "tag:yaml.org,2002:";

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const Lines& lines, std::string_view fileName) : lines_(lines), file_(fileName) {}

  // Where the innermost '[' or '{' that is still open stands.
  [[nodiscard]] std::optional<Position> openBracket() const {
    const auto frame =
        std::find_if(frames_.rbegin(), frames_.rend(), [](const Frame& f) { return f.flow; });
    return frame == frames_.rend() ? std::nullopt : std::optional(frame->node.at);
  }

  // The document just read; null for an empty one.
  [[nodiscard]] NodePtr take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {
    root_.reset();
    frames_.clear();
    anchors_.clear();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.at = lines_.position(mark);
    finish(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto at = lines_.position(mark);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) stop(at, "an alias stands inside of what it names");
    count(at, found->second->nodesBelow, found->second->bytesBelow);
    add(found->second, at);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node;
    node.kind = NodeKind::kScalar;
    node.at = lines_.position(mark);
    node.plain = tag == "?";
    checkTag(node.at, tag, "str");
    checkText(node.at, value);
    if (!node.plain && !lines_.isClosed(mark)) stop(node.at, "a quote that is not closed");
    node.text = value;
    node.bytesBelow = value.size();
    finish(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(NodeKind::kSequence, mark, anchor);
    frames_.back().flow = style == YAML::EmitterStyle::Flow;
    checkTag(frames_.back().node.at, tag, "seq");
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(NodeKind::kMap, mark, anchor);
    frames_.back().flow = style == YAML::EmitterStyle::Flow;
    checkTag(frames_.back().node.at, tag, "map");
  }
  void OnMapEnd() override {
    mergeFields(frames_.back());
    close();
  }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    bool flow = false;    // written with brackets
    bool hasKey = false;  // of a map: the key is read, its value comes next
    Position keyAt;
    std::string key;
    std::map<std::string, Position> keys;
    std::vector<std::pair<Position, NodePtr>> merges;
  };

  [[noreturn]] void stop(Position at, std::string what, std::string hint = {}) const {
    throw Stop{makeError(ErrorCode::kInvalid, std::move(what))
                   .at(formatPlace(file_, at))
                   .withHint(std::move(hint))};
  }

  void checkTag(Position at, const std::string& tag, std::string_view wanted) const {
    if (tag.empty() || tag == "?" || tag == "!" || tag == std::string(kStandardTags).append(wanted))
      return;
    const auto written =
        tag.starts_with(kStandardTags) ? "!!" + tag.substr(kStandardTags.size()) : tag;
    throw Stop{makeError(ErrorCode::kInvalid, "a YAML tag that is not understood here")
                   .at(formatPlace(file_, at))
                   .foundValue(quoted(written))
                   .withHint("leave the tag out; put text into quotes")};
  }

  void checkText(Position at, const std::string& text) const {
    if (text.find('\0') != std::string::npos) stop(at, "text holds a NUL character");
    // The library turns \N and \_ into bytes of Latin-1.
    if (findInvalidUtf8(text) != std::string::npos)
      stop(at, "text is not UTF-8", "for \\N and \\_ write \\u0085 and \\u00a0");
  }

  // What aliases bring in counts each time, so that a small text cannot become a huge tree.
  void count(Position at, std::size_t nodes, std::size_t bytes) {
    nodes_ += nodes;
    bytes_ += bytes;
    if (nodes_ > kMaxExpandedNodes || bytes_ > kMaxExpandedBytes) {
      stop(at,
           fmt::format("the file grows beyond {} values or {} bytes", kMaxExpandedNodes,
                       kMaxExpandedBytes),
           "use fewer aliases (*name) or split the file");
    }
  }

  void open(NodeKind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    Frame frame;
    frame.node.kind = kind;
    frame.node.at = lines_.position(mark);
    frame.anchor = anchor;
    if (frames_.size() >= kMaxDepth) {
      stop(frame.node.at, fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    frames_.push_back(std::move(frame));
  }

  void close() {
    auto frame = std::move(frames_.back());
    frames_.pop_back();
    finish(std::move(frame.node), frame.anchor);
  }

  void finish(Node node, YAML::anchor_t anchor) {
    const auto at = node.at;
    const auto own = node.kind == NodeKind::kScalar ? node.bytesBelow : 0;
    count(at, 1, own);
    auto shared = std::make_shared<const Node>(std::move(node));
    if (anchor != 0) anchors_[anchor] = shared;
    add(std::move(shared), at);
  }

  void add(NodePtr node, Position at) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    auto& frame = frames_.back();
    if (frame.node.kind == NodeKind::kMap && !frame.hasKey) {
      takeKey(frame, *node, at);
      return;
    }
    frame.node.nodesBelow += node->nodesBelow;
    frame.node.bytesBelow += node->bytesBelow;
    if (frame.node.kind == NodeKind::kSequence) {
      frame.node.items.push_back(std::move(node));
      return;
    }
    frame.hasKey = false;
    if (frame.key == "<<") {
      frame.merges.emplace_back(at, std::move(node));
    } else {
      frame.node.fields.push_back({std::move(frame.key), frame.keyAt, std::move(node)});
    }
  }

  void takeKey(Frame& frame, const Node& key, Position at) const {
    if (key.kind == NodeKind::kNull) stop(at, "a field without a name", "write `name: value`");
    if (key.kind != NodeKind::kScalar) {
      stop(at, "the name of a field is a list or a map",
           "a value that begins with '{' or '[' must be put into quotes");
    }
    const auto [first, isNew] = frame.keys.emplace(key.text, at);
    if (!isNew) {
      throw Stop{
          makeError(ErrorCode::kInvalid, "the field " + quoted(key.text) + " is written twice")
              .at(formatPlace(file_, at))
              .withHint(fmt::format("it stands in line {} already: keep one", first->second.line))};
    }
    frame.hasKey = true;
    frame.key = key.text;
    frame.keyAt = at;
  }

  // `<<: *base` and `<<: [*a, *b]`: fields of the map itself win, then those of earlier maps.
  void mergeFields(Frame& frame) const {
    for (const auto& [at, value] : frame.merges) {
      if (value->kind == NodeKind::kMap) {
        mergeOne(frame, *value);
        continue;
      }
      if (value->kind != NodeKind::kSequence)
        stop(at, "the merge key << takes a map", "write `<<: *name`");
      for (const auto& item : value->items) {
        if (item->kind != NodeKind::kMap) stop(item->at, "the merge key << takes maps only");
        mergeOne(frame, *item);
      }
    }
  }

  static void mergeOne(Frame& frame, const Node& from) {
    for (const auto& field : from.fields) {
      if (frame.keys.emplace(field.key, field.at).second) frame.node.fields.push_back(field);
    }
  }

  const Lines& lines_;
  std::string_view file_;
  NodePtr root_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, NodePtr> anchors_;
  std::size_t nodes_ = 0;
  std::size_t bytes_ = 0;
};

// What the library's messages mean to someone who wrote a file by hand.
std::pair<std::string, std::string> explain(const std::string& message) {
  using Text = std::pair<std::string_view, std::pair<const char*, const char*>>;
  static constexpr auto kRemoveDirective = "remove the line that begins with %";
  static const Text kTexts[] = {
      {"illegal map value",
       {"a ': ' where none can stand",
        "put text that holds ': ' into quotes, or is this line indented too far?"}},
      {"end of map not found",
       {"this line does not fit the fields above it",
        "check its indentation, and that `name:` is followed by a space"}},
      {"end of map flow not found", {"a '{' is not closed, or a ',' is missing", ""}},
      {"end of sequence not found",
       {"this line does not fit the list above it", "check its indentation"}},
      {"end of sequence flow not found", {"a '[' is not closed, or a ',' is missing", ""}},
      {"illegal block entry",
       {"a list item '- ' where none can stand", "begin the list on a line of its own"}},
      {"illegal EOF in scalar", {"a quote is not closed before the end of the file", ""}},
      {"the referenced anchor is not defined",
       {"an alias (*name) of a name that is not defined above", ""}},
      {"alias not found after *",
       {"'*' begins an alias in YAML, and no name follows",
        "put text that begins with '*' into quotes"}},
      {"illegal flow end", {"a ']' or '}' that closes nothing", ""}},
      {"unknown token",
       {"a character that cannot begin a value in YAML", "put the text into quotes"}},
      {"bad file", {"nested too deep", ""}},
      {"invalid unicode", {"an escape (\\u, \\U) that names no character", ""}},
      {"unknown escape character",
       {"a backslash before a character that it does not go with",
        "in double quotes write \\\\ for a backslash, or put the text into single quotes"}},
      {"YAML major version too large", {"a version of YAML that is not known", kRemoveDirective}},
      {"bad YAML version", {"not a version of YAML", kRemoveDirective}},
      {"repeated YAML directive", {"two %YAML lines", kRemoveDirective}},
      {"repeated TAG directive", {"two %TAG lines for one handle", kRemoveDirective}},
      {"YAML directives must have", {"a %YAML line without one version", kRemoveDirective}},
      {"TAG directives must have", {"a %TAG line without handle and prefix", kRemoveDirective}},
  };
  for (const auto& [key, text] : kTexts) {
    if (message.starts_with(key)) return {text.first, text.second};
  }
  return {"not valid YAML: " + message, "put text with special characters into quotes"};
}

// `name:value` is one text to YAML, and only what comes after it is then found wrong.
std::optional<Position> findMissingSpace(const Lines& lines, std::size_t index) {
  const auto line = lines.line(index);
  const auto begin = std::min(line.find_first_not_of(" -"), line.size());
  const auto colon = line.find(':', begin);
  if (colon == std::string_view::npos || colon == begin || colon + 1 >= line.size())
    return std::nullopt;
  const auto isNamePart = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  const bool named = std::all_of(line.begin() + static_cast<std::ptrdiff_t>(begin),
                                 line.begin() + static_cast<std::ptrdiff_t>(colon), isNamePart);
  const bool spaced = std::isspace(static_cast<unsigned char>(line[colon + 1])) != 0;
  if (!named || spaced || line.find(": ") != std::string_view::npos) return std::nullopt;
  return Position{index + 1, colon + 1};
}

Error yamlError(const YAML::Exception& problem, const Lines& lines, std::string_view file,
                std::optional<Position> openBracket) {
  const auto at = lines.position(problem.mark);
  if (problem.msg.starts_with("illegal map value") && at.line >= 2) {
    if (const auto place = findMissingSpace(lines, at.line - 2)) {
      return makeError(ErrorCode::kInvalid, "no space after the colon")
          .at(formatPlace(file, *place))
          .expectedValue("`name: value`");
    }
  }
  for (const std::size_t index : {at.line - 1, at.line >= 2 ? at.line - 2 : 0}) {
    const auto line = lines.line(index);
    const auto tab = line.substr(0, line.find_first_not_of(" \t")).find('\t');
    if (tab == std::string_view::npos) continue;
    return makeError(ErrorCode::kInvalid, "a tab in the indentation")
        .at(formatPlace(file, {index + 1, tab + 1}))
        .withHint("YAML is indented by spaces");
  }
  auto [what, hint] = explain(problem.msg);
  if (hint.empty() && openBracket && problem.msg.find("flow not found") != std::string::npos)
    hint = fmt::format("it opens in line {}, column {}", openBracket->line, openBracket->column);
  return makeError(ErrorCode::kInvalid, std::move(what))
      .at(formatPlace(file, at))
      .withHint(std::move(hint));
}

// A CR that no LF follows: line ends as they were in 1999, which the library counts as none.
std::size_t findLoneReturn(std::string_view text) {
  for (auto at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1)) {
    if (at + 1 >= text.size() || text[at + 1] != '\n') return at;
  }
  return std::string_view::npos;
}

Result<void> checkBytes(std::string_view text, const Lines& lines, std::string_view file) {
  const auto refuse = [&](std::size_t offset, std::string what, std::string hint) {
    return fail(makeError(ErrorCode::kInvalid, std::move(what))
                    .at(formatPlace(file, lines.positionOf(offset)))
                    .withHint(std::move(hint)));
  };
  if (const auto bad = findInvalidUtf8(text); bad != std::string_view::npos) {
    return refuse(bad, "the file is not UTF-8", "save it as UTF-8");
  }
  if (const auto lone = findLoneReturn(text); lone != std::string_view::npos) {
    return refuse(lone, "a line end of CR alone", "save the file with line ends of LF or CRLF");
  }
  const auto control = std::find_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') ||
           c == 0x7F;
  });
  if (control == text.end()) return {};
  return refuse(static_cast<std::size_t>(control - text.begin()),
                fmt::format("a control character (0x{:02x})", static_cast<unsigned char>(*control)),
                "remove it; is this a text file?");
}

}  // namespace

std::string formatPlace(std::string_view fileName, Position at) {
  return fmt::format("{}:{}:{}", fileName, at.line, at.column);
}

std::size_t findInvalidUtf8(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  for (std::size_t i = 0; i < text.size();) {
    const auto first = byte(i);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    if (length == 0) return i;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    }
    const auto second = byte(i + 1);
    const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    const bool surrogate = first == 0xED && second >= 0xA0;
    if (overlong || surrogate || (first == 0xF4 && second >= 0x90)) return i;
    i += length;
  }
  return std::string_view::npos;
}

Result<std::vector<NodePtr>> readYaml(std::string_view text, std::string_view fileName) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (text.size() > kMaxSpecBytes) {
    return fail(makeError(ErrorCode::kInvalid, "the file is too large")
                    .at(formatPlace(fileName, {}))
                    .foundValue(fmt::format("{} bytes", text.size()))
                    .expectedValue(fmt::format("at most {}", kMaxSpecBytes)));
  }
  const Lines lines(text);
  BOLE_TRY(checkBytes(text, lines, fileName));
  std::vector<NodePtr> documents;
  TreeBuilder builder(lines, fileName);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
      auto root = builder.take();
      if (root && root->kind != NodeKind::kNull) documents.push_back(std::move(root));
    }
  } catch (const YAML::Exception& problem) {
    return fail(yamlError(problem, lines, fileName, builder.openBracket()));
  } catch (Stop& stop) {
    return fail(std::move(stop.error));
  }
  return documents;
}

}  // namespace bole::spec
