// The endpoints under /v1, in plain values: finds the route of a request and answers it. Knows no
// socket.
//
// handle() runs on the pool and may block on files; it answers through `respond`, at once or when
// the controller has replied.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "server/http.h"
#include "server/routes.h"
#include "server/server.h"
#include "server/views.h"

namespace bole::server {

class Uploads;

class Api {
 public:
  // Both outlive the Api.
  Api(const ServerOptions& options, Uploads& uploads);

  struct Choice {
    const Route* route = nullptr;
    Target target;
  };
  // Which route a request line means, or the answer that says why none: 400, 404 or 405.
  [[nodiscard]] std::variant<Choice, Answer> choose(std::string_view method,
                                                    std::string_view target) const;

  // Exactly one call of `respond`, also where the handler throws.
  void handle(const Route& route, const Request& request, const Respond& respond) const;

  // The handlers, one a route.
  void version(const Request& request, const Respond& respond) const;
  void status(const Request& request, const Respond& respond) const;
  void openApi(const Request& request, const Respond& respond) const;
  void submit(const Request& request, const Respond& respond) const;
  void jobs(const Request& request, const Respond& respond) const;
  void job(const Request& request, const Respond& respond) const;
  void stop(const Request& request, const Respond& respond) const;
  void logs(const Request& request, const Respond& respond) const;
  void nodes(const Request& request, const Respond& respond) const;
  void setHealth(const Request& request, const Respond& respond) const;
  void setLabels(const Request& request, const Respond& respond) const;
  void gpus(const Request& request, const Respond& respond) const;
  void topology(const Request& request, const Respond& respond) const;
  void queues(const Request& request, const Respond& respond) const;
  void policy(const Request& request, const Respond& respond) const;
  void setPolicy(const Request& request, const Respond& respond) const;
  void snapshot(const Request& request, const Respond& respond) const;
  void events(const Request& request, const Respond& respond) const;
  void uploaded(const Request& request, const Respond& respond) const;
  void shutdown(const Request& request, const Respond& respond) const;

 private:
  using Snapshot = std::shared_ptr<const controller::Snapshot>;

  // What a change of a node is answered with.
  [[nodiscard]] std::function<void(Result<void>)> answerNode(const Respond& respond,
                                                             const Request& request) const;
  [[nodiscard]] Scene sceneOf(const Snapshot& snapshot, const Request& request) const;
  [[nodiscard]] Result<controller::SubmitJobs> submission(const model::SubmitRequest& wanted,
                                                          const Caller& caller,
                                                          std::vector<std::string>& missing) const;
  [[nodiscard]] Result<Reply> logsOf(const Request& request) const;
  [[nodiscard]] Result<Reply> eventsOf(const Request& request) const;
  [[nodiscard]] std::vector<std::string> lastLines(const model::JobRecord& job) const;

  const ServerOptions& options_;
  Uploads& uploads_;
  std::string openApi_;
};

}  // namespace bole::server
