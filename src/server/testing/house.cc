#include "server/testing/house.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "codec/codec.h"
#include "server/openapi.h"

namespace bole::server::testing {
namespace {

Result<ParsedSpec> parse(const model::SubmitRequest& request, const std::string&) {
  ParsedSpec parsed;
  if (request.spec.starts_with("missing: ")) {
    parsed.missingEnv.push_back(request.spec.substr(9));
    return parsed;
  }
  BOLE_ASSIGN(auto job, codec::fromJson<model::JobSpec>(request.spec, request.fileName));
  parsed.jobs.push_back(std::move(job));
  parsed.warnings.push_back({"a warning"});
  return parsed;
}

std::string temporaryDirectory() {
  std::string path = ::testing::TempDir() + "bole-server-XXXXXX";
  if (!mkdtemp(path.data())) throw std::runtime_error("no temporary directory");
  chmod(path.c_str(), 0755);  // others may knock at the socket
  return path;
}

}  // namespace

House::House(std::vector<model::Node> nodes)
    : directory_(temporaryDirectory()),
      nodes_(std::move(nodes)),
      contract_(openApiDocument(routes(), "1.2.3")) {
  options.socketPath = directory_ + "/bole.sock";
  options.tcpPort = 0;
  options.token = kToken;
  options.ownerUid = geteuid();
  options.ownerName = kOwner;
  options.uploadsDirectory = directory_ + "/uploads";
  options.facts.version = "1.2.3";
  options.facts.home = directory_;
  options.facts.pid = getpid();
  options.facts.startedAt = clock.wall();
  options.facts.notes = {"no driver: the GPUs are emulated"};
  options.facts.sandbox = "bubblewrap";
  options.limits.sweep = milliseconds(10);
  options.limits.logPoll = milliseconds(5);
  options.commands = this;
  options.clock = &clock;
  options.logs = &logs;
  options.parseSpec = parse;
  options.readEvents = [this](std::uint64_t from, std::size_t limit) {
    return events(from, limit);
  };
  options.progress = [this](AttemptId attempt) -> std::optional<model::ProgressView> {
    const std::lock_guard lock(progressMutex_);
    const auto found = progress_.find(attempt);
    if (found == progress_.end()) return std::nullopt;
    return found->second;
  };
  options.logDirectory = [](AttemptId id) { return "/logs/" + std::to_string(id.value); };
  thread_ = std::thread([this] { loop(); });
  act([this] { boot(); });
}

House::~House() {
  close();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    held_ = false;
  }
  wake_.notify_all();
  thread_.join();
  for (const auto& fault : engine_.faults()) ADD_FAILURE() << fault;
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void House::boot() {
  controller_.reset();
  auto opened = controller::Controller::open({}, ledger_, engine_, clock);
  ASSERT_TRUE(opened) << opened.error().message();
  controller_ = std::move(*opened);
  engine_.open([this](ports::EngineReport report) { reports_.push_back(std::move(report)); });
  controller_->onPublish([this] {
    if (server_) server_->published();
  });
  const auto started = controller_->start(nodes_);
  ASSERT_TRUE(started) << started.error().message();
  process(controller::Tick{});
}

void House::open() {
  auto started = Server::start(options);
  ASSERT_TRUE(started) << started.error().message();
  act([&] { server_ = std::move(*started); });
}

void House::close() {
  std::unique_ptr<Server> ending;
  if (!server_) return;
  server_->stop();  // the controller may still publish to it
  act([&] { ending = std::move(server_); });
}

void House::restart() {
  close();
  act([this] { boot(); });
  open();
}

Client::Watcher House::watcher() {
  const auto report = [](const std::vector<std::string>& breaches) {
    for (const auto& breach : breaches) ADD_FAILURE() << "OpenAPI: " << breach;
  };
  return {[this, report](const std::string& method, const std::string& target,
                         const Response& response) {
            report(contract_.check(method, target, response));
          },
          [this, report](const std::string& method, const std::string& target, const Event& event) {
            report(contract_.check(method, target, event));
          }};
}

Client House::client() {
  return Client::overUnix(options.socketPath, watcher());
}

Client House::clientOf(uid_t uid) {
  return Client::overUnixAs(uid, options.socketPath, watcher());
}

Client House::tcpClient() {
  auto client = Client::overTcp(server_->tcpPort(), watcher());
  client.always("Authorization", std::string("Bearer ") + kToken);
  return client;
}

JobId House::add(model::JobSpec spec, const std::string& user) {
  JobId id;
  act([&] {
    controller::SubmitJobs message;
    message.caller = {user, "api", ""};
    message.jobs = {std::move(spec)};
    message.reply = [&](Result<model::SubmitAnswer> answer) {
      ASSERT_TRUE(answer) << answer.error().message();
      id = answer->jobs.at(0).id;
    };
    process(std::move(message));
  });
  return id;
}

AttemptId House::attemptOf(JobId job) const {
  const auto* record = snapshot()->tables.jobs.find(job);
  return record ? record->attempt : AttemptId();
}

void House::run(JobId job) {
  act([&] {
    engine_.run(attemptOf(job));
    process(controller::Tick{});
  });
}

void House::finish(JobId job, model::AttemptOutcome outcome, std::int32_t code,
                   std::uint32_t rank) {
  act([&] {
    const auto attempt = attemptOf(job);
    ports::AttemptFinished end;
    end.outcome = outcome;
    end.stop = engine_.attempts().at(attempt).stopReason;
    if (outcome == model::AttemptOutcome::kFailed) {
      end.firstFailed = static_cast<std::int32_t>(rank);
      end.ranks = {{rank, true, code << 8}};
    }
    engine_.finish(attempt, end);
    process(controller::Tick{});
  });
}

void House::tick() {
  act([this] { process(controller::Tick{}); });
}

void House::setDisk(test::MemoryLedger::Disk disk) {
  act([&] { ledger_.setDisk(disk); });
}

void House::setProgress(AttemptId attempt, model::ProgressView progress) {
  const std::lock_guard lock(progressMutex_);
  progress_[attempt] = std::move(progress);
}

// On the controller's thread.
void House::process(controller::Message message) {
  std::vector<controller::Message> batch;
  batch.push_back(std::move(message));
  do {
    for (auto& report : reports_) batch.push_back(std::move(report));
    reports_.clear();
    controller_->process(std::exchange(batch, {}));
  } while (!reports_.empty());
}

void House::hold() {
  const std::lock_guard lock(mutex_);
  held_ = true;
}

void House::release() {
  {
    const std::lock_guard lock(mutex_);
    held_ = false;
  }
  wake_.notify_all();
}

void House::awaitUploads(std::size_t count) {
  const auto parts = [this] {
    std::size_t found = 0;
    for (const auto& file : std::filesystem::directory_iterator(options.uploadsDirectory)) {
      found += file.path().filename().string().starts_with(".part-") ? 1 : 0;
    }
    return found;
  };
  while (parts() != count) std::this_thread::yield();
}

std::size_t House::waiting() {
  const std::lock_guard lock(mutex_);
  return work_.size();
}

bool House::submit(controller::SubmitJobs command) {
  if (refuse_) return false;
  post([this, command = std::make_shared<controller::SubmitJobs>(std::move(command))] {
    process(std::move(*command));
  });
  return true;
}

bool House::stop(controller::StopJob command) {
  if (refuse_) return false;
  post([this, command = std::make_shared<controller::StopJob>(std::move(command))] {
    process(std::move(*command));
  });
  return true;
}

bool House::setPolicy(controller::SetPolicy command) {
  if (refuse_) return false;
  post([this, command = std::make_shared<controller::SetPolicy>(std::move(command))] {
    process(std::move(*command));
  });
  return true;
}

bool House::setHealth(controller::SetHealth command) {
  if (refuse_) return false;
  post([this, command = std::make_shared<controller::SetHealth>(std::move(command))] {
    process(std::move(*command));
  });
  return true;
}

bool House::setLabels(controller::SetLabels command) {
  if (refuse_) return false;
  post([this, command = std::make_shared<controller::SetLabels>(std::move(command))] {
    process(std::move(*command));
  });
  return true;
}

std::shared_ptr<const controller::Snapshot> House::snapshot() const {
  return controller_->snapshot();
}

Result<model::EventList> House::events(std::uint64_t from, std::size_t limit) {
  model::EventList list;
  act([&] {
    const auto names = controller_->snapshot();
    const auto& stored = ledger_.events();
    for (auto i = std::max<std::uint64_t>(from, 1); i <= stored.size(); ++i) {
      if (list.events.size() == limit) break;
      const auto& event = stored[i - 1];
      model::EventView view;
      view.sequence = event.envelope.sequence;
      view.time = event.envelope.time;
      view.kind = event.envelope.kind;
      view.actor = "bole";
      if (const auto* user = names->tables.users.find(event.envelope.actor)) {
        view.actor = names->name(*user);
      }
      view.source = event.envelope.source;
      view.body = event.body;
      list.events.push_back(std::move(view));
    }
  });
  return list;
}

void House::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  wake_.notify_all();
}

void House::act(const std::function<void()>& work) {
  std::promise<void> done;
  post([&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

void House::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ending_ || (!held_ && !work_.empty()); });
    if (work_.empty()) return;
    auto work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

std::string submission(const model::JobSpec& spec, const std::string& more) {
  std::string body = "{\"spec\":";
  codec::appendJsonString(body, codec::toJson(spec));
  return body + ",\"file_name\":\"bole.yaml\",\"directory\":\"/home/hong\"" + more + "}";
}

}  // namespace bole::server::testing
