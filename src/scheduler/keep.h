// What is kept for a job that has lost patience.
#pragma once

#include "model/job.h"
#include "scheduler/world.h"

namespace bole::scheduler {

// Takes from `world` all that the job could use of it, and no more: on each node that could ever
// serve one of its ranks, the idle GPUs, CPUs and memory of as many ranks as the node could hold.
// As what runs there ends, this grows until the job fits. Tasks without GPUs (a launcher) that fit
// beside that are kept one place and no other. Other nodes are left as they are.
void keepFor(World& world, const model::JobShape& shape);

}  // namespace bole::scheduler
