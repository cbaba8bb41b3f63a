// SQLite in this project's terms: a connection, prepared statements, transactions, and errors that
// say what to do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace bole::ledger {

// The kinds of failure that are handled differently. The first line: a retry may mend it.
enum class Trouble {
  kNone,
  kFull,
  kBusy,
  kMemory,
  kCaller,
  kReadOnly,
  kSync,
  kDevice,
  kCorrupt,
};
[[nodiscard]] bool retryMayMend(Trouble trouble);

// `code` is SQLite's extended code, `systemErrno` what the system said, 0 if nothing.
[[nodiscard]] Trouble classify(int code, int systemErrno);
// The sentence "cannot <purpose>: <why>", with where, and a hint for the night.
[[nodiscard]] Error describe(int code, int systemErrno, std::string_view purpose,
                             const std::string& path, std::string_view detail);

class Database;

// A prepared statement. Bound text and blobs are borrowed: they must live until reset() (or the end
// of run()).
class Statement {
 public:
  Statement() = default;
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, std::uint64_t value) {
    return bind(index, static_cast<std::int64_t>(value));
  }
  Statement& bindText(int index, std::string_view value);
  Statement& bindBlob(int index, std::string_view value);

  // True: there is a row. After false or an error the statement is reset.
  [[nodiscard]] Result<bool> step();
  // For statements without rows.
  [[nodiscard]] Result<void> run();
  void reset();

  // Columns of the current row; views hold until the next step or reset.
  [[nodiscard]] bool isNull(int column) const;
  [[nodiscard]] bool isInteger(int column) const;
  [[nodiscard]] bool isText(int column) const;
  [[nodiscard]] bool isBlob(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::uint64_t natural(int column) const {
    return static_cast<std::uint64_t>(integer(column));
  }
  [[nodiscard]] std::string_view bytes(int column) const;

 private:
  friend class Database;
  Statement(Database* database, sqlite3_stmt* statement, const char* purpose)
      : database_(database), statement_(statement), purpose_(purpose) {}
  void noteBind(int code);

  Database* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
  const char* purpose_ = "";
  int bindCode_ = 0;
};

// Resets a statement when the scope ends, so that no read transaction is left open by an early
// return.
class ResetAtEnd {
 public:
  explicit ResetAtEnd(Statement& statement) : statement_(statement) {}
  ResetAtEnd(const ResetAtEnd&) = delete;
  ResetAtEnd& operator=(const ResetAtEnd&) = delete;
  ~ResetAtEnd() { statement_.reset(); }

 private:
  Statement& statement_;
};

enum class Access { kReadWrite, kReadOnly };
enum class Checkpoint { kPassive, kTruncate };

class Database {
 public:
  // The file must exist. Checks that it can be read and, for kReadWrite, written, before SQLite
  // sees it. A database in WAL mode on a read-only medium is opened as immutable if it was closed
  // cleanly. `vfs` names a registered SQLite VFS; empty is the system's.
  [[nodiscard]] static Result<std::unique_ptr<Database>> open(const std::string& path,
                                                              Access access,
                                                              const std::string& vfs = "");
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Result<void> execute(const char* sql, const char* purpose);
  // Puts the file into WAL mode if it is not (a new one, a backup).
  [[nodiscard]] Result<void> useWal();
  // `purpose` completes "cannot ..." and must be a literal.
  [[nodiscard]] Result<Statement> prepare(std::string_view sql, const char* purpose);
  // The one integer that a query gives; 0 for NULL or no row.
  [[nodiscard]] Result<std::int64_t> integer(std::string_view sql, const char* purpose);

  // Frames in the write-ahead log after the last commit.
  [[nodiscard]] int walFrames() const { return walFrames_; }
  // True if everything in the log has reached the database file (and, for kTruncate, the log is
  // empty). False if a reader is in the way; never waits for one.
  [[nodiscard]] Result<bool> checkpoint(Checkpoint kind);

  [[nodiscard]] bool insideTransaction() const;
  // Rows that the last INSERT, UPDATE or DELETE changed.
  [[nodiscard]] int changes() const;

  // Makes `target`, an empty file, a copy of this database as one read transaction sees it: a
  // single file without a write-ahead log, flushed.
  [[nodiscard]] Result<void> copyTo(const std::string& target);

  // Asked now and then while a statement runs; false ends it with an error. For reads.
  void goOnWhile(std::function<bool()> goOn);

  // What the last error of this connection was.
  [[nodiscard]] Trouble trouble() const { return trouble_; }
  void forgetTrouble() { trouble_ = Trouble::kNone; }

 private:
  friend class Statement;
  friend class Transaction;
  explicit Database(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] Result<void> connect(const std::string& name, int flags, const char* vfs);
  [[nodiscard]] Result<void> setUp(Access access);
  [[nodiscard]] Result<void> flushLog();
  // The connection's last failure as an Error; remembers its kind.
  [[nodiscard]] Error lastError(const char* purpose);
  static int onCommit(void* self, sqlite3* handle, const char* name, int frames);

  std::string path_;
  std::function<bool()> goOn_;
  sqlite3* handle_ = nullptr;
  int walFrames_ = 0;
  int busyMillis_ = 0;
  Trouble trouble_ = Trouble::kNone;
};

// Rolls back at the end of the scope unless committed.
class Transaction {
 public:
  [[nodiscard]] static Result<Transaction> beginWrite(Database& database);
  [[nodiscard]] static Result<Transaction> beginRead(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  ~Transaction();
  [[nodiscard]] Result<void> commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace bole::ledger
