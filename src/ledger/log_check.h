// SQLite takes a write-ahead log up to the first frame whose sum is wrong, and drops the rest
// without a word: right after a power loss, where that is the end of a write that nobody was told
// of, and wrong after damage in the middle, where acknowledged events would vanish. This tells the
// two apart: a transaction is written only after the one before it was flushed, so behind a write
// that was cut off no two further commits can stand.
#pragma once

#include <string>

#include "base/result.h"

namespace bole::ledger {

// `path` is that of the database; its log may be absent. kCorrupt: the log is damaged where it had
// been flushed. Works beside a writer; only reads. Format: https://www.sqlite.org/fileformat2.html,
// "The Write-Ahead Log".
[[nodiscard]] Result<void> checkLog(const std::string& path);

}  // namespace bole::ledger
