#include "ledger/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "ledger/advice.h"
#include "ledger/files.h"

namespace bole::ledger {

namespace {

// Small caches: the server's whole memory is to stay under 40 MB. No mmap: an I/O error would be a
// signal.
constexpr const char* kPragmas =
    "PRAGMA foreign_keys=OFF; PRAGMA cache_size=-2048; PRAGMA mmap_size=0; PRAGMA "
    "temp_store=MEMORY;"
    "PRAGMA cell_size_check=ON; PRAGMA secure_delete=FAST; PRAGMA synchronous=FULL;"
    "PRAGMA journal_size_limit=67108864;";

Result<void> checkFile(const std::string& path, Access access) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    auto error = systemError(errno, "cannot open the ledger", path);
    if (error.code == ErrorCode::kNotFound) error.hint = absenceAdvice(path);
    return fail(std::move(error));
  }
  if (!S_ISREG(facts.st_mode)) {
    return fail(makeError(ErrorCode::kCorrupt, "the ledger is not a regular file").at(path));
  }
  const int wanted = access == Access::kReadWrite ? R_OK | W_OK : R_OK;
  if (::faccessat(AT_FDCWD, path.c_str(), wanted, AT_EACCESS) != 0) {
    auto error = systemError(errno, "cannot open the ledger", path);
    error.hint = "run as the user who owns the file, or give this user access to it";
    return fail(std::move(error));
  }
  return {};
}

std::string immutableUri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%')
      uri += fmt::format("%{:02x}", static_cast<int>(c));
    else
      uri += c;
  }
  return uri + "?immutable=1";
}

struct Explanation {
  ErrorCode code;
  const char* why;
  const char* hint;
};

Explanation explain(Trouble trouble) {
  switch (trouble) {
    case Trouble::kFull:
      return {ErrorCode::kUnavailable, "the disk is full",
              "free some space; running jobs go on, and stops and exits are still recorded"};
    case Trouble::kBusy:
      return {ErrorCode::kUnavailable, "another program holds the ledger's write lock",
              "end whatever else has the file open for writing, for example a sqlite3 shell"};
    case Trouble::kMemory:
      return {ErrorCode::kUnavailable, "no memory is left", "free some memory and try again"};
    case Trouble::kReadOnly:
      return {ErrorCode::kUnavailable, "the file or its file system is read-only",
              "make it writable (a file system often turns read-only after a disk error: see "
              "dmesg), then restart Bole"};
    case Trouble::kSync:
      return {ErrorCode::kUnavailable, "the disk did not confirm a write (fsync failed)",
              "look at the disk (dmesg, smartctl), then restart Bole: it finds out at the start "
              "what was kept"};
    case Trouble::kDevice:
      return {ErrorCode::kUnavailable, "the disk reports an error",
              "look at the disk (dmesg, smartctl), then restart Bole"};
    case Trouble::kCorrupt:
      return {ErrorCode::kCorrupt, "the file is damaged", ""};
    case Trouble::kNone:
    case Trouble::kCaller:
      break;
  }
  return {ErrorCode::kInternal, "SQLite refused", "this is a fault of Bole's: please report it"};
}

}  // namespace

bool retryMayMend(Trouble trouble) {
  return trouble < Trouble::kReadOnly;
}

Trouble classify(int code, int systemErrno) {
  if (code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC) return Trouble::kSync;
  if (systemErrno == ENOSPC || systemErrno == EDQUOT) return Trouble::kFull;
  // SQLite does not keep the errno of a failed growth of the -shm file; a full disk is the usual
  // cause by far.
  if (code == SQLITE_IOERR_SHMSIZE) return Trouble::kFull;
  switch (code & 0xff) {
    case SQLITE_FULL:
      return Trouble::kFull;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Trouble::kBusy;
    case SQLITE_NOMEM:
      return Trouble::kMemory;
    case SQLITE_READONLY:
      return Trouble::kReadOnly;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      return systemErrno == EROFS ? Trouble::kReadOnly : Trouble::kDevice;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Trouble::kCorrupt;
    default:
      return Trouble::kCaller;
  }
}

