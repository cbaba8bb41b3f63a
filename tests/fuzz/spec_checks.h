// What every answer of parseSpec() promises: an error with file, line and column, or jobs that keep
// to the limits of model/job.h and come back from JSON as they were.
#pragma once

#include "spec/spec.h"

namespace bole::fuzz {

void parseAndHold(const spec::SpecFile& file, const spec::ParseContext& context);

// Of the text of a file: its place is inside of it.
void holdSpecError(const Error& error, const spec::SpecFile& file);

void holdJob(const model::JobSpec& spec);

// A submitter as the fuzzers have him.
[[nodiscard]] spec::ParseContext submitter();

}  // namespace bole::fuzz
