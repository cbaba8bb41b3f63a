#include "server/testing/contract.h"

#include <cctype>
#include <set>

#include "server/routes.h"

namespace bole::server::testing {
namespace {

using nlohmann::json;

const std::set<std::string> kKnown = {
    "$ref",    "type",    "properties",  "required", "items",       "enum",
    "minimum", "maximum", "description", "minItems", "prefixItems", "additionalProperties",
    "format"};

bool isOf(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return false;
}

std::string lowerCase(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool fits(const std::string& pattern, const std::string& path) {
  const auto wanted = pathSegments(pattern);
  const auto found = pathSegments(path);
  if (wanted.size() != found.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].front() != '{' && wanted[i] != found[i]) return false;
  }
  return true;
}

}  // namespace

Contract::Contract(const std::string& document) : document_(json::parse(document)) {}

const json* Contract::operation(const std::string& method, const std::string& target) const {
  const auto path = target.substr(0, target.find('?'));
  for (const auto& [pattern, methods] : document_.at("paths").items()) {
    if (fits(pattern, path) && methods.contains(lowerCase(method))) {
      return &methods.at(lowerCase(method));
    }
  }
  return nullptr;
}

const json& Contract::resolved(const json& schema) const {
  if (!schema.is_object() || !schema.contains("$ref")) return schema;
  const auto pointer = schema.at("$ref").get<std::string>().substr(1);
  return document_.at(json::json_pointer(pointer));
}

std::vector<std::string> Contract::check(const std::string& method, const std::string& target,
                                         const Response& response) const {
  Breaches out;
  const auto name = method + " " + target + " " + std::to_string(response.status);
  const auto* found = operation(method, target);
  const json* outcome = nullptr;
  if (found) {
    const auto& outcomes = found->at("responses");
    const auto status = std::to_string(response.status);
    outcome = outcomes.contains(status) ? &outcomes.at(status) : &resolved(outcomes.at("default"));
    if (response.status < 400 && !outcomes.contains(status)) out.push_back(name + ": undocumented");
  } else {
    if (response.status < 400) out.push_back(name + ": no such operation is documented");
    outcome = &document_.at("components").at("responses").at("Error");
  }
  if (method == "HEAD") return out;
  if (!outcome->contains("content")) {
    if (!response.body.empty()) out.push_back(name + ": a body where none is documented");
    return out;
  }
  if (response.header("content-type") != "application/json") out.push_back(name + ": not JSON");
  if (!json::accept(response.body)) return {name + ": bad JSON: " + response.body};
  match(outcome->at("content").at("application/json").at("schema"), json::parse(response.body),
        name, out);
  return out;
}

std::vector<std::string> Contract::check(const std::string& method, const std::string& target,
                                         const Event& event) const {
  Breaches out;
  const auto* found = operation(method, target);
  if (!found) return {target + ": no such operation is documented"};
  const auto& kinds =
      found->at("responses").at("200").at("content").at("text/event-stream").at("x-events");
  if (!kinds.contains(event.name)) return {target + ": undocumented event " + event.name};
  match(kinds.at(event.name).at("data"), json::parse(event.data), target + " " + event.name, out);
  return out;
}

std::vector<std::string> Contract::check(const std::string& schema, const json& value) const {
  Breaches out;
  match(document_.at("components").at("schemas").at(schema), value, schema, out);
  return out;
}

void Contract::match(const json& reference, const json& value, const std::string& where,
                     Breaches& out) const {
  const auto& schema = resolved(reference);
  for (const auto& [keyword, ignored] : schema.items()) {
    if (!kKnown.contains(keyword)) out.push_back(where + ": unknown keyword " + keyword);
  }
  const auto type = schema.at("type").get<std::string>();
  if (!isOf(value, type)) {
    out.push_back(where + ": expected " + type + ", found " + value.dump());
    return;
  }
  if (schema.contains("enum")) {
    bool known = false;
    for (const auto& name : schema.at("enum")) known = known || name == value;
    if (!known) out.push_back(where + ": not one of the names: " + value.dump());
  }
  if ((schema.contains("minimum") && value < schema.at("minimum")) ||
      (schema.contains("maximum") && value > schema.at("maximum"))) {
    out.push_back(where + ": out of range: " + value.dump());
  }
  if (type == "object") matchObject(schema, value, where, out);
  if (type == "array") matchArray(schema, value, where, out);
}

void Contract::matchObject(const json& schema, const json& value, const std::string& where,
                           Breaches& out) const {
  if (!schema.contains("properties")) return;  // "object": anything
  for (const auto& name : schema.at("required")) {
    if (!value.contains(name.get<std::string>())) {
      out.push_back(where + ": lacks " + name.get<std::string>());
    }
  }
  for (const auto& [name, inner] : value.items()) {
    if (!schema.at("properties").contains(name)) {
      out.push_back(where + ": undocumented property " + name);
      continue;
    }
    match(schema.at("properties").at(name), inner, where + "." + name, out);
  }
}

void Contract::matchArray(const json& schema, const json& value, const std::string& where,
                          Breaches& out) const {
  const auto given = [&](const char* keyword) {
    return schema.contains(keyword) ? schema.at(keyword) : json();
  };
  const auto prefix = given("prefixItems");
  if (schema.contains("minItems") && value.size() < given("minItems").get<std::size_t>()) {
    out.push_back(where + ": too short: " + value.dump());
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto place = where + "[" + std::to_string(i) + "]";
    if (i < prefix.size())
      match(prefix[i], value[i], place, out);
    else if (schema.at("items").is_boolean())
      out.push_back(place + ": one too many");
    else
      match(schema.at("items"), value[i], place, out);
  }
}

}  // namespace bole::server::testing