Error describe(int code, int systemErrno, std::string_view purpose, const std::string& path,
               std::string_view detail) {
  const auto trouble = classify(code, systemErrno);
  const auto explanation = explain(trouble);
  std::string why = explanation.why;
  if ((code & 0xff) == SQLITE_NOTADB) why = "the file is not an SQLite database";
  if ((code & 0xff) == SQLITE_CANTOPEN) {
    why = "the database or its -wal and -shm files cannot be opened";
  }
  const bool forbidden = systemErrno == EACCES || systemErrno == EPERM;
  if (trouble == Trouble::kCaller) why = fmt::format("SQLite says '{}'", detail);
  auto error = makeError(explanation.code, fmt::format("cannot {}: {}", purpose, why))
                   .at(path)
                   .withHint(explanation.hint);
  error = advised(std::move(error), path);
  if (forbidden) {
    error.code = ErrorCode::kPermission;
    error.hint = "run as the user who owns the file, or give this user access to its directory";
  }
  if (systemErrno != 0) {
    error.found = std::generic_category().message(systemErrno);
  } else if (trouble == Trouble::kCorrupt || trouble == Trouble::kDevice) {
    error.found = fmt::format("'{}' (SQLite code {})", detail, code);
  }
  return error;
}

Statement::Statement(Statement&& other) noexcept {
  *this = std::move(other);
}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(database_, other.database_);
  std::swap(statement_, other.statement_);
  std::swap(purpose_, other.purpose_);
  std::swap(bindCode_, other.bindCode_);
  return *this;
}

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

void Statement::noteBind(int code) {
  if (code != SQLITE_OK) bindCode_ = code;
}

Statement& Statement::bind(int index, std::int64_t value) {
  noteBind(sqlite3_bind_int64(statement_, index, value));
  return *this;
}

Statement& Statement::bindText(int index, std::string_view value) {
  // A null pointer would bind NULL instead of the empty string.
  const char* data = value.data() != nullptr ? value.data() : "";
  noteBind(sqlite3_bind_text64(statement_, index, data, value.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bindBlob(int index, std::string_view value) {
  const char* data = value.data() != nullptr ? value.data() : "";
  noteBind(sqlite3_bind_blob64(statement_, index, data, value.size(), SQLITE_STATIC));
  return *this;
}

Result<bool> Statement::step() {
  const int bound = std::exchange(bindCode_, SQLITE_OK);
  const int code = bound != SQLITE_OK ? bound : sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  auto error = database_->lastError(purpose_);
  reset();
  return fail(std::move(error));
}

Result<void> Statement::run() {
  BOLE_ASSIGN(const bool row, step());
  if (row) reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(statement_);
}

bool Statement::isNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
bool Statement::isInteger(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_INTEGER;
}
bool Statement::isText(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_TEXT;
}
bool Statement::isBlob(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_BLOB;
}
std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string_view Statement::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path, Access access,
                                                 const std::string& vfs) {
  BOLE_TRY(checkFile(path, access));
  std::unique_ptr<Database> database(new Database(path));
  const char* vfsName = vfs.empty() ? nullptr : vfs.c_str();
  const int mode = access == Access::kReadWrite ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  auto opened = database->connect(path, mode | SQLITE_OPEN_NOMUTEX, vfsName);
  if (opened) opened = database->setUp(access);
  const bool mayBeImmutable =
      access == Access::kReadOnly && fileSize(path + "-wal") == 0 &&
      ::faccessat(AT_FDCWD, directoryOf(path).c_str(), W_OK, AT_EACCESS) != 0;
  if (!opened && mayBeImmutable && database->trouble() != Trouble::kCorrupt) {
    database.reset(new Database(path));
    opened = database->connect(immutableUri(path), mode | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI,
                               vfsName);
    if (opened) opened = database->setUp(access);
  }
  if (!opened) return fail(std::move(opened).error());
  return database;
}

Result<void> Database::connect(const std::string& name, int flags, const char* vfs) {
  const int code = sqlite3_open_v2(name.c_str(), &handle_, flags, vfs);
  if (handle_ == nullptr) return fail(describe(SQLITE_NOMEM, 0, "open the ledger", path_, ""));
  sqlite3_extended_result_codes(handle_, 1);
  if (code != SQLITE_OK) return fail(lastError("open the ledger"));
  return {};
}

Result<void> Database::setUp(Access access) {
  // A writer never waits long, since the controller stands still meanwhile; a reader may wait out a
  // recovery.
  busyMillis_ = access == Access::kReadWrite ? 1000 : 5000;
  sqlite3_busy_timeout(handle_, busyMillis_);
  // The file may come from anyone (a backup, a disk): nothing in its schema is run or trusted.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  // Checkpoints are called, not left to a hook that would hide their errors.
  sqlite3_wal_autocheckpoint(handle_, 0);
  sqlite3_wal_hook(handle_, &Database::onCommit, this);
  BOLE_TRY(execute(kPragmas, "open the ledger"));
  // The first read finds out whether this is a database at all, and whether its log can be read.
  BOLE_TRY(execute("SELECT count(*) FROM sqlite_schema", "read the ledger"));
  if (access == Access::kReadWrite && sqlite3_db_readonly(handle_, "main") == 1) {
    trouble_ = Trouble::kReadOnly;
    return fail(describe(SQLITE_READONLY, 0, "open the ledger for writing", path_, ""));
  }
  return {};
}

Database::~Database() {
  sqlite3_close_v2(handle_);
}

int Database::onCommit(void* self, sqlite3*, const char*, int frames) {
  static_cast<Database*>(self)->walFrames_ = frames;
  return SQLITE_OK;
}

Result<void> Database::execute(const char* sql, const char* purpose) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return fail(lastError(purpose));
  }
  return {};
}

