#include "app/lost_attempts.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "codec/codec.h"
#include "engine/local/supervise/attempt_files.h"
#include "ledger/files.h"
#include "ledger/sqlite_ledger.h"
#include "state/state.h"

namespace bole::app {
namespace {

namespace fs = std::filesystem;

// A directory in which a ledger file that lies elsewhere, by whatever name, is a home's.
class BorrowedHome {
 public:
  BorrowedHome(const std::string& file, const std::string& place) : path_(place + "/restoring") {
    std::error_code none;
    fs::create_directory(path_, none);
    fs::remove(path_ + "/ledger.db", none);  // of one that was killed
    fs::create_symlink(file, path_ + "/ledger.db", failed_);
  }
  ~BorrowedHome() {
    std::error_code none;
    fs::remove(path_ + "/ledger.db", none);
    fs::remove(path_, none);
  }
  BorrowedHome(const BorrowedHome&) = delete;
  BorrowedHome& operator=(const BorrowedHome&) = delete;

  [[nodiscard]] Result<std::string> path() const {
    if (!failed_) return path_;
    return fail(systemError(failed_.value(), "cannot write in the home", path_));
  }

 private:
  std::string path_;
  std::error_code failed_;
};

Result<state::State> stateIn(ledger::SqliteLedger& ledger) {
  state::State state;
  BOLE_ASSIGN(const auto snapshot, ledger.newestSnapshot());
  if (snapshot) {
    BOLE_ASSIGN(auto tables, codec::decodeTables(snapshot->state));
    state = state::State(std::move(tables));
  }
  BOLE_TRY(ledger.read(
      state.tables().sequence + 1, [&state](const ports::StoredEvent& stored) -> Result<void> {
        const auto& envelope = stored.envelope;
        BOLE_ASSIGN(const auto event,
                    codec::decodeEvent(envelope.kind, envelope.version, stored.body));
        return state.apply(event, envelope.sequence, envelope.time);
      }));
  return state;
}

Result<void> makeDirectory(const std::string& path, std::vector<std::string>& made) {
  if (mkdir(path.c_str(), 0700) == 0) {
    made.push_back(path);
    return {};
  }
  if (errno == EEXIST) return {};
  return fail(systemError(errno, "cannot make a directory", path));
}

}  // namespace

Result<std::vector<AttemptId>> liveAttemptsOf(const std::string& backup, const std::string& home,
                                              Rng& rng) {
  const BorrowedHome borrowed(backup, home);
  BOLE_ASSIGN(const auto directory, borrowed.path());
  const auto inBackup = [&](Error error) {
    const auto link = directory + "/ledger.db";
    if (error.where.starts_with(link)) error.where.replace(0, link.size(), backup);
    if (error.where.find('/') == std::string::npos) {
      error.where = backup + (error.where.empty() ? "" : ", " + error.where);
    }
    return error;
  };
  ledger::LedgerOptions options{directory, rng};
  options.mode = ledger::OpenMode::kReadOnly;
  const auto ledger = ledger::openLedger(options);
  if (!ledger) return fail(inBackup(ledger.error()));
  const auto state = stateIn(**ledger);
  if (!state) return fail(inBackup(state.error()));
  return std::vector<AttemptId>(state->liveAttempts().begin(), state->liveAttempts().end());
}

LostAttempts::~LostAttempts() {
  std::error_code none;
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) fs::remove(*path, none);
}

Result<void> LostAttempts::mark(const std::vector<AttemptId>& attempts) {
  if (attempts.empty()) return {};
  // This process is their supervisor, and gone when a server looks.
  BOLE_ASSIGN(const auto self, supervise::claimOfSelf());
  const auto claim = fmt::format("{{\"pid\":{},\"startTicks\":{},\"bootId\":\"{}\"}}\n",
                                 self.process.pid, self.process.startTicks, self.bootId);
  BOLE_TRY(makeDirectory(directory_, made_));
  for (const auto id : attempts) {
    const auto path = fmt::format("{}/{}", directory_, id.value);
    BOLE_TRY(makeDirectory(path, made_));
    for (const auto& [name, content] :
         {std::pair<const char*, std::string>{
              "/supervise.log", "restored from a backup: what became of it is not known\n"},
          std::pair<const char*, std::string>{"/claim", claim}}) {
      made_.push_back(path + name);
      BOLE_TRY(ledger::writeFileDurably(path + name, content, 0600));
    }
  }
  return ledger::syncDirectory(directory_);
}

}  // namespace bole::app
