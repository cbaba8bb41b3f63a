// What is asked for, and for whom.
#pragma once

#include "model/job.h"
#include "model/tables.h"

namespace bole::scheduler {

struct Claim {
  // For nobody in particular: no user's limits count.
  Claim(const model::JobShape& of) : shape(of) {}  // NOLINT(google-explicit-constructor)
  Claim(const model::JobRecord& job)               // NOLINT(google-explicit-constructor)
      : shape(*job.shape), user(job.user) {}

  const model::JobShape& shape;
  UserId user;
};

}  // namespace bole::scheduler