Result<Statement> Database::prepare(std::string_view sql, const char* purpose) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return fail(lastError(purpose));
  return Statement(this, statement, purpose);
}

Result<std::int64_t> Database::integer(std::string_view sql, const char* purpose) {
  BOLE_ASSIGN(auto statement, prepare(sql, purpose));
  BOLE_ASSIGN(const bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

Result<bool> Database::checkpoint(Checkpoint kind) {
  int inLog = 0;
  int done = 0;
  const int mode =
      kind == Checkpoint::kPassive ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE;
  sqlite3_busy_timeout(handle_, 0);
  const int code = sqlite3_wal_checkpoint_v2(handle_, "main", mode, &inLog, &done);
  auto error = code == SQLITE_OK || code == SQLITE_BUSY
                   ? Error{}
                   : lastError("move the write-ahead log into the ledger");
  sqlite3_busy_timeout(handle_, busyMillis_);
  if ((code & 0xff) == SQLITE_BUSY) return false;
  if (code != SQLITE_OK) return fail(std::move(error));
  if (kind == Checkpoint::kTruncate) BOLE_TRY(flushLog());
  return inLog == done;
}

void Database::goOnWhile(std::function<bool()> goOn) {
  constexpr int kSteps = 100'000;  // of SQLite's virtual machine: some milliseconds
  goOn_ = std::move(goOn);
  const auto ends = [](void* self) { return static_cast<Database*>(self)->goOn_() ? 0 : 1; };
  sqlite3_progress_handler(handle_, goOn_ ? kSteps : 0, goOn_ ? +ends : nullptr, this);
}

// SQLite leaves a truncation unflushed. A power loss could then bring back the old log: with what
// was erased, and, if an earlier flush of it had failed, with older pages than those that the
// database has by now.
Result<void> Database::flushLog() {
  sqlite3_file* log = nullptr;
  sqlite3_file_control(handle_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (log == nullptr || log->pMethods == nullptr) return {};
  const int code = log->pMethods->xSync(log, SQLITE_SYNC_FULL);
  if (code == SQLITE_OK) return {};
  trouble_ = classify(code, 0);
  return fail(describe(code, 0, "flush the write-ahead log", path_, sqlite3_errstr(code)));
}

Result<void> Database::useWal() {
  constexpr const char* kPurpose = "switch the ledger to write-ahead logging";
  // The page size has no effect once there are tables. The switch itself goes through a rollback
  // journal; EXTRA flushes its deletion, or a power loss could bring it back and with it the time
  // before the first events.
  BOLE_TRY(execute("PRAGMA auto_vacuum=NONE; PRAGMA page_size=4096; PRAGMA synchronous=EXTRA",
                   kPurpose));
  BOLE_ASSIGN(auto mode, prepare("PRAGMA journal_mode=WAL", kPurpose));
  BOLE_ASSIGN(const bool row, mode.step());
  const bool switched = row && mode.bytes(0) == "wal";
  if (switched) {
    mode.reset();
    return execute("PRAGMA synchronous=FULL", kPurpose);
  }
  return fail(makeError(ErrorCode::kUnavailable, fmt::format("cannot {}", kPurpose))
                  .at(path_)
                  .foundValue(row ? std::string(mode.bytes(0)) : "nothing")
                  .withHint("the home must lie on a local file system that supports shared "
                            "memory files (not NFS)"));
}

Result<void> Database::copyTo(const std::string& target) {
  constexpr const char* kPurpose = "copy the ledger";
  BOLE_ASSIGN(const auto copy, open(target, Access::kReadWrite));
  auto* backup = sqlite3_backup_init(copy->handle_, "main", handle_, "main");
  if (backup == nullptr) return fail(copy->lastError(kPurpose));
  const int stepped = sqlite3_backup_step(backup, -1);
  const int finished = sqlite3_backup_finish(backup);
  const int code = stepped == SQLITE_DONE ? finished : stepped;
  if (code != SQLITE_OK) {
    // A full disk is the copy's; a damaged page may be either's.
    const int systemErrno = std::max(sqlite3_system_errno(copy->handle_), 0);
    return fail(describe(code, (code & 0xff) == SQLITE_IOERR ? systemErrno : 0, kPurpose, target,
                         sqlite3_errstr(code)));
  }
  BOLE_ASSIGN(auto mode, copy->prepare("PRAGMA journal_mode=DELETE", kPurpose));
  BOLE_ASSIGN(const bool row, mode.step());
  if (row && mode.bytes(0) == "delete") return {};
  return fail(makeError(ErrorCode::kInternal, "the copy keeps a write-ahead log").at(target));
}

int Database::changes() const {
  return sqlite3_changes(handle_);
}

bool Database::insideTransaction() const {
  return sqlite3_get_autocommit(handle_) == 0;
}

Error Database::lastError(const char* purpose) {
  const int code = sqlite3_extended_errcode(handle_);
  const int primary = code & 0xff;
  const bool system = primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN;
  const int systemErrno = system ? sqlite3_system_errno(handle_) : 0;
  trouble_ = classify(code, systemErrno);
  return describe(code, systemErrno, purpose, path_, sqlite3_errmsg(handle_));
}

Result<Transaction> Transaction::beginWrite(Database& database) {
  BOLE_TRY(database.execute("BEGIN IMMEDIATE", "begin to write"));
  return Transaction(&database);
}

Result<Transaction> Transaction::beginRead(Database& database) {
  BOLE_TRY(database.execute("BEGIN", "begin to read"));
  return Transaction(&database);
}

Result<void> Transaction::commit() {
  BOLE_TRY(database_->execute("COMMIT", "make the events durable"));
  database_ = nullptr;
  return {};
}

Transaction::~Transaction() {
  if (database_ == nullptr || !database_->insideTransaction()) return;
  const auto trouble = database_->trouble();
  // What goes wrong here has been told by the statement that failed; a journal that cannot be
  // rolled back is ignored by the next transaction all the same.
  static_cast<void>(database_->execute("ROLLBACK", "take back what was not committed"));
  database_->trouble_ = trouble;
}

}  // namespace bole::ledger
