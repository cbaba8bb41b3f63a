#include "server/openapi.h"

#include <fmt/format.h>

#include <cctype>
#include <limits>
#include <map>

#include "codec/codec.h"

namespace bole::server {
namespace {

// What stands for {"version": ...} and {"lines": ...}, which no struct of model's is.
struct VersionView {
  std::string version;
};
struct LostView {
  std::uint64_t lines = 0;
};
template <class V, codec::Described<VersionView> T>
void describe(V& v, T& x) {
  v.field("version", x.version, "of Bole");
}
template <class V, codec::Described<LostView> T>
void describe(V& v, T& x) {
  v.field("lines", x.lines, "how many");
}

std::string quoted(std::string_view text) {
  std::string out;
  codec::appendJsonString(out, text);
  return out;
}

// The name of a described struct: its own, without namespaces.
template <class T>
constexpr std::string_view typeName() {
  std::string_view text =
      __PRETTY_FUNCTION__;  // "... [with T = bole::model::JobView; ...]" or "[T = ...]"
  text.remove_prefix(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}

std::string reference(std::string_view name) {
  return "{\"$ref\":\"#/components/schemas/" + std::string(name) + "\"}";
}

// Builds the schemas of described structs and of all that they are made of. What the writer writes
// is always there in an answer; what a request must have is what is described as required.
class Schemas {
 public:
  enum class Use { kAnswer, kRequest };

  template <class T>
  void add(Use use) {
    const std::string name(typeName<T>());
    if (schemas_.contains(name)) return;
    schemas_[name] = "";  // known, so that what refers back to itself ends
    ObjectVisitor visitor{*this, use, {}, {}};
    const T value{};
    using codec::describe;
    describe(visitor, value);
    schemas_[name] = fmt::format(
        "{{\"type\":\"object\",\"properties\":{{{}}},\"required\":[{}]{}}}", visitor.properties,
        visitor.required_, use == Use::kRequest ? ",\"additionalProperties\":false" : "");
  }

  [[nodiscard]] std::string text() const {
    std::string out;
    for (const auto& [name, schema] : schemas_) {
      out += (out.empty() ? "" : ",") + quoted(name) + ":" + schema;
    }
    return "{" + out + "}";
  }

 private:
  struct ObjectVisitor {
    template <class T>
    void field(std::string_view name, const T&, std::string_view documentation = {}) {
      property<T>(name, documentation);
      if (use == Use::kAnswer && !codec::IsOptional<T>::value) require(name);
    }
    template <class T>
    void required(std::string_view name, const T&, std::string_view documentation = {}) {
      property<T>(name, documentation);
      require(name);
    }

    template <class T>
    void property(std::string_view name, std::string_view documentation) {
      if (!properties.empty()) properties += ',';
      auto schema = owner.schemaOf<T>(use);
      if (!documentation.empty()) {
        schema.insert(schema.size() - 1, ",\"description\":" + quoted(documentation));
      }
      properties += quoted(name) + ":" + schema;
    }
    void require(std::string_view name) {
      if (!required_.empty()) required_ += ',';
      required_ += quoted(name);
    }

    Schemas& owner;
    Use use;
    std::string properties;
    std::string required_;
  };

  template <class T>
  static std::string integer() {
    return fmt::format("{{\"type\":\"integer\",\"minimum\":{},\"maximum\":{}}}",
                       std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }

  template <class T>
  static std::string enumeration() {
    std::string names;
    for (const auto name : codec::EnumNames<T>::kNames) {
      names += (names.empty() ? "" : ",") + quoted(name);
    }
    return "{\"type\":\"string\",\"enum\":[" + names + "]}";
  }

  template <class T>
  std::string schemaOf(Use use) {
    if constexpr (std::is_same_v<T, bool>)
      return "{\"type\":\"boolean\"}";
    else if constexpr (std::is_same_v<T, double>)
      return "{\"type\":\"number\"}";
    else if constexpr (std::is_integral_v<T>)
      return integer<T>();
    else if constexpr (std::is_enum_v<T>)
      return enumeration<T>();
    else if constexpr (std::is_same_v<T, std::string>)
      return "{\"type\":\"string\"}";
    else if constexpr (codec::IsQuantity<T>::value || std::is_same_v<T, Timestamp>) {
      return integer<std::int64_t>();
    } else if constexpr (codec::IsId<T>::value) {
      return integer<std::uint64_t>();
    } else if constexpr (codec::IsOptional<T>::value) {
      return schemaOf<typename T::value_type>(use);
    } else if constexpr (codec::IsShared<T>::value) {
      return schemaOf<std::remove_const_t<typename T::element_type>>(use);
    } else if constexpr (codec::IsStringPair<T>::value) {
      return "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"string\"}],"
             "\"items\":false,\"minItems\":2}";
    } else if constexpr (codec::IsVector<T>::value) {
      return "{\"type\":\"array\",\"items\":" + schemaOf<typename T::value_type>(use) + "}";
    } else {
      add<T>(use);
      return reference(typeName<T>());
    }
  }

  std::map<std::string, std::string> schemas_;
};

template <class... T>
void addAll(Schemas& schemas, Schemas::Use use) {
  (schemas.add<T>(use), ...);
}

std::string content(std::string_view type, std::string_view schema) {
  const auto inner = schema == "object" ? std::string("{\"type\":\"object\"}") : reference(schema);
  return quoted(type) + ":{\"schema\":" + inner + "}";
}

std::string outcome(const Outcome& outcome, const std::vector<EventKind>& events) {
  std::string types;
  if (!outcome.schema.empty()) types = content("application/json", outcome.schema);
  if (!events.empty()) {
    std::string kinds;
    for (const auto& kind : events) {
      kinds += (kinds.empty() ? "" : ",") + quoted(kind.name) + ":" +
               fmt::format("{{\"description\":{},\"data\":{}}}", quoted(kind.documentation),
                           reference(kind.schema));
    }
    types +=
        ",\"text/event-stream\":{\"schema\":{\"type\":\"string\"},\"x-events\":{" + kinds + "}}";
  }
  return fmt::format("{}:{{\"description\":{}{}}}", quoted(std::to_string(outcome.status)),
                     quoted(outcome.documentation),
                     types.empty() ? "" : ",\"content\":{" + types + "}");
}

std::string parameter(std::string_view name, std::string_view place, std::string_view type,
                      std::string_view documentation,
                      const std::vector<std::string_view>& values = {}) {
  std::string names;
  for (const auto value : values) names += (names.empty() ? "" : ",") + quoted(value);
  return fmt::format(
      "{{\"name\":{},\"in\":{},\"required\":{},\"description\":{},\"schema\":{{\"type\":{}{}}}}}",
      quoted(name), quoted(place), place == "path", quoted(documentation), quoted(type),
      names.empty() ? "" : ",\"enum\":[" + names + "]");
}

std::string parameters(const Route& route) {
  std::string out;
  for (const auto segment : pathSegments(route.path)) {
    if (segment.front() != '{') continue;
    const auto name = segment.substr(1, segment.size() - 2);
    out += parameter(name, "path", "string",
                     name == "job"    ? "number or name of a job"
                     : name == "node" ? "name of a machine"
                                      : "64 lower case hex digits");
  }
  for (const auto& field : route.query) {
    out += (out.empty() ? "" : ",") +
           parameter(field.name, "query", field.type, field.documentation, field.values);
  }
  return out;
}

std::string requestBody(const Route& route) {
  if (route.body == BodyKind::kNone) return "";
  const auto inner =
      route.body == BodyKind::kUpload
          ? std::string(
                "\"application/x-tar\":{\"schema\":{\"type\":\"string\",\"format\":\"binary\"}}")
          : content("application/json", route.request);
  return fmt::format(",\"requestBody\":{{\"required\":{},\"content\":{{{}}}}}", !route.bodyOptional,
                     inner);
}

std::string operation(const Route& route) {
  std::string outcomes;
  for (const auto& one : route.outcomes) {
    outcomes += outcome(one, one.status == 200 ? route.events : std::vector<EventKind>()) + ",";
  }
  return fmt::format(
      "{{\"operationId\":{},\"summary\":{},\"parameters\":[{}]{},\"responses\":{{{}\"default\":{{"
      "\"$ref\":\"#/components/responses/Error\"}}}}}}",
      quoted(route.operation), quoted(route.summary), parameters(route), requestBody(route),
      outcomes);
}

std::string lowerCase(std::string_view text) {
  std::string out(text);
  for (auto& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string paths(const std::vector<Route>& routes) {
  std::map<std::string_view, std::string> byPath;
  for (const auto& route : routes) {
    auto& methods = byPath[route.path];
    methods +=
        (methods.empty() ? "" : ",") + quoted(lowerCase(route.method)) + ":" + operation(route);
  }
  std::string out;
  for (const auto& [path, methods] : byPath) {
    out += (out.empty() ? "" : ",") + quoted(path) + ":{" + methods + "}";
  }
  return out;
}

}  // namespace

std::string openApiDocument(const std::vector<Route>& routes, const std::string& version) {
  Schemas schemas;
  addAll<model::SubmitRequest, model::StopCommand, model::PolicyRequest, model::HealthRequest,
         model::LabelsRequest>(schemas, Schemas::Use::kRequest);
  addAll<VersionView, LostView, model::StatusView, model::JobList, model::JobDetail,
         model::SubmitAnswer, model::LogPage, model::NodeList, model::GpuList, model::TopologyView,
         model::QueueList, model::PolicyView, model::PolicyAnswer, model::EventList,
         model::ErrorView>(schemas, Schemas::Use::kAnswer);
  return fmt::format(
      "{{\"openapi\":\"3.1.0\",\"info\":{{\"title\":\"Bole\",\"version\":{},\"summary\":\"A GPU "
      "cloud on one machine\",\"description\":\"Times are microseconds since 1970 UTC, 0 where not "
      "yet; durations are microseconds; sizes are bytes. See docs/api.md.\"}},\"security\":[{{"
      "\"token\":[]}}],\"paths\":{{{}}},\"components\":{{\"schemas\":{},\"responses\":{{\"Error\":{"
      "{"
      "\"description\":\"It was not done, and why\",\"content\":{{{}}}}}}},\"securitySchemes\":{{"
      "\"token\":{{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":\"For loopback TCP; on "
      "the Unix socket the kernel says who asks\"}}}}}}}}",
      quoted(version), paths(routes), schemas.text(), content("application/json", "ErrorView"));
}

}  // namespace bole::server
