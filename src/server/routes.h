// What the API has, as data: the same table finds the handler of a request, refuses what it does
// not know, and becomes the OpenAPI document.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace bole::server {

class Api;

enum class BodyKind {
  kNone,
  kJson,    // read whole, at most Limits::jsonBytes
  kUpload,  // streamed to a file, see uploads.h
};

struct Parameter {
  std::string_view name;
  std::string_view type;  // of JSON Schema: "integer", "boolean", "string"
  std::string_view documentation;
  std::vector<std::string_view> values{};  // it is one of these; empty: anything of the type
};

struct Outcome {
  unsigned status;
  std::string_view schema;  // a component of the OpenAPI document; empty: no body
  std::string_view documentation;
};

// One kind of server-sent event.
struct EventKind {
  std::string_view name;
  std::string_view schema;
  std::string_view documentation;
};

struct Route {
  std::string_view method;
  std::string_view path;       // "/v1/jobs/{job}/stop": a segment in braces takes any value
  std::string_view operation;  // its name in the OpenAPI document
  std::string_view summary;
  BodyKind body = BodyKind::kNone;
  std::string_view request{};  // the body's schema
  bool bodyOptional = false;
  std::vector<Parameter> query{};
  std::vector<Outcome> outcomes;    // beside errors
  std::vector<EventKind> events{};  // where it can be followed
  void (Api::*handle)(const Request&, const Respond&) const = nullptr;
};

[[nodiscard]] const std::vector<Route>& routes();

// Those of `values` that were meant by `found`, which is none of them: the nearest one, else those
// that have a part in common with it, else none.
[[nodiscard]] std::vector<std::string_view> nearestValues(
    const std::string& found, const std::vector<std::string_view>& values);

// Of "/v1/jobs/{job}/stop": {"v1", "jobs", "{job}", "stop"}.
[[nodiscard]] std::vector<std::string_view> pathSegments(std::string_view path);

}  // namespace bole::server
