#include "codec/reader.h"

namespace bole::codec {
namespace {

constexpr std::size_t kMaxDepth = 64;

// nlohmann's parser recurses by itself only on its own heap stack, but the values it makes are
// destroyed and walked recursively: depth is limited while parsing. It also keeps the last of
// doubled keys, which would hide a mistake.
class StrictSax : public nlohmann::detail::json_sax_dom_parser<nlohmann::json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<nlohmann::json>;
  explicit StrictSax(nlohmann::json& out) : Base(out, false) {}

  bool start_object(std::size_t size) {
    if (!enter()) return false;
    keys_.emplace_back();
    return Base::start_object(size);
  }
  bool end_object() {
    --depth_;
    keys_.pop_back();
    return Base::end_object();
  }
  bool start_array(std::size_t size) { return enter() && Base::start_array(size); }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  bool key(std::string& name) {
    if (!keys_.back().insert(name).second)
      return refuse("the key '" + name + "' stands twice in one object");
    return Base::key(name);
  }
  template <class Exception>
  bool parse_error(std::size_t position, const std::string& /*token*/, const Exception& /*error*/) {
    return refuse("not valid JSON at byte " + std::to_string(position));
  }

  std::string fault;

 private:
  bool enter() {
    if (++depth_ <= kMaxDepth) return true;
    return refuse("more than " + std::to_string(kMaxDepth) + " levels of nesting");
  }
  bool refuse(std::string why) {
    if (fault.empty()) fault = std::move(why);
    return false;
  }

  std::size_t depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

std::string shown(const nlohmann::json& json) {
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  auto text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

// How many single-character changes turn a into b; enough for "did you mean".
std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

Result<nlohmann::json> parseJson(std::string_view text, std::string_view where) {
  nlohmann::json out;
  StrictSax sax(out);
  bool good = false;
  try {
    good = nlohmann::json::sax_parse(text, &sax);
  } catch (const std::exception& error) {
    sax.fault = error.what();
  }
  if (good && !out.is_discarded()) return out;
  return fail(makeError(ErrorCode::kInvalid, sax.fault.empty() ? "not valid JSON" : sax.fault)
                  .at(std::string(where)));
}

Result<void> Reader::finish() {
  if (error_) return fail(std::move(*error_));
  for (const auto& item : object_.items()) {
    const std::string& name = item.key();
    if (known_.contains(name)) continue;
    auto error = makeError(ErrorCode::kInvalid, "unknown field").at(join(name));
    for (const auto candidate : known_) {
      if (name.size() < 64 && editDistance(name, candidate) <= 2) {
        error.hint = "did you mean '" + std::string(candidate) + "'?";
      }
    }
    return fail(std::move(error));
  }
  return {};
}

void Reader::missing(std::string_view name) {
  error_ = makeError(ErrorCode::kInvalid, "missing field").at(join(name));
}

Result<void> Reader::wrongType(const nlohmann::json& json, const std::string& path,
                               std::string expected) {
  return fail(makeError(ErrorCode::kInvalid, "wrong value")
                  .at(path)
                  .foundValue(shown(json))
                  .expectedValue(std::move(expected)));
}

Result<void> Reader::pairs(const nlohmann::json& json, const std::string& path,
                           std::vector<std::pair<std::string, std::string>>& out) {
  if (!json.is_array()) return wrongType(json, path, "a list of [name, value]");
  out.clear();
  for (const auto& item : json) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_string()) {
      return wrongType(item, path, "[name, value]");
    }
    out.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
  }
  return {};
}

}  // namespace bole::codec
