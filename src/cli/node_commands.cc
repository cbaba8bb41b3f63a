// node: what an operator says of a machine or a GPU.
#include <fmt/format.h>

#include <charconv>

#include "cli/commands.h"
#include "cli/text.h"
#include "cli/wording.h"
#include "codec/describe_views.h"
#include "codec/writer.h"

namespace bole::cli {
namespace {

// "box-1:3": GPU 3 of box-1.
struct Place {
  std::string node;
  std::optional<std::uint32_t> gpu;
};

Result<Place> placeOf(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return Place{text, std::nullopt};
  std::uint32_t gpu = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, gpu);
  if (colon > 0 && colon + 1 < text.size() && error == std::errc() && stop == end)
    return Place{text.substr(0, colon), gpu};
  return fail(makeError(ErrorCode::kInvalid, "neither a node nor one of its GPUs")
                  .foundValue("'" + text + "'")
                  .expectedValue("NODE or NODE:GPU (box-1:3)"));
}

std::string nodePath(const std::string& node, const char* what) {
  return "/v1/nodes/" + urlEncoded(node) + "/" + what;
}

const char* saysOf(model::GpuHealth health) {
  switch (health) {
    case model::GpuHealth::kHealthy:
      return "takes jobs again";
    case model::GpuHealth::kDraining:
      return "takes no new jobs; what runs there goes on";
    case model::GpuHealth::kSuspect:
      return "takes no new jobs until it is known to be well";
    case model::GpuHealth::kDown:
      return "is down; what ran there is stopped and waits for another place";
  }
  return "";
}

int setHealth(Context& context, const NodeArgs& args) {
  model::HealthRequest request;
  request.health = args.action == NodeArgs::Action::kDrain  ? model::GpuHealth::kDraining
                   : args.action == NodeArgs::Action::kDown ? model::GpuHealth::kDown
                                                            : model::GpuHealth::kHealthy;
  request.why = args.why;
  if (!args.lasts.empty()) {
    const auto lasts = parseSpan(args.lasts);
    if (!lasts) return context.report(Error(lasts.error()).at("--for"));
    request.lasts = *lasts;
  }
  const auto place = placeOf(args.node);
  if (!place) return context.report(place.error());
  request.gpu = place->gpu;
  const auto body = context.post(nodePath(place->node, "health"), codec::toJson(request));
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  auto line = neutralised(args.node) + " " + saysOf(request.health);
  if (request.lasts.value > 0) line += ", for " + formatDuration(request.lasts);
  context.print(line + "\n");
  return kExitOk;
}

// "disk=ssd" is given, "disk-" is taken away, as kubectl has it.
int setLabels(Context& context, const NodeArgs& args) {
  model::LabelsRequest request;
  for (const auto& label : args.labels) {
    const auto equals = label.find('=');
    if (equals != std::string::npos) {
      request.set.emplace_back(label.substr(0, equals), label.substr(equals + 1));
    } else if (label.size() > 1 && label.ends_with('-')) {
      request.remove.push_back(label.substr(0, label.size() - 1));
    } else {
      return context.report(makeError(ErrorCode::kInvalid, "not a label")
                                .foundValue("'" + label + "'")
                                .expectedValue("NAME=VALUE, or NAME- to take it away"));
    }
  }
  const auto body = context.post(nodePath(args.node, "labels"), codec::toJson(request));
  if (!body) return context.report(body.error());
  if (context.json()) return context.printJson(*body) ? kExitOk : kExitOutputClosed;
  const auto view = decode<model::NodeView>(*body);
  if (!view) return context.report(view.error());
  std::string text;
  for (const auto& [name, value] : view->labels) text += " " + name + "=" + value;
  context.print(neutralised(view->name + (text.empty() ? " has no labels" : ":" + text)) + "\n");
  return kExitOk;
}

}  // namespace

int runCommand(Context& context, const NodeArgs& args) {
  return args.action == NodeArgs::Action::kLabel ? setLabels(context, args)
                                                 : setHealth(context, args);
}

}  // namespace bole::cli
