// digits: real data-parallel training, small enough to watch. See README.md.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "checkpoint.h"
#include "gang.h"
#include "options.h"
#include "output.h"
#include "stop.h"
#include "trainer.h"

namespace digits {
namespace {

int complain(const std::string& who, const Failure& failure) {
  printErrorLine(who + ": " + failure.message);
  return failure.exitCode;
}

Result<void> train(const Options& options, const Place& place, Keeper& keeper) {
  if (place.rank == 0 && !options.checkpointDir.empty()) {
    if (auto prepared = prepareDirectory(options.checkpointDir); !prepared) return prepared;
  }
  auto gang = Gang::join(place, options);
  if (!gang) return passOn(gang.error());
  Trainer trainer(options, *gang, keeper);
  auto done = trainer.run();
  // Gloo's destructors wait for peers that may hang; a failed process has nothing left to tidy up.
  if (!done) {
    if (place.worldSize > 1) StopWatch::allowForStop();
    ::_exit(complain("digits: rank " + std::to_string(place.rank), done.error()));
  }
  return {};
}

int run(int argc, char** argv) {
  ::signal(SIGPIPE,
           SIG_IGN);  // Gloo writes to ranks that may be gone: an error is told, a signal is not
  const Environment environment = [](const char* name) -> const char* { return std::getenv(name); };
  const auto options = parseOptions(argc, argv, environment);
  if (!options) return complain("digits", options.error());
  if (options->help) {
    printLine(usage());
    return 0;
  }
  const auto place = readPlace(environment);
  if (!place) return complain("digits", place.error());
  if (auto ok = checkTogether(*options, *place); !ok) return complain("digits", ok.error());

  Keeper keeper(options->checkpointDir, options->seed);
  const StopWatch watch([&keeper, rank = place->rank] {
    if (rank != 0) return;
    if (auto saved = keeper.save(); !saved) complain("digits: rank 0", saved.error());
  });
  if (auto done = train(*options, *place, keeper); !done) {
    return complain("digits: rank " + std::to_string(place->rank), done.error());
  }
  return 0;
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  return digits::run(argc, argv);
}
