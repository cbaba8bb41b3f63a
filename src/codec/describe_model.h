// Descriptions of nodes, jobs, events and the records of state.
#pragma once

#include "codec/visit.h"
#include "model/event.h"
#include "model/job.h"
#include "model/node.h"
#include "model/plan.h"
#include "model/policy.h"
#include "model/tables.h"

namespace bole::codec {

using namespace std::string_view_literals;

// clang-format off
template <> struct EnumNames<model::LinkKind> {
  static constexpr std::array kNames = {"X"sv, "NV"sv, "PIX"sv, "PXB"sv, "PHB"sv, "NODE"sv, "SYS"sv};
};
template <> struct EnumNames<model::GpuHealth> {
  static constexpr std::array kNames = {"healthy"sv, "suspect"sv, "draining"sv, "down"sv};
};
template <> struct EnumNames<model::JobKind> {
  static constexpr std::array kNames = {"job"sv, "instance"sv, "service"sv};
};
template <> struct EnumNames<model::Runtime> {
  static constexpr std::array kNames = {"process"sv, "plain"sv, "podman"sv};
};
template <> struct EnumNames<model::Network> {
  static constexpr std::array kNames = {"gang"sv, "host"sv};
};
template <> struct EnumNames<model::RestartKind> {
  static constexpr std::array kNames = {"never"sv, "on-failure"sv};
};
template <> struct EnumNames<model::PolicyEvent> {
  static constexpr std::array kNames = {"any"sv, "pod-failed"sv, "pod-evicted"sv, "task-completed"sv, "task-failed"sv,
                                        "exit-code"sv, "unknown"sv};
};
template <> struct EnumNames<model::PolicyAction> {
  static constexpr std::array kNames = {"abort-job"sv, "restart-job"sv, "restart-task"sv, "restart-pod"sv,
                                        "terminate-job"sv, "complete-job"sv, "resume-job"sv};
};
template <> struct EnumNames<model::DependencyKind> {
  static constexpr std::array kNames = {"ok"sv, "notok"sv, "any"sv};
};
template <> struct EnumNames<model::Preemption> {
  static constexpr std::array kNames = {"never"sv, "lower-priority"sv};
};
template <> struct EnumNames<model::JobState> {
  static constexpr std::array kNames = {"QUEUED"sv, "STARTING"sv, "RUNNING"sv, "STOPPING"sv, "SUCCEEDED"sv, "FAILED"sv,
                                        "CANCELLED"sv};
};
template <> struct EnumNames<model::StopReason> {
  static constexpr std::array kNames = {"none"sv, "cancelled"sv, "time-limit"sv, "preempted"sv, "rank-failed"sv,
                                        "server-down"sv, "dependency"sv, "node-down"sv};
};
template <> struct EnumNames<model::AttemptOutcome> {
  static constexpr std::array kNames = {"completed"sv, "failed"sv, "stopped"sv, "time-limit"sv, "launch-failed"sv,
                                        "rank-lost"sv, "supervisor-lost"sv};
};
template <> struct EnumNames<model::Obstacle> {
  static constexpr std::array kNames = {"gpus"sv, "gpus-per-node"sv, "cpus"sv, "memory"sv, "ahead"sv, "backoff"sv,
                                        "no-nodes"sv, "not-looked-at"sv, "queue-limit"sv, "guaranteed"sv, "stopping"sv, "user-limit"sv,
                                        "gpu-share"sv, "labels"sv, "dependency"sv, "begin"sv, "window"sv, "array-limit"sv, "booked"sv};
};
// clang-format on

template <class V, Described<model::Link> T>
void describe(V& v, T& x) {
  v.field("kind", x.kind, "how the two GPUs reach each other");
  v.field("nvlinks", x.nvLinks, "how many NVLinks, for NV");
}

template <class V, Described<model::Gpu> T>
void describe(V& v, T& x) {
  v.field("uuid", x.uuid, "the device's own name");
  v.field("model", x.model, "product name");
  v.field("memory", x.memory, "bytes");
  v.field("pci_bus_id", x.pciBusId, "domain:bus:device.function");
  v.field("minor", x.minor, "of /dev/nvidia<minor>");
  v.field("numa_node", x.numaNode, "-1 where unknown");
  v.field("compute_capability", x.computeCapability, "for example 8.0");
  v.field("health", x.health, "healthy, suspect, draining or down");
}

template <class V, Described<model::Node> T>
void describe(V& v, T& x) {
  v.field("name", x.name, "of the machine");
  v.field("emulated", x.emulated, "no such hardware is here");
  v.field("cpus", x.cpus, "thousandths of a CPU");
  v.field("memory", x.memory, "bytes");
  v.field("numa_nodes", x.numaNodes, "how many");
  v.field("driver_version", x.driverVersion, "of the GPU driver");
  v.field("gpus", x.gpus, "in PCI order");
  v.field("links", x.links, "GPU count squared, row by row");
  v.field("labels", x.labels, "free name and value pairs");
  v.field("health", x.health, "of the machine as a whole");
}

template <class V, Described<model::GpuRequest> T>
void describe(V& v, T& x) {
  v.field("count", x.count, "for each replica");
  v.field("share", x.share, "thousandths of each GPU; 0: by share_memory");
  v.field("share_memory", x.shareMemory, "bytes of each GPU's memory; absent: the share's part");
  v.field("models", x.models, "any of these product names");
  v.field("memory_min", x.memoryMin, "bytes of each GPU, at least");
  v.field("memory_max", x.memoryMax, "bytes of each GPU, at most");
  v.field("compute_min", x.computeMin, "compute capability in tenths, at least");
}

template <class V, Described<model::TaskShape> T>
void describe(V& v, T& x) {
  v.field("replicas", x.replicas, "1 to 65536");
  v.field("min_available", x.minAvailable, "of the replicas");
  v.field("gpus", x.gpus, "for each replica");
  v.field("cpus", x.cpus, "thousandths of a CPU for each replica");
  v.field("memory", x.memory, "bytes for each replica; 0: no limit");
  v.field("shm", x.shm, "bytes of /dev/shm; 0: by the machine");
  v.field("node_labels", x.nodeLabels, "that the node has");
}

template <class V, Described<model::RestartPolicy> T>
void describe(V& v, T& x) {
  v.field("kind", x.kind, "never or on-failure");
  v.field("max_retries", x.maxRetries, "attempts after the first");
  v.field("backoff", x.backoff, "microseconds before the first retry");
  v.field("max_backoff", x.maxBackoff, "microseconds at most");
}

template <class V, Described<model::LifecycleRule> T>
void describe(V& v, T& x) {
  v.field("task", x.task, "index, or -1 for the whole job");
  v.field("event", x.event, "what happened");
  v.field("exit_code", x.exitCode, "for exit-code");
  v.field("action", x.action, "what is done");
  v.field("timeout", x.timeout, "microseconds to wait first");
}

template <class V, Described<model::Dependency> T>
void describe(V& v, T& x) {
  v.field("job", x.job, "a job that was submitted before");
  v.field("kind", x.kind, "how it has to have ended: ok, notok or any");
}

template <class V, Described<model::ArrayPlace> T>
void describe(V& v, T& x) {
  v.field("first", x.first, "the element with the lowest number");
  v.field("count", x.count, "of elements");
  v.field("index", x.index, "what this element is called");
  v.field("most", x.most, "of the elements that run at a time; 0: any number");
}

template <class V, Described<model::JobShape> T>
void describe(V& v, T& x) {
  v.field("kind", x.kind, "job, instance or service");
  v.field("runtime", x.runtime, "process, plain or podman");
  v.field("network", x.network, "gang or host");
  v.field("queue", x.queue, "where it waits; 1: default");
  v.field("priority", x.priority, "within the queue, higher first");
  v.field("preemptible", x.preemptible,
          "may be stopped for a job with the better right, and queued again");
  v.field("spot", x.spot, "may be stopped for any job that is not");
  v.field("tasks", x.tasks, "named groups of replicas");
  v.field("min_available", x.minAvailable, "ranks that start together or not at all");
  v.field("restart", x.restart, "what happens after a failure");
  v.field("rules", x.rules, "Volcano's lifecycle policies");
  v.field("time_limit", x.timeLimit, "microseconds of one attempt; 0: none");
  v.field("grace", x.grace, "microseconds from SIGTERM to SIGKILL");
  v.field("ttl_after_finished", x.ttlAfterFinished, "microseconds; negative: by retention");
  v.field("checkpoint_every", x.checkpointEvery, "epochs");
  v.field("after", x.after, "jobs that have to have ended");
  v.field("begin", x.begin, "not started before; 0: at any time");
  v.field("delay", x.delay, "microseconds after it was submitted, not started before");
  v.field("array", x.array, "where it is one of many");
}

template <class V, Described<model::Mount> T>
void describe(V& v, T& x) {
  v.field("source", x.source, "absolute path on the node");
  v.field("target", x.target, "absolute path inside");
  v.field("read_only", x.readOnly, "");
}

template <class V, Described<model::Port> T>
void describe(V& v, T& x) {
  v.field("container", x.container, "port inside");
  v.field("host", x.host, "port outside; 0: chosen");
  v.field("address", x.address, "to listen on");
}

template <class V, Described<model::TaskText> T>
void describe(V& v, T& x) {
  v.field("name", x.name, "of the task");
  v.field("command", x.command, "argv");
  v.field("image", x.image, "empty: the host's system");
  v.field("env", x.env, "name and value pairs");
  v.field("ports", x.ports, "");
  v.field("mounts", x.mounts, "");
  v.field("working_dir", x.workingDir, "overrides the job's");
}

template <class V, Described<model::JobText> T>
void describe(V& v, T& x) {
  v.field("name", x.name, "of the job");
  v.field("user", x.user, "who submitted");
  v.field("queue", x.queue, "");
  v.field("tasks", x.tasks, "");
  v.field("working_dir", x.workingDir, "where commands start");
  v.field("checkpoint_path", x.checkpointPath, "");
  v.field("labels", x.labels, "");
  v.field("plugins", x.plugins, "Volcano's: env, svc, ssh");
  v.field("upload", x.upload, "SHA-256 of what was brought along");
  v.field("spec_source", x.specSource, "");
  v.field("request_id", x.requestId, "");
}

template <class V, Described<model::JobSpec> T>
void describe(V& v, T& x) {
  v.field("shape", x.shape, "what decisions read");
  v.field("text", x.text, "what people and processes read");
  v.field("after", x.after, "what kind of end (ok, notok, any) of which job, by number or name");
  v.field("array", x.array, "what the elements of an array are called, ascending");
  v.field("array_most", x.arrayMost, "of the elements that run at a time; 0: any number");
}

template <class V, Described<model::GpuGrant> T>
void describe(V& v, T& x) {
  v.field("share", x.share, "thousandths");
  v.field("memory", x.memory, "bytes; 0: all of a whole GPU");
}

template <class V, Described<model::RankPlacement> T>
void describe(V& v, T& x) {
  v.field("task", x.task, "index");
  v.field("replica", x.replica, "index in the task");
  v.field("node", x.node, "id");
  v.field("gpus", x.gpus, "indices on the node");
  v.field("grants", x.grants, "what of each GPU; none: whole ones");
}

template <class V, Described<model::RankExit> T>
void describe(V& v, T& x) {
  v.field("rank", x.rank, "");
  v.field("known", x.known, "false: the status was never written down");
  v.field("status", x.status, "raw wait status");
}

template <class V, Described<model::ServerStarted> T>
void describe(V& v, T& x) {
  v.field("version", x.version, "of Bole");
  v.field("boot_id", x.bootId, "of the machine's kernel");
}

template <class V, Described<model::ClockAdjusted> T>
void describe(V& v, T& x) {
  v.field("jump", x.jump, "microseconds of wall time beyond the monotonic clock");
  v.field("suspended", x.suspended, "microseconds of it asleep");
  v.field("leap", x.leap, "microseconds that ledger time skipped");
}

template <class V, Described<model::ProjectCreated> T>
void describe(V& v, T& x) {
  v.required("project", x.project, "");
  v.required("name", x.name, "side value");
}

template <class V, Described<model::UserSeen> T>
void describe(V& v, T& x) {
  v.required("user", x.user, "");
  v.required("name", x.name, "side value");
}

template <class V, Described<model::NodeRegistered> T>
void describe(V& v, T& x) {
  v.required("id", x.id, "");
  v.required("node", x.node, "");
}

template <class V, Described<model::NodeLost> T>
void describe(V& v, T& x) {
  v.required("id", x.id, "");
}

template <class V, Described<model::HealthSet> T>
void describe(V& v, T& x) {
  v.required("node", x.node, "");
  v.field("gpu", x.gpu, "index; -1: the node as a whole");
  v.required("health", x.health, "healthy, suspect, draining or down");
  v.field("until", x.until, "healthy again from then on; 0: until someone says so");
  v.field("why", x.why, "side value");
}

template <class V, Described<model::NodeLabelled> T>
void describe(V& v, T& x) {
  v.required("node", x.node, "");
  v.field("labels", x.labels, "all that operators have given it");
}

template <class V, Described<model::JobSubmitted> T>
void describe(V& v, T& x) {
  v.required("job", x.job, "");
  v.required("project", x.project, "");
  v.required("user", x.user, "");
  v.required("shape", x.shape, "");
  v.required("text", x.text, "side value");
}

template <class V, Described<model::AttemptPlanned> T>
void describe(V& v, T& x) {
  v.required("attempt", x.attempt, "");
  v.required("job", x.job, "");
  v.field("number", x.number, "of the job's attempts");
  v.required("ranks", x.ranks, "");
}

template <class V, Described<model::AttemptStarted> T>
void describe(V& v, T& x) {
  v.required("attempt", x.attempt, "");
}

template <class V, Described<model::StopRequested> T>
void describe(V& v, T& x) {
  v.required("job", x.job, "");
  v.field("reason", x.reason, "");
  v.field("grace", x.grace, "microseconds");
  v.field("beneficiary", x.beneficiary, "the job that what is freed is held for");
}

template <class V, Described<model::KindAmount> T>
void describe(V& v, T& x) {
  v.field("kind", x.kind, "words of the product name");
  v.field("gpus", x.gpus, "thousandths of a GPU");
}

template <class V, Described<model::Amounts> T>
void describe(V& v, T& x) {
  v.field("gpus", x.gpus, "thousandths of a GPU, of all kinds");
  v.field("kinds", x.kinds, "GPUs of one kind");
  v.field("cpus", x.cpus, "thousandths of a CPU");
  v.field("memory", x.memory, "bytes");
}

template <class V, Described<model::Window> T>
void describe(V& v, T& x) {
  v.field("days", x.days, "on which it opens; bit 0: Monday");
  v.field("from", x.from, "minute of the day");
  v.field("length", x.length, "minutes");
}

template <class V, Described<model::Booking> T>
void describe(V& v, T& x) {
  v.field("name", x.name, "");
  v.field("queue", x.queue, "whose it is");
  v.field("amounts", x.amounts, "on top of what the queue is guaranteed");
  v.field("from", x.from, "");
  v.field("to", x.to, "");
}

template <class V, Described<model::Queue> T>
void describe(V& v, T& x) {
  v.field("id", x.id, "");
  v.field("name", x.name, "");
  v.field("parent", x.parent, "0: at the top");
  v.field("guaranteed", x.guaranteed, "its own whenever it wants it");
  v.field("limit", x.limit, "never more, its children included");
  v.field("weight", x.weight, "its part of what is left over the guarantees");
  v.field("preemption", x.preemption, "whose jobs may be stopped for one of this queue");
  v.field("per_user", x.perUser, "what one user may hold of it");
  v.field("per_user_running", x.perUserRunning, "how many jobs of one user may run in it");
  v.field("windows", x.windows, "jobs start only in one of these; none: at any time");
}

template <class V, Described<model::Policy> T>
void describe(V& v, T& x) {
  v.field("queues", x.queues, "parents first");
  v.field("patience", x.patience, "microseconds that smaller jobs may pass one that does not fit");
  v.field("half_life", x.halfLife,
          "microseconds after which use of the past counts half; 0: only now counts");
  v.field("bookings", x.bookings, "what is a queue's own for a while");
  v.field("utc_offset", x.utcOffset, "microseconds, of local time");
}

template <class V, Described<model::ReservationMade> T>
void describe(V& v, T& x) {
  v.required("job", x.job, "");
  v.field("nodes", x.nodes, "that are drained for it; none: no longer");
}

template <class V, Described<model::PolicySet> T>
void describe(V& v, T& x) {
  v.required("policy", x.policy, "how the cloud is shared from here on");
}

template <class V, Described<model::AttemptEnded> T>
void describe(V& v, T& x) {
  v.required("attempt", x.attempt, "");
  v.required("outcome", x.outcome, "");
  v.field("first_failed", x.firstFailed, "rank, or -1");
  v.field("ranks", x.ranks, "");
  v.field("note", x.note, "side value");
}

template <class V, Described<model::JobRequeued> T>
void describe(V& v, T& x) {
  v.required("job", x.job, "");
  v.field("not_before", x.notBefore, "");
  v.field("retries", x.retries, "");
}

template <class V, Described<model::JobEnded> T>
void describe(V& v, T& x) {
  v.required("job", x.job, "");
  v.required("state", x.state, "");
  v.field("reason", x.reason, "");
}

template <class V, Described<model::CheckpointRecorded> T>
void describe(V& v, T& x) {
  v.required("attempt", x.attempt, "");
  v.field("epoch", x.epoch, "");
  v.field("size", x.size, "bytes");
  v.field("path", x.path, "side value");
}

template <class V, Described<model::JobForgotten> T>
void describe(V& v, T& x) {
  v.required("job", x.job, "");
}

template <class V, Described<model::JobRecord> T>
void describe(V& v, T& x) {
  v.field("id", x.id);
  v.field("project", x.project);
  v.field("user", x.user);
  v.field("text", x.text);
  v.field("shape", x.shape);
  v.field("state", x.state);
  v.field("submitted_at", x.submittedAt);
  v.field("queued_at", x.queuedAt);
  v.field("not_before", x.notBefore);
  v.field("started_at", x.startedAt);
  v.field("running_at", x.runningAt);
  v.field("ended_at", x.endedAt);
  v.field("attempt", x.attempt);
  v.field("attempts", x.attempts);
  v.field("retries", x.retries);
  v.field("stop", x.stop);
  v.field("reserved_on", x.reservedOn);
  v.field("promised", x.promised);
  v.field("freed_for", x.freedFor);
  v.field("waits_for", x.waitsFor);
  v.field("broken_by", x.brokenBy);
  v.field("dependents", x.dependents);
  v.field("outcome", x.outcome);
  v.field("first_failed", x.firstFailed);
  v.field("failure", x.failure);
  v.field("milli_gpu_micros", x.milliGpuMicros);
  v.field("checkpoints", x.checkpoints);
  v.field("checkpoint_epoch", x.checkpointEpoch);
  v.field("checkpoint_path", x.checkpointPath);
}

template <class V, Described<model::AttemptRecord> T>
void describe(V& v, T& x) {
  v.field("id", x.id);
  v.field("job", x.job);
  v.field("number", x.number);
  v.field("live", x.live);
  v.field("ranks", x.ranks);
  v.field("planned_at", x.plannedAt);
  v.field("started_at", x.startedAt);
  v.field("ended_at", x.endedAt);
  v.field("outcome", x.outcome);
  v.field("exits", x.exits);
  v.field("first_failed", x.firstFailed);
  v.field("note", x.note);
  v.field("leaps_before", x.leapsBefore);
  v.field("checkpoint_epoch", x.checkpointEpoch);
  v.field("checkpoint_at", x.checkpointAt);
  v.field("stop", x.stop);
  v.field("stopped_for", x.stoppedFor);
}

template <class V, Described<model::HealthMark> T>
void describe(V& v, T& x) {
  v.field("gpu", x.gpu);
  v.field("health", x.health);
  v.field("until", x.until);
  v.field("why", x.why);
}

template <class V, Described<model::NodeRecord> T>
void describe(V& v, T& x) {
  v.field("id", x.id);
  v.field("node", x.node);
  v.field("probed", x.probed);
  v.field("marks", x.marks);
  v.field("labels", x.labels);
  v.field("present", x.present);
  v.field("gpu_used", x.gpuUsed);
  v.field("gpu_memory_used", x.gpuMemoryUsed);
  v.field("gpu_holder", x.gpuHolder);
  v.field("cpus_used", x.cpusUsed);
  v.field("memory_used", x.memoryUsed);
}

template <class V, Described<model::QueueUse> T>
void describe(V& v, T& x) {
  v.field("id", x.id);
  v.field("at", x.at);
  v.field("gpus", x.gpus);
  v.field("cpus", x.cpus);
  v.field("memory", x.memory);
  v.field("gpus_held", x.gpusHeld);
  v.field("cpus_held", x.cpusHeld);
  v.field("memory_held", x.memoryHeld);
}

template <class V, Described<model::RunTimes::OfSize> T>
void describe(V& v, T& x) {
  v.field("size", x.size);
  v.field("newest", x.newest);
}

template <class V, Described<model::RunTimes> T>
void describe(V& v, T& x) {
  v.field("id", x.id);
  v.field("sizes", x.sizes);
}

template <class V, Described<model::Reason> T>
void describe(V& v, T& x) {
  v.field("obstacle", x.obstacle, "what stands in the way");
  v.field("needed", x.needed, "in the obstacle's own unit");
  v.field("available", x.available, "the most that is free now");
  v.field("ahead", x.ahead, "the job that capacity is kept for");
  v.field("queue", x.queue, "whose limit or guarantee it is");
  v.field("until", x.until, "when it is expected to go");
  v.field("detail", x.detail, "what kind was looked for");
}

}  // namespace bole::codec
