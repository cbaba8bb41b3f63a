// queues, policy.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/spec_file.h"
#include "cli/text.h"
#include "cli/wording.h"
#include "codec/describe_views.h"
#include "codec/writer.h"

namespace bole::cli {
namespace {

constexpr const char* kInput = "-";  // in place of a file: standard input

// "8", "2.5".
std::string count(std::int64_t thousandths) {
  return cpusText(MilliCpu(thousandths));
}

// One thing that is counted, and how that is said.
struct Part {
  std::string key;
  std::int64_t number;
  std::string text;    // of the number alone
  std::string things;  // " GPUs"; "" where the number has its own unit
};

std::vector<Part> partsOf(const model::Amounts& amounts, bool emulated = false) {
  std::vector<Part> out;
  const auto gpus = [&](const std::string& key, MilliGpu number, const std::string& things) {
    out.push_back(
        {key, number.value, count(number.value), (emulated ? " emulated " : " ") + things});
  };
  if (amounts.gpus) gpus("gpus", *amounts.gpus, *amounts.gpus == kWholeGpu ? "GPU" : "GPUs");
  for (const auto& kind : amounts.kinds) gpus(kind.kind, kind.gpus, kind.kind);
  if (amounts.cpus) {
    const auto number = amounts.cpus->value;
    out.push_back({"cpus", number, count(number), number == 1000 ? " CPU" : " CPUs"});
  }
  if (amounts.memory)
    out.push_back({"memory", amounts.memory->value, formatBytes(*amounts.memory), ""});
  return out;
}

const Part* partNamed(const std::vector<Part>& parts, const std::string& key) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const Part& part) { return part.key == key; });
  return found == parts.end() ? nullptr : &*found;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all.empty() ? "-" : all;
}

std::string amountsText(const model::Amounts& amounts) {
  std::vector<std::string> texts;
  for (const auto& part : partsOf(amounts)) texts.push_back(part.text + part.things);
  return joined(texts);
}

// "3 of 6 GPUs" where less counts than the policy says.
Cell guaranteedCell(const model::QueueView& queue) {
  const auto said = partsOf(queue.guaranteed);
  std::vector<std::string> texts;
  bool reduced = false;
  for (const auto& part : partsOf(queue.effective)) {
    const auto* whole = partNamed(said, part.key);
    const bool less = whole && part.number < whole->number;
    reduced = reduced || less;
    texts.push_back(less ? part.text + " of " + whole->text + whole->things
                         : part.text + part.things);
  }
  return {joined(texts), reduced ? Tint::kYellow : Tint::kNone};
}

// GPUs always; of the rest what the queue's own numbers speak of.
std::string usedText(const model::QueueView& queue, bool emulated) {
  std::vector<std::string> texts;
  for (const auto& part : partsOf(queue.used, emulated)) {
    bool named = part.key == "gpus";
    for (const auto* amounts : {&queue.effective, &queue.limit, &queue.perUser})
      named = named || partNamed(partsOf(*amounts), part.key);
    if (named) texts.push_back(part.text + part.things);
  }
  return joined(texts);
}

Table queueTable(const model::QueueList& list) {
  Table table({{"QUEUE", Align::kLeft, 12},
               {"GUARANTEED", Align::kLeft, 12},
               {"LIMIT", Align::kLeft, 8},
               {"WEIGHT", Align::kRight},
               {"USED", Align::kLeft, 12},
               {"RUNNING", Align::kRight},
               {"WAITING", Align::kRight}});
  for (const auto& queue : list.queues) {
    table.add(
        {std::string(std::size_t{2} * queue.depth, ' ') + queue.name, guaranteedCell(queue),
         amountsText(queue.limit), std::to_string(queue.weight), usedText(queue, list.emulated),
         std::to_string(queue.running),
         Cell(std::to_string(queue.waiting), queue.waiting > 0 ? Tint::kYellow : Tint::kNone)});
  }
  return table;
}

Table bookingTable(const std::vector<model::BookingView>& bookings) {
  Table table({{"BOOKED", Align::kLeft, 8},
               {"QUEUE", Align::kLeft, 8},
               {"WHAT", Align::kLeft, 8},
               {"FROM", Align::kLeft},
               {"TO", Align::kLeft}});
  for (const auto& booking : bookings) {
    table.add({booking.name, booking.queue, amountsText(booking.amounts), timeText(booking.from),
               timeText(booking.to)});
  }
  return table;
}

// "night starts jobs again at 2026-09-21 12:00:00 UTC".
std::string closedText(const model::QueueList& list) {
  std::string text;
  for (const auto& queue : list.queues) {
    if (queue.opensAt)
      text += neutralised(queue.name) + " starts jobs again at " + timeText(*queue.opensAt) + "\n";
  }
  return text;
}

void tellWarnings(Context& context, const std::vector<std::string>& warnings) {
  for (const auto& warning : warnings) context.tell("warning: " + warning);
}

Result<std::string> policyText(Context& context, const std::string& file) {
  if (file == kInput) {
    if (!context.environment().readInput)
      return fail(ErrorCode::kUnsupported, "there is no standard input");
    return context.environment().readInput();
  }
  auto text = readFile(context.absolute(file), kMaxSpecBytes);
  if (text || text.error().code != ErrorCode::kNotFound) return text;
  return fail(makeError(ErrorCode::kNotFound, "there is no such file")
                  .at(file)
                  .withHint("'bole policy > " + shellQuoted(file) + "' writes the present policy"));
}

int apply(Context& context, const PolicyArgs& args) {
  auto text = policyText(context, args.file);
  if (!text) return context.report(text.error());
  model::PolicyRequest request;
  request.text = std::move(*text);
  request.fileName = args.file == kInput ? "stdin" : args.file;
  request.dryRun = args.dryRun;
  const auto body = context.put("/v1/policy", codec::toJson(request));
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  const auto answer = decode<model::PolicyAnswer>(*body);
  if (!answer) return context.report(answer.error());
  tellWarnings(context, answer->warnings);
  std::string lines;
  for (const auto& change : answer->changes) lines += neutralised(change) + "\n";
  if (answer->changes.empty()) lines = "nothing changes: the cloud is shared so already\n";
  context.print(lines);
  if (args.dryRun && !answer->changes.empty())
    context.tell("so it would be; without --dry-run it will");
  return kExitOk;
}

}  // namespace

int runCommand(Context& context, const QueuesArgs&) {
  const auto body = context.get("/v1/queues");
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  const auto list = decode<model::QueueList>(*body);
  if (!list) return context.report(list.error());
  context.print(queueTable(*list).render(context.outStyle()));
  context.print(closedText(*list));
  if (!list->bookings.empty())
    context.print("\n" + bookingTable(list->bookings).render(context.outStyle()));
  tellWarnings(context, list->warnings);
  return kExitOk;
}

int runCommand(Context& context, const PolicyArgs& args) {
  if (args.apply) return apply(context, args);
  const auto body = context.get("/v1/policy");
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  const auto view = decode<model::PolicyView>(*body);
  if (!view) return context.report(view.error());
  return context.print(view->text) ? kExitOk : kExitOutputClosed;
}

}  // namespace bole::cli
