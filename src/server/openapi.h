// The OpenAPI 3.1 document of the API, made from the table of routes and the descriptions of the
// codec.
#pragma once

#include <string>
#include <vector>

#include "server/routes.h"

namespace bole::server {

[[nodiscard]] std::string openApiDocument(const std::vector<Route>& routes,
                                          const std::string& version);

}  // namespace bole::server
