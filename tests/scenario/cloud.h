// The field `cloud` of a scenario file: the grammar of `bole up --emulate`, with what a scenario
// changes of it.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/node.h"
#include "spec/reader.h"

namespace bole::test {

// Nodes are named n1, n2, ... in the order written.
[[nodiscard]] Result<std::vector<model::Node>> readCloud(const spec::Reader& reader,
                                                         const spec::Value& value);

}  // namespace bole::test
