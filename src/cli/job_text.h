// Jobs as people read them: the listing, everything about one, why it waits, and how it ended.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/table.h"
#include "model/views.h"

namespace bole::cli {

[[nodiscard]] std::string jobPath(const std::string& job);  // of the API, for a number or a name

// Their queues are named where there is more than one.
[[nodiscard]] Table jobTable(const model::JobList& list);
[[nodiscard]] std::string detailText(const model::JobDetail& detail, const TableStyle& style);
// `stoppedBy`: who cancelled it; empty: not known.
[[nodiscard]] std::string whyText(const model::JobDetail& detail, Timestamp now,
                                  const TableStyle& style, const std::string& stoppedBy = {});

// The few lines with which `run` and `attach` end.
[[nodiscard]] std::string summaryText(const model::JobDetail& detail, const TableStyle& style);

// "at once, on box-1 (GPU 0-3)"; "about 2026-09-21 13:56:41 UTC, in 12m, on box-1 (GPU 2)".
[[nodiscard]] std::string expectedText(const model::ExpectedView& expected, Timestamp now);

// One obstacle in words: "GPUs: 8 of A100 needed, 2 free now".
[[nodiscard]] std::string obstacleText(const model::Reason& reason);

}  // namespace bole::cli
