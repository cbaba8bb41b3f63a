#include "cli/submission.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cli/pack.h"
#include "cli/text.h"
#include "codec/describe_views.h"
#include "codec/writer.h"

namespace bole::cli {
namespace {

constexpr int kTries = 20;  // of a request that the server may or may not have heard
constexpr int kRetryMilliseconds = 250;

std::string randomId(Rng& rng) {
  std::array<unsigned char, 16> bytes{};
  rng.fill(bytes.data(), bytes.size());
  std::string text;
  for (const auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Error notSetHere(const model::ErrorView& view, const std::vector<std::string>& names) {
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
  return makeError(ErrorCode::kInvalid,
                   "the job names variables without a value, and they are not set here")
      .at(view.where)
      .foundValue(list)
      .withHint("export them, or write their values (NAME=VALUE)");
}

class Submission {
 public:
  Submission(Context& context, const SpecFile& spec, const SubmitRules& rules)
      : context_(context), spec_(spec), rules_(rules) {
    request_.spec = spec.text;
    request_.fileName = spec.name;
    request_.directory = spec.directory;
    request_.project = rules.project;
    request_.requestId = randomId(*context.environment().rng);
  }

  Result<SubmitOutcome> submit() {
    BOLE_ASSIGN(const bool brings, bringsSomething());
    if (brings) BOLE_TRY(bring());
    request_.dryRun = rules_.dryRun;
    SubmitOutcome outcome;
    BOLE_ASSIGN(outcome.body, post());
    BOLE_ASSIGN(outcome.answer, decode<model::SubmitAnswer>(outcome.body));
    for (const auto& job : outcome.answer.jobs) {
      for (const auto& warning : job.warnings) {
        context_.tell("warning: " + (rules_.wordWarning ? rules_.wordWarning(warning) : warning));
      }
    }
    warnOfMounts();
    return outcome;
  }

 private:
  // The server is on this machine: what is not here now is most likely a typo.
  void warnOfMounts() {
    for (const auto& source : luggage_.mounts) {
      auto path = source.starts_with('/') ? source : spec_.directory + "/" + source;
      if (::access(path.c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)) continue;
      context_.tell("warning: the source of a mount is not there: " + source);
    }
  }

  [[nodiscard]] bool isEverything() const {
    return spec_.directory == "/" || spec_.directory == context_.environment().homeDirectory;
  }

  Result<bool> bringsSomething() {
    luggage_ = luggageOf(spec_.text);
    if (!rules_.upload || !luggage_.readable) return false;
    if (!luggage_.all) {
      if (luggage_.files.empty()) return false;
    } else if (spec_.fromInput) {
      return false;  // no file tells which directory is meant
    } else if (isEverything()) {
      context_.tell(spec_.directory +
                    " is not brought along: the job starts in an empty directory; "
                    "submit it from a directory of its own if it needs files");
      return false;
    }
    if (luggage_.image) return true;
    // Without a sandbox the job runs in the directory itself.
    BOLE_ASSIGN(const auto status, context_.fetch<model::StatusView>("/v1/status"));
    return status.sandbox != "plain";
  }

  // Wrong specs are found before anything large is sent.
  Result<void> check() {
    request_.dryRun = true;
    BOLE_TRY(post());
    return {};
  }

  Result<void> bring() {
    BOLE_TRY(check());
    PackRequest wanted;
    wanted.directory = spec_.directory;
    wanted.files = luggage_.files;
    wanted.leftOut = context_.home();
    const auto temporary = context_.variable("TMPDIR");
    if (temporary.starts_with('/')) wanted.temporary = temporary;
    if (rules_.dryRun) {
      BOLE_ASSIGN(const auto listing, listFiles(wanted));
      warn(listing.warnings);
      return {};
    }
    BOLE_ASSIGN(const auto archive, pack(wanted));
    warn(archive.warnings);
    if (archive.entries == 0) return {};
    BOLE_TRY(send(archive));
    request_.upload = archive.sha256;
    return {};
  }

  void warn(const std::vector<std::string>& warnings) {
    for (const auto& warning : warnings) context_.tell("warning: " + warning);
  }

  Result<void> send(const Archive& archive) {
    BOLE_ASSIGN(auto* client, context_.client());
    Request request;
    request.path = "/v1/uploads/" + archive.sha256;
    request.method = "HEAD";
    BOLE_ASSIGN(const auto known, client->send(request));
    if (known.status == 200) return {};
    request.method = "PUT";
    request.bodyFile = archive.file.get();
    request.bodySize = archive.size;
    BOLE_ASSIGN(const auto answer, client->send(request));
    if (answer.status == 200 || answer.status == 201) return {};
    return fail(errorOf(answer, request.path));
  }

  // The request's id makes it safe to ask again where the connection broke.
  Result<Response> postOnce() {
    BOLE_ASSIGN(auto* client, context_.client());
    Request request;
    request.method = "POST";
    request.path = "/v1/jobs";
    request.body = codec::toJson(request_);
    for (int i = 1;; ++i) {
      auto response = client->send(request);
      if (response) return response;
      const bool broke = response.error().what.starts_with(kConnectionBroke);
      heard_ = heard_ || broke;
      const bool again = response.error().code == ErrorCode::kUnavailable && heard_ && i < kTries;
      if (!again) return response;
      ::poll(nullptr, 0, kRetryMilliseconds);
    }
  }

  Result<std::string> post() {
    BOLE_ASSIGN(auto response, postOnce());
    if (response.status == 400) {
      const auto view = decode<model::ErrorView>(response.body);
      if (view && !view->missingEnv.empty()) {
        BOLE_TRY(giveValues(*view));
        BOLE_ASSIGN(response, postOnce());
      }
    }
    if (response.status >= 200 && response.status < 300) return std::move(response.body);
    return fail(errorOf(response, "/v1/jobs"));
  }

  Result<void> giveValues(const model::ErrorView& view) {
    const auto& variables = context_.environment().variables;
    std::vector<std::string> unset;
    for (const auto& name : view.missingEnv) {
      const auto found = variables.find(name);
      if (found == variables.end())
        unset.push_back(name);
      else
        request_.env.emplace_back(name, found->second);
    }
    if (unset.empty()) return {};
    return fail(notSetHere(view, unset));
  }

  Context& context_;
  const SpecFile& spec_;
  const SubmitRules& rules_;
  Luggage luggage_;
  model::SubmitRequest request_;
  bool heard_ = false;
};

}  // namespace

Result<SubmitOutcome> submitSpec(Context& context, const SpecFile& spec, const SubmitRules& rules) {
  return Submission(context, spec, rules).submit();
}

}  // namespace bole::cli
