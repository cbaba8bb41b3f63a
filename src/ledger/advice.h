// What errors of this room tell people to do: commands of bole's name the home they are about, for
// it need not be the one that a command without --home would act on.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace bole::ledger {

// "'bole down --home /srv/bole'", as a shell takes it.
[[nodiscard]] std::string commandFor(std::string_view command, const std::string& home);

// The home whose ledger this file is; "" for a copy that lies elsewhere.
[[nodiscard]] std::string homeOf(const std::string& ledgerPath);

// For whoever finds no ledger there; "" for a copy.
[[nodiscard]] std::string absenceAdvice(const std::string& ledgerPath);
// For whoever finds it damaged.
[[nodiscard]] std::string damageAdvice(const std::string& ledgerPath);

// At the room's doors, for where a record is found damaged the file's place is not known.
[[nodiscard]] Error advised(Error error, const std::string& ledgerPath);

template <class T>
[[nodiscard]] Result<T> advised(Result<T> result, const std::string& ledgerPath) {
  if (result) return result;
  return fail(advised(std::move(result).error(), ledgerPath));
}

}  // namespace bole::ledger
