// Takes out of text what may be a secret: values of names that sound like one, bearer tokens,
// passwords in addresses. Pure. It errs on the side of taking out.
#pragma once

#include <string>
#include <string_view>

namespace bole::cli {

[[nodiscard]] std::string redacted(std::string_view text);

}  // namespace bole::cli
