// nodes, gpus, topo, events.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/sse.h"
#include "cli/text.h"
#include "cli/topology.h"
#include "cli/wording.h"
#include "codec/describe_model.h"
#include "model/event.h"

namespace bole::cli {
namespace {

// "present"; "draining until 2026-09-21 13:56:41 UTC: too hot".
std::string healthText(model::GpuHealth health, Timestamp until, const std::string& why) {
  std::string text(codec::enumName(health));
  if (health == model::GpuHealth::kHealthy) return text;
  if (until.micros != 0) text += " until " + timeText(until);
  if (!why.empty()) text += ": " + why;
  return text;
}

Cell stateCell(const model::NodeView& node) {
  if (!node.present) return {"lost", Tint::kRed};
  if (node.health == model::GpuHealth::kHealthy) return {"present", Tint::kGreen};
  return {healthText(node.health, node.healthyAt, node.why), Tint::kYellow};
}

Table nodeTable(const std::vector<model::NodeView>& nodes) {
  Table table({{"NODE", Align::kLeft, 10},
               {"STATE", Align::kLeft},
               {"GPUS", Align::kLeft, 12},
               {"IN USE", Align::kRight},
               {"CPUS IN USE", Align::kRight},
               {"MEMORY IN USE", Align::kRight},
               {"DRIVER", Align::kLeft, 8}});
  for (const auto& node : nodes) {
    auto gpus = node.gpuModel.empty() ? std::string("-") : node.gpuModel;
    if (node.emulated) gpus = "emulated " + gpus;
    table.add({node.name, stateCell(node), gpus, fmt::format("{}/{}", node.gpusUsed, node.gpus),
               fmt::format("{}/{}", cpusText(node.cpusUsed), cpusText(node.cpus)),
               fmt::format("{}/{}", formatBytes(node.memoryUsed), formatBytes(node.memory)),
               node.driverVersion.empty() ? "-" : node.driverVersion});
  }
  return table;
}

// "7 digits"; of a shared one "0.75: 3, 4"; "-".
std::string holdersText(const model::GpuView& gpu) {
  if (gpu.job) return fmt::format("{} {}", gpu.job->value, gpu.jobName);
  if (gpu.sharers.empty()) return "-";
  std::string text = cpusText(MilliCpu(gpu.used.value)) + ":";
  for (std::size_t i = 0; i < gpu.sharers.size(); ++i)
    text += fmt::format("{} {}", i == 0 ? "" : ",", gpu.sharers[i].value);
  return text;
}

Table gpuTable(const std::vector<model::GpuView>& gpus) {
  Table table({{"NODE", Align::kLeft, 10},
               {"GPU", Align::kRight},
               {"MODEL", Align::kLeft, 12},
               {"MEMORY", Align::kRight},
               {"PCI", Align::kLeft},
               {"HEALTH", Align::kLeft},
               {"JOB", Align::kLeft, 8},
               {"USER", Align::kLeft, 6}});
  for (const auto& gpu : gpus) {
    const bool well = gpu.health == model::GpuHealth::kHealthy;
    const auto job = holdersText(gpu);
    table.add(
        {gpu.node, std::to_string(gpu.index), gpu.model + (gpu.emulated ? " emulated" : ""),
         formatBytes(gpu.memory), gpu.pciBusId,
         Cell(healthText(gpu.health, gpu.healthyAt, gpu.why), well ? Tint::kGreen : Tint::kRed),
         job, gpu.user.empty() ? "-" : gpu.user});
  }
  return table;
}

std::string eventsPath(const EventsArgs& args) {
  std::string query;
  const auto add = [&](const char* name, const std::string& value) {
    query += fmt::format("{}{}={}", query.empty() ? "?" : "&", name, urlEncoded(value));
  };
  if (args.from) add("from", std::to_string(*args.from));
  if (args.limit) add("limit", std::to_string(*args.limit));
  if (!args.kind.empty()) add("kind", args.kind);
  return "/v1/events" + query;
}

template <class... Bodies>
std::vector<std::string> kindsOf(const std::variant<Bodies...>*) {
  return {Bodies::kKind...};
}

Result<void> checkKind(const std::string& kind) {
  if (kind.empty()) return {};
  const auto kinds = kindsOf(static_cast<const model::Event*>(nullptr));
  if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return {};
  const auto near = nearestOf(kind, kinds);
  std::string all;
  for (const auto& known : kinds) all += (all.empty() ? "" : ", ") + known;
  return fail(makeError(ErrorCode::kInvalid, "there is no such kind of event")
                  .at("--kind")
                  .foundValue("'" + kind + "'")
                  .expectedValue(near.empty() ? "one of " + all : std::string())
                  .withHint(near.empty() ? std::string() : "did you mean '" + near + "'?"));
}

Table eventTable(const std::vector<model::EventView>& events) {
  Table table({{"EVENT", Align::kRight},
               {"TIME (UTC)", Align::kLeft},
               {"KIND", Align::kLeft, 14},
               {"BY", Align::kLeft, 6},
               {"WHAT", Align::kLeft, 20}});
  for (const auto& event : events) {
    table.add({std::to_string(event.sequence), formatTimestamp(event.time), event.kind, event.actor,
               event.summary});
  }
  return table;
}

// One row at a time, in columns that do not move.
std::string eventLine(const model::EventView& event, const TableStyle& style) {
  const auto text =
      fmt::format("{:>8}  {}  {:<20}  {:<10}  {}", event.sequence, formatTimestamp(event.time),
                  event.kind, event.actor, event.summary);
  return truncated(neutralised(text), style.width) + "\n";
}

class EventFollower {
 public:
  EventFollower(Context& context, const EventsArgs& args) : context_(context), args_(args) {
    args_.limit.reset();  // it goes on until Ctrl-C
  }

