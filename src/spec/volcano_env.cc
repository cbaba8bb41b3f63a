#include "spec/volcano_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "spec/grammar.h"
#include "spec/kubernetes.h"
#include "spec/number.h"

namespace bole::spec {
namespace {

constexpr std::size_t kMaxVariables = 4096;
constexpr std::size_t kLongestName = 256;

// Kubernetes also allows '.' and '-' in names.
Result<std::string> parseContainerEnvName(std::string_view text) {
  const auto good = [](char c) {
    return isLetter(c) || isDigit(c) || c == '_' || c == '.' || c == '-';
  };
  if (!text.empty() && text.size() <= kLongestName && !isDigit(text[0]) &&
      std::all_of(text.begin(), text.end(), good)) {
    return std::string(text);
  }
  return fail(makeError(ErrorCode::kInvalid, "not the name of an environment variable")
                  .expectedValue("letters, digits, '_', '.' and '-', not beginning with a digit"));
}

struct Variable {
  std::string name;
  std::optional<Value> value;
  std::optional<Value> source;
};

class EnvReader {
 public:
  EnvReader(Session& session, Environment& env)
      : session_(session), reader_(session.reader), env_(env) {}

  Result<void> readOne(const Value& item) {
    Variable variable;
    ObjectFields fields;
    fields.readers = {
        {"name",
         [&](const Value& v) {
           return readBy(reader_, v, "a name", parseContainerEnvName, variable.name);
         }},
        {"value",
         [&](const Value& v) -> Result<void> {
           variable.value = v;
           return {};
         }},
        {"valueFrom",
         [&](const Value& v) -> Result<void> {
           variable.source = v;
           return {};
         }},
    };
    BOLE_TRY(readObject(reader_, item, fields));
    if (variable.name.empty())
      return fail(reader_.error(item.at, item.path + ": a variable without a name")
                      .expectedValue("`name: NAME`"));
    if (variable.value && variable.source) {
      return fail(reader_.error(item.at, item.path + ": value and valueFrom in one variable")
                      .expectedValue("one of them"));
    }
    if (variable.source) return readSource(*variable.source, variable.name);
    std::string text;
    if (variable.value) {
      BOLE_ASSIGN(text, reader_.readText(*variable.value, "text"));
      BOLE_ASSIGN(text, expandReferences(session_, *variable.value, text, env_));
    }
    env_.set(variable.name, std::move(text));
    return {};
  }

 private:
  Result<void> readSource(const Value& source, const std::string& name) {
    if (!source.is(NodeKind::kMap) || source.node->fields.size() != 1) {
      return fail(
          reader_.error(source, "not one source of a value")
              .expectedValue("secretKeyRef, configMapKeyRef, fieldRef or resourceFieldRef"));
    }
    const auto& field = source.node->fields[0];
    const auto inner = reader_.fieldOf(source, field);
    if (field.key == "fieldRef" || field.key == "resourceFieldRef") {
      std::string which;
      if (inner.is(NodeKind::kMap)) {
        const auto path =
            findField(reader_, inner, field.key == "fieldRef" ? "fieldPath" : "resource");
        if (path && path->is(NodeKind::kScalar)) which = " (" + path->text() + ")";
      }
      reader_.warn(source.at, fmt::format("{}: {} is not set: there is no pod to read it from{}",
                                          source.path, name, which));
      return {};
    }
    if (field.key != "secretKeyRef" && field.key != "configMapKeyRef") {
      reader_.warn(source.at, fmt::format("{}: {} is not set: its source is not known here",
                                          source.path, name));
      return {};
    }
    if (isOptional(inner) && !isGiven(name)) {
      reader_.warn(source.at,
                   fmt::format("{}: {} is not set: there are no secrets and config maps here",
                               source.path, name));
      return {};
    }
    return takeBareEnv(session_, source, name, env_);
  }

  [[nodiscard]] bool isOptional(const Value& reference) const {
    if (!reference.is(NodeKind::kMap)) return false;
    const auto flag = findField(reader_, reference, "optional");
    return flag && flag->is(NodeKind::kScalar) && flag->text() == "true";
  }

  [[nodiscard]] bool isGiven(const std::string& name) const {
    return session_.given.contains(name);
  }

  Session& session_;
  Reader& reader_;
  Environment& env_;
};

}  // namespace

Result<void> readContainerEnv(Session& session, const Value& list, Environment& env) {
  EnvReader one(session, env);
  if (list.node->items.size() > kMaxVariables) {
    return fail(session.reader.error(list.at, list.path + ": too many entries")
                    .expectedValue(fmt::format("at most {}", kMaxVariables)));
  }
  return session.reader.readItems(list, [&](const Value& item) { return one.readOne(item); });
}

Result<std::string> expandReferences(Session& session, const Value& value, const std::string& text,
                                     const Environment& env) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    if (text[i + 1] == '$') {
      out += '$';
      ++i;
      continue;
    }
    const auto inside =
        std::string_view(text).substr(std::min(i + 2, text.size()), kLongestName + 1);
    const auto length = text[i + 1] == '(' ? inside.find(')') : std::string_view::npos;
    const auto name =
        length == std::string_view::npos ? std::string_view() : inside.substr(0, length);
    const auto end = i + 2 + name.size();  // of the reference
    const auto* found = env.find(name);
    if (!parseContainerEnvName(name)) {
      out += text[i];  // a shell's own $(command), or a lone $
    } else if (!found) {
      session.reader.warn(
          value.at,
          fmt::format("{}: $({}) is not known before the job runs and stays as it is written",
                      value.path, name));
      out.append(text, i, end - i + 1);
      i = end;
    } else {
      out += *found;
      i = end;
    }
    if (out.size() > kMaxArgument) break;
  }
  BOLE_TRY(grow(session, value, out.size()));
  if (out.size() <= kMaxArgument) return out;
  return fail(session.reader.error(value.at, value.path + ": grows too long")
                  .expectedValue(fmt::format("at most {} bytes", kMaxArgument)));
}

}  // namespace bole::spec
