#include "engine/local/supervise/podman_images.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

namespace bole::supervise {
namespace {

constexpr std::size_t kMostOutput = 1u << 20;
constexpr int kAbsent = 1;  // of `podman image exists`

}  // namespace

PodmanImages::PodmanImages(Options options, std::vector<std::string> images,
                           std::function<void(const std::string&)> say)
    : options_(std::move(options)), images_(std::move(images)), say_(std::move(say)) {
  std::sort(images_.begin(), images_.end());
  images_.erase(std::unique(images_.begin(), images_.end()), images_.end());
}

Result<void> PodmanImages::begin() {
  next(Step::kLook);
  if (failure_) return fail(*failure_);
  return {};
}

void PodmanImages::next(Step step) {
  if (at_ >= images_.size() || cancelled_) return;
  step_ = step;
  PodmanChild child;
  child.argv = options_.podman;
  if (step == Step::kLook) {
    child.argv.insert(child.argv.end(), {"image", "exists", "--", images_[at_]});
  } else {
    say_("the image " + images_[at_] + " is not on this machine: pulling it");
    child.argv.insert(child.argv.end(), {"pull", "--quiet", "--", images_[at_]});
  }
  child.output = options_.output;
  child.entrances = options_.entrances;
  child.network = options_.network;
  auto started = startPodman(child);
  if (started) {
    child_ = *started;
  } else {
    failure_ = started.error();
  }
}

bool PodmanImages::childEnded(pid_t pid, int status) {
  if (!child_ || *child_ != pid) return false;
  child_.reset();
  const auto& image = images_[at_];
  if (cancelled_) return true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    if (step_ == Step::kPull) say_("the image " + image + " is here");
    ++at_;
    next(Step::kLook);
  } else if (step_ == Step::kPull) {
    failure_ = whyNotPulled(image);
  } else if (WIFEXITED(status) && WEXITSTATUS(status) == kAbsent) {
    next(Step::kPull);
  } else {
    const auto said = readFile(options_.output, kMostOutput);
    failure_ = makeError(ErrorCode::kUnavailable,
                         "Podman cannot look for images: " + lastError(said ? *said : ""))
                   .withHint("run `podman images` as the server's user and see what it says");
  }
  return true;
}

void PodmanImages::cancel() {
  cancelled_ = true;
  if (child_) ::kill(*child_, SIGKILL);
}

Error PodmanImages::whyNotPulled(const std::string& image) const {
  const auto said = readFile(options_.output, kMostOutput);
  const auto why = lastError(said ? *said : "");
  auto error =
      makeError(ErrorCode::kUnavailable, "the image is not on this machine and cannot be pulled: " +
                                             (why.empty() ? "Podman ended without a word" : why))
          .at(image);
  if (why.find("short-name") != std::string::npos) {
    return std::move(error).withHint("name the registry too, for example docker.io/library/" +
                                     image);
  }
  return std::move(error).withHint("as the server's user: podman pull " + image +
                                   ", or podman load, podman import, podman build");
}

}  // namespace bole::supervise