  int run() {
    auto client = context_.client();
    if (!client) return context_.report(client.error());
    const auto& catchInterrupts = context_.environment().catchInterrupts;
    if (catchInterrupts) interrupt_ = catchInterrupts();
    (*client)->watch(interrupt_);
    while (true) {
      const auto response = readOnce(**client);
      if (context_.outputClosed()) return kExitOutputClosed;
      if (response && response->interrupted) return kExitInterrupted;
      if (trouble_) return context_.report(*trouble_);
      if (!response && !(heard_ && response.error().code == ErrorCode::kUnavailable)) {
        return context_.report(response.error());
      }
      if (!away_) context_.tell("the server went away; waiting for it to come back");
      away_ = true;
      pollfd wait{interrupt_, POLLIN, 0};
      if (::poll(&wait, interrupt_ >= 0 ? 1 : 0, kRetryMilliseconds) > 0) return kExitInterrupted;
    }
  }

 private:
  static constexpr int kRetryMilliseconds = 300;

  Result<Response> readOnce(Client& client) {
    Request request;
    request.path = eventsPath(args_);
    request.headers.emplace_back("Accept", "text/event-stream");
    if (!lastId_.empty()) request.headers.emplace_back("Last-Event-ID", lastId_);
    EventParser parser;
    return client.stream(request, [&](std::string_view bytes) {
      heard_ = true;
      away_ = false;
      const auto goOn =
          parser.feed(bytes, [this](const ServerEvent& event) { return take(event); });
      if (!goOn) trouble_ = goOn.error();
      return goOn && *goOn;
    });
  }

  bool take(const ServerEvent& event) {
    if (!event.id.empty()) lastId_ = event.id;
    if (event.name == "error") {
      trouble_ = errorOf({500, event.data, false}, "/v1/events");
      return false;
    }
    if (context_.json()) return context_.printJson(event.data);
    const auto view = decode<model::EventView>(event.data);
    return view ? context_.print(eventLine(*view, context_.outStyle())) : true;
  }

  Context& context_;
  EventsArgs args_;
  int interrupt_ = -1;
  std::string lastId_;
  bool heard_ = false;
  bool away_ = false;
  std::optional<Error> trouble_;
};

// Prints what `render` makes of the answer at `path`, or the answer itself.
template <class View, class Render>
int printView(Context& context, const std::string& path, Render&& render) {
  const auto body = context.get(path);
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  const auto view = decode<View>(*body);
  if (!view) return context.report(view.error());
  return render(*view);
}

}  // namespace

int runCommand(Context& context, const NodesArgs&) {
  return printView<model::NodeList>(context, "/v1/nodes", [&](const model::NodeList& list) {
    if (list.nodes.empty())
      context.printError("no machines\n");
    else
      context.print(nodeTable(list.nodes).render(context.outStyle()));
    return kExitOk;
  });
}

int runCommand(Context& context, const GpusArgs&) {
  return printView<model::GpuList>(context, "/v1/gpus", [&](const model::GpuList& list) {
    if (list.gpus.empty()) {
      context.printError("no GPUs; 'bole up --emulate 4xA100-SXM4-80GB' tries Bole without any\n");
    } else {
      context.print(gpuTable(list.gpus).render(context.outStyle()));
    }
    return kExitOk;
  });
}

int runCommand(Context& context, const TopoArgs& args) {
  return printView<model::TopologyView>(
      context, "/v1/topology", [&](const model::TopologyView& view) {
        std::string text;
        for (const auto& node : view.nodes) {
          if (!args.node.empty() && node.name != args.node) continue;
          text += topologyText(node) + "\n";
        }
        if (!text.empty()) {
          context.print(text + topologyLegend());
          return kExitOk;
        }
        if (args.node.empty()) {
          context.printError("no machines\n");
          return kExitOk;
        }
        return context.report(makeError(ErrorCode::kNotFound, "no such machine")
                                  .foundValue("'" + args.node + "'")
                                  .withHint("'bole nodes' lists them"));
      });
}

int runCommand(Context& context, const EventsArgs& args) {
  if (const auto known = checkKind(args.kind); !known) return context.report(known.error());
  if (args.follow) return EventFollower(context, args).run();
  return printView<model::EventList>(context, eventsPath(args), [&](const model::EventList& list) {
    if (list.events.empty())
      context.printError("no such events\n");
    else
      context.print(eventTable(list.events).render(context.outStyle()));
    return kExitOk;
  });
}

}  // namespace bole::cli
