// What SQLite itself does with the same bytes: group commits into a WAL with synchronous=FULL, no
// chain, no checks.
//
//   raw_sqlite DIRECTORY EVENTS GROUP BODY-BYTES SIDE-BYTES
//
// Prints {"events":..,"seconds":..,"per_second":..}
#include <fmt/format.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

namespace {

void must(int code, sqlite3* db) {
  if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW) return;
  std::cerr << sqlite3_errmsg(db) << "\n";
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: raw_sqlite DIRECTORY EVENTS GROUP BODY-BYTES SIDE-BYTES\n";
    return 2;
  }
  const auto events = std::strtol(argv[2], nullptr, 10);
  const auto group = std::strtol(argv[3], nullptr, 10);
  const std::string body(std::strtoul(argv[4], nullptr, 10), 'b');
  const std::string side(std::strtoul(argv[5], nullptr, 10), 's');
  const std::string hash(32, 'h');
  sqlite3* db = nullptr;
  must(sqlite3_open((std::string(argv[1]) + "/raw.db").c_str(), &db), db);
  must(sqlite3_exec(
           db,
           "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
           "CREATE TABLE events(sequence INTEGER PRIMARY KEY, time INTEGER, kind TEXT, version "
           "INTEGER,"
           " actor INTEGER, project INTEGER, request_id TEXT, source TEXT, body TEXT, hash BLOB);"
           "CREATE TABLE side(id INTEGER PRIMARY KEY, salt BLOB, value TEXT);",
           nullptr, nullptr, nullptr),
       db);
  sqlite3_stmt* event = nullptr;
  sqlite3_stmt* value = nullptr;
  must(sqlite3_prepare_v2(
           db, "INSERT INTO events VALUES(?,?,'job.submitted',1,1,1,'request-12345','api',?,?)", -1,
           &event, nullptr),
       db);
  must(sqlite3_prepare_v2(db, "INSERT INTO side VALUES(?,?,?)", -1, &value, nullptr), db);
  const auto begin = std::chrono::steady_clock::now();
  for (long i = 0; i < events;) {
    must(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), db);
    for (long j = 0; j < group && i < events; ++j, ++i) {
      sqlite3_bind_int64(event, 1, i + 1);
      sqlite3_bind_int64(event, 2, 1'700'000'000'000'000 + i);
      sqlite3_bind_text(event, 3, body.data(), static_cast<int>(body.size()), SQLITE_STATIC);
      sqlite3_bind_blob(event, 4, hash.data(), 32, SQLITE_STATIC);
      must(sqlite3_step(event), db);
      sqlite3_reset(event);
      sqlite3_bind_int64(value, 1, i + 1);
      sqlite3_bind_blob(value, 2, hash.data(), 16, SQLITE_STATIC);
      sqlite3_bind_text(value, 3, side.data(), static_cast<int>(side.size()), SQLITE_STATIC);
      must(sqlite3_step(value), db);
      sqlite3_reset(value);
    }
    must(sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr), db);
  }
  const auto seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{{\"events\":{},\"seconds\":{:.3f},\"per_second\":{:.0f}}}\n", events, seconds,
             static_cast<double>(events) / seconds);
  sqlite3_finalize(event);
  sqlite3_finalize(value);
  sqlite3_close(db);
}
