// Holds answers to the OpenAPI document: a checker of just the JSON Schema that the document uses.
//
// A keyword that it does not know is a breach too, so that nothing in the document goes unchecked;
// so is a property of an answer that the document does not name.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/testing/client.h"

namespace bole::server::testing {

class Contract {
 public:
  explicit Contract(const std::string& document);

  // What is wrong, one line each; empty: nothing.
  [[nodiscard]] std::vector<std::string> check(const std::string& method, const std::string& target,
                                               const Response& response) const;
  [[nodiscard]] std::vector<std::string> check(const std::string& method, const std::string& target,
                                               const Event& event) const;
  // `schema`: the name of a component.
  [[nodiscard]] std::vector<std::string> check(const std::string& schema,
                                               const nlohmann::json& value) const;

  [[nodiscard]] const nlohmann::json& document() const { return document_; }

 private:
  using Breaches = std::vector<std::string>;
  // The operation that the document has for a request; null: none.
  [[nodiscard]] const nlohmann::json* operation(const std::string& method,
                                                const std::string& target) const;
  [[nodiscard]] const nlohmann::json& resolved(const nlohmann::json& schema) const;
  void match(const nlohmann::json& schema, const nlohmann::json& value, const std::string& where,
             Breaches& out) const;
  void matchObject(const nlohmann::json& schema, const nlohmann::json& value,
                   const std::string& where, Breaches& out) const;
  void matchArray(const nlohmann::json& schema, const nlohmann::json& value,
                  const std::string& where, Breaches& out) const;

  nlohmann::json document_;
};

}  // namespace bole::server::testing
