// Descriptions of what the API takes and answers.
#pragma once

#include "codec/describe_model.h"
#include "model/views.h"

namespace bole::codec {

template <class V, Described<model::ExitView> T>
void describe(V& v, T& x) {
  v.field("rank", x.rank, "");
  v.field("known", x.known, "false: the status was never written down");
  v.field("code", x.code, "exit code, -1 where there is none");
  v.field("signal", x.signal, "the signal that ended it, or 0");
  v.field("text", x.text, "for people");
}

template <class V, Described<model::ProgressView> T>
void describe(V& v, T& x) {
  v.field("done", x.done, "epochs or steps");
  v.field("total", x.total, "0: not told");
  v.field("unit", x.unit, "epoch or step");
  v.field("values", x.values, "as the job wrote them");
  v.field("at", x.at, "");
}

template <class V, Described<model::JobView> T>
void describe(V& v, T& x) {
  v.field("id", x.id, "number, given once");
  v.field("name", x.name, "");
  v.field("project", x.project, "");
  v.field("user", x.user, "");
  v.field("state", x.state, "");
  v.field("reason", x.reason, "why it waits or how it ended");
  v.field("queue", x.queue, "where it waits and what it counts against");
  v.field("priority", x.priority, "within its queue, higher first");
  v.field("ranks", x.ranks, "");
  v.field("gpus", x.gpus, "of all ranks");
  v.field("emulated", x.emulated, "its GPUs are emulated");
  v.field("submitted_at", x.submittedAt, "");
  v.field("started_at", x.startedAt, "of the newest attempt");
  v.field("ended_at", x.endedAt, "");
  v.field("running", x.running, "microseconds of the newest attempt so far");
  v.field("attempts", x.attempts, "");
  v.field("progress", x.progress, "newest report of rank 0");
  v.field("array_index", x.arrayIndex, "of an array's element: what it is called");
  v.field("array_first", x.arrayFirst, "of an array: the element with the lowest number");
}

template <class V, Described<model::RankView> T>
void describe(V& v, T& x) {
  v.field("rank", x.rank, "");
  v.field("task", x.task, "");
  v.field("replica", x.replica, "");
  v.field("node", x.node, "");
  v.field("gpus", x.gpus, "indices on the node");
  v.field("exit", x.exit, "");
}

template <class V, Described<model::AttemptView> T>
void describe(V& v, T& x) {
  v.field("id", x.id, "");
  v.field("number", x.number, "");
  v.field("planned_at", x.plannedAt, "capacity taken");
  v.field("started_at", x.startedAt, "every rank runs");
  v.field("ended_at", x.endedAt, "capacity free");
  v.field("outcome", x.outcome, "empty while it lives");
  v.field("stop", x.stop, "why it was asked to stop; empty if it was not");
  v.field("stopped_for", x.stoppedFor, "the job that it made room for");
  v.field("first_failed", x.firstFailed, "rank, or -1");
  v.field("note", x.note, "");
  v.field("log_directory", x.logDirectory, "");
  v.field("ranks", x.ranks, "");
}

template <class V, Described<model::CheckpointView> T>
void describe(V& v, T& x) {
  v.field("epoch", x.epoch, "");
  v.field("path", x.path, "");
}

template <class V, Described<model::ExpectedView> T>
void describe(V& v, T& x) {
  v.field("at", x.at, "");
  v.field("ranks", x.ranks, "where each would be");
}

template <class V, Described<model::JobDetail> T>
void describe(V& v, T& x) {
  v.field("summary", x.summary, "");
  v.field("spec", x.spec, "");
  v.field("reasons", x.reasons, "while it waits");
  v.field("expected", x.expected,
          "when it is expected to start, where it was asked for and is known");
  v.field("attempts", x.attempts, "oldest first");
  v.field("gpu_milliseconds", x.gpuMilliseconds, "whole GPUs x milliseconds");
  v.field("working_directory", x.workingDirectory, "");
  v.field("checkpoint_directory", x.checkpointDirectory, "");
  v.field("checkpoint", x.checkpoint, "newest complete one");
  v.field("last_lines", x.lastLines, "of the rank that failed first");
  v.field("exit_code", x.exitCode, "of the job; -1 while not ended");
}

template <class V, Described<model::GpuView> T>
void describe(V& v, T& x) {
  v.field("node", x.node, "");
  v.field("index", x.index, "in PCI order");
  v.field("uuid", x.uuid, "");
  v.field("model", x.model, "");
  v.field("memory", x.memory, "bytes");
  v.field("pci_bus_id", x.pciBusId, "");
  v.field("health", x.health, "");
  v.field("healthy_at", x.healthyAt, "by itself; 0: not, or it is");
  v.field("why", x.why, "it is not healthy");
  v.field("emulated", x.emulated, "");
  v.field("used", x.used, "thousandths");
  v.field("memory_used", x.memoryUsed,
          "bytes, by who holds a part of it; a whole one is not counted");
  v.field("job", x.job, "who holds it whole");
  v.field("sharers", x.sharers, "who holds parts of it");
  v.field("job_name", x.jobName, "");
  v.field("user", x.user, "");
}

template <class V, Described<model::NodeView> T>
void describe(V& v, T& x) {
  v.field("name", x.name, "");
  v.field("present", x.present, "");
  v.field("emulated", x.emulated, "");
  v.field("gpu_model", x.gpuModel, "");
  v.field("gpus", x.gpus, "");
  v.field("gpus_used", x.gpusUsed, "");
  v.field("cpus", x.cpus, "thousandths");
  v.field("cpus_used", x.cpusUsed, "thousandths");
  v.field("memory", x.memory, "bytes");
  v.field("memory_used", x.memoryUsed, "bytes");
  v.field("driver_version", x.driverVersion, "");
  v.field("health", x.health, "healthy, suspect, draining or down");
  v.field("healthy_at", x.healthyAt, "by itself; 0: not, or it is");
  v.field("why", x.why, "it is not healthy");
  v.field("labels", x.labels, "that jobs may ask for");
}

template <class V, Described<model::StatusView> T>
void describe(V& v, T& x) {
  v.field("version", x.version, "");
  v.field("home", x.home, "");
  v.field("pid", x.pid, "");
  v.field("started_at", x.startedAt, "");
  v.field("now", x.now, "ledger time");
  v.field("writable", x.writable, "false: new commands are refused");
  v.field("problem", x.problem, "");
  v.field("notes", x.notes, "what this machine cannot do");
  v.field("events", x.events, "in the ledger");
  v.field("queued", x.queued, "");
  v.field("running", x.running, "");
  v.field("gpus", x.gpus, "");
  v.field("gpus_used", x.gpusUsed, "");
  v.field("emulated", x.emulated, "");
  v.field("sandbox", x.sandbox, "");
}

template <class V, Described<model::BookingView> T>
void describe(V& v, T& x) {
  v.field("name", x.name, "");
  v.field("queue", x.queue, "whose it is");
  v.field("amounts", x.amounts, "on top of what the queue is guaranteed");
  v.field("from", x.from, "");
  v.field("to", x.to, "");
}

template <class V, Described<model::HealthRequest> T>
void describe(V& v, T& x) {
  v.required("health", x.health, "healthy, suspect, draining or down");
  v.field("gpu", x.gpu, "index; absent: the node as a whole");
  v.field("lasts", x.lasts, "microseconds; healthy again after that; 0: until someone says so");
  v.field("why", x.why, "for people");
}

template <class V, Described<model::LabelsRequest> T>
void describe(V& v, T& x) {
  v.field("set", x.set, "names and values");
  v.field("remove", x.remove, "names");
}

template <class V, Described<model::QueueView> T>
void describe(V& v, T& x) {
  v.field("name", x.name, "");
  v.field("parent", x.parent, "the queue above it; empty: it stands at the top");
  v.field("depth", x.depth, "0 at the top");
  v.field("guaranteed", x.guaranteed, "as the policy has it");
  v.field("effective", x.effective,
          "what is guaranteed now: more where the queues below have more together, less where the "
          "cloud lacks it");
  v.field("limit", x.limit, "never more, those below it included");
  v.field("weight", x.weight, "its part of what is left over the guarantees");
  v.field("preemption", x.preemption, "whose jobs may be stopped for one of this queue");
  v.field("per_user", x.perUser, "what one user may hold of it");
  v.field("per_user_running", x.perUserRunning, "how many jobs of one user may run in it");
  v.field("used", x.used, "by it and those below it");
  v.field("opens_at", x.opensAt, "when it starts jobs again; absent: it does");
  v.field("waiting", x.waiting, "jobs in it and below it");
  v.field("running", x.running, "jobs in it and below it that hold something");
}

template <class V, Described<model::PolicyView> T>
void describe(V& v, T& x) {
  v.field("text", x.text, "a policy file, in its canonical form");
  v.field("policy", x.policy, "the same");
}

template <class V, Described<model::PolicyRequest> T>
void describe(V& v, T& x) {
  v.required("text", x.text, "a policy file");
  v.field("file_name", x.fileName, "for messages");
  v.field("dry_run", x.dryRun, "change nothing");
}

template <class V, Described<model::PolicyAnswer> T>
void describe(V& v, T& x) {
  v.field("text", x.text, "the policy that is set, or would be, in its canonical form");
  v.field("changes", x.changes, "for people; empty: nothing changes");
  v.field("warnings", x.warnings, "");
}

template <class V, Described<model::EventView> T>
void describe(V& v, T& x) {
  v.field("sequence", x.sequence, "");
  v.field("time", x.time, "");
  v.field("kind", x.kind, "");
  v.field("actor", x.actor, "");
  v.field("project", x.project, "");
  v.field("source", x.source, "");
  v.field("summary", x.summary, "");
  v.field("body", x.body, "JSON text");
}

template <class V, Described<model::LogLineView> T>
void describe(V& v, T& x) {
  v.field("time", x.time, "");
  v.field("rank", x.rank, "");
  v.field("stream", x.stream, "out or err");
  v.field("text", x.text, "");
}

template <class V, Described<model::SubmitRequest> T>
void describe(V& v, T& x) {
  v.required("spec", x.spec, "text of a bole.yaml or Volcano Job");
  v.field("file_name", x.fileName, "for messages");
  v.field("directory", x.directory, "where relative paths begin");
  v.field("env", x.env, "values for bare names in the spec");
  v.field("upload", x.upload, "SHA-256 of an archive that is here: PUT /v1/uploads");
  v.field("project", x.project, "");
  v.field("request_id", x.requestId, "the same again submits nothing");
  v.field("dry_run", x.dryRun, "check only");
}

template <class V, Described<model::Submitted> T>
void describe(V& v, T& x) {
  v.field("id", x.id, "");
  v.field("name", x.name, "");
  v.field("warnings", x.warnings, "");
  v.field("existed", x.existed, "the request id was seen before");
  v.field("count", x.count, "of an array: how many jobs, numbered from id on");
  v.field("expected", x.expected, "of a dry run: when it would start, where that is known");
}

template <class V, Described<model::SubmitAnswer> T>
void describe(V& v, T& x) {
  v.field("jobs", x.jobs, "");
}

template <class V, Described<model::StopCommand> T>
void describe(V& v, T& x) {
  v.field("grace", x.grace, "microseconds; negative: the job's own");
}

template <class V, Described<model::ErrorView> T>
void describe(V& v, T& x) {
  v.field("code", x.code, "");
  v.field("message", x.message, "everything in one line");
  v.field("what", x.what, "");
  v.field("where", x.where, "");
  v.field("found", x.found, "");
  v.field("expected", x.expected, "");
  v.field("hint", x.hint, "");
  v.field("missing_env", x.missingEnv, "names whose values must be given");
}

template <class V, Described<model::JobList> T>
void describe(V& v, T& x) {
  v.field("jobs", x.jobs, "newest first");
  v.field("queues", x.queues, "how many queues there are");
}
template <class V, Described<model::QueueList> T>
void describe(V& v, T& x) {
  v.field("queues", x.queues, "each behind the one it stands below");
  v.field("bookings", x.bookings, "that have not ended, soonest first");
  v.field("emulated", x.emulated, "the cloud's GPUs are emulated");
  v.field("warnings", x.warnings, "where the cloud lacks what is guaranteed");
}
template <class V, Described<model::NodeList> T>
void describe(V& v, T& x) {
  v.field("nodes", x.nodes, "");
}
template <class V, Described<model::GpuList> T>
void describe(V& v, T& x) {
  v.field("gpus", x.gpus, "");
}
template <class V, Described<model::EventList> T>
void describe(V& v, T& x) {
  v.field("events", x.events, "");
}
template <class V, Described<model::LogPage> T>
void describe(V& v, T& x) {
  v.field("lines", x.lines, "");
}
template <class V, Described<model::TopologyView> T>
void describe(V& v, T& x) {
  v.field("nodes", x.nodes, "");
}

}  // namespace bole::codec
