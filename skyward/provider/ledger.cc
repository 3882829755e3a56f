#include "skyward/provider/ledger.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "skyward/io/private_directory.h"
#include "skyward/io/shared_library.h"

namespace skyward::provider {

namespace {

// The functions of SQLite that are used here.
struct Sqlite {
  decltype(&sqlite3_open_v2) open_v2 = nullptr;
  decltype(&sqlite3_close_v2) close_v2 = nullptr;
  decltype(&sqlite3_exec) exec = nullptr;
  decltype(&sqlite3_errmsg) errmsg = nullptr;
  decltype(&sqlite3_busy_timeout) busy_timeout = nullptr;
  decltype(&sqlite3_prepare_v2) prepare_v2 = nullptr;
  decltype(&sqlite3_bind_text) bind_text = nullptr;
  decltype(&sqlite3_bind_int64) bind_int64 = nullptr;
  decltype(&sqlite3_bind_null) bind_null = nullptr;
  decltype(&sqlite3_step) step = nullptr;
  decltype(&sqlite3_column_text) column_text = nullptr;
  decltype(&sqlite3_column_int64) column_int64 = nullptr;
  decltype(&sqlite3_column_type) column_type = nullptr;
  decltype(&sqlite3_finalize) finalize = nullptr;
  bool ready = false;
};

Sqlite load_sqlite() {
  Sqlite sqlite;
  void* library = io::load_library({"libsqlite3.so.0"});
  if (library == nullptr) return sqlite;
  sqlite.ready = io::find_symbol(library, "sqlite3_open_v2", sqlite.open_v2) &&
                 io::find_symbol(library, "sqlite3_close_v2", sqlite.close_v2) &&
                 io::find_symbol(library, "sqlite3_exec", sqlite.exec) &&
                 io::find_symbol(library, "sqlite3_errmsg", sqlite.errmsg) &&
                 io::find_symbol(library, "sqlite3_busy_timeout", sqlite.busy_timeout) &&
                 io::find_symbol(library, "sqlite3_prepare_v2", sqlite.prepare_v2) &&
                 io::find_symbol(library, "sqlite3_bind_text", sqlite.bind_text) &&
                 io::find_symbol(library, "sqlite3_bind_int64", sqlite.bind_int64) &&
                 io::find_symbol(library, "sqlite3_bind_null", sqlite.bind_null) &&
                 io::find_symbol(library, "sqlite3_step", sqlite.step) &&
                 io::find_symbol(library, "sqlite3_column_text", sqlite.column_text) &&
                 io::find_symbol(library, "sqlite3_column_int64", sqlite.column_int64) &&
                 io::find_symbol(library, "sqlite3_column_type", sqlite.column_type) &&
                 io::find_symbol(library, "sqlite3_finalize", sqlite.finalize);
  return sqlite;
}

const Sqlite& sqlite() {
  static const Sqlite kSqlite = load_sqlite();
  return kSqlite;
}

constexpr int kBusyTimeout_ms = 10'000;  // of other processes' writing

// synchronous=FULL: a line that was written is there after a power cut.
constexpr const char* kSchema = R"sql(
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
CREATE TABLE IF NOT EXISTS pool (
  id TEXT PRIMARY KEY, provider TEXT NOT NULL, region TEXT NOT NULL, settings TEXT NOT NULL,
  opened_s INTEGER NOT NULL, closed_s INTEGER);
CREATE TABLE IF NOT EXISTS entry (
  key TEXT NOT NULL, pool TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
  count INTEGER NOT NULL, spot INTEGER NOT NULL, instance_type TEXT NOT NULL,
  hourly_micro_dollars INTEGER NOT NULL, asked_s INTEGER NOT NULL, gone_s INTEGER,
  PRIMARY KEY (pool, key, id));
)sql";

using Value = std::variant<std::string, std::int64_t>;

class SqliteLedger final : public Ledger {
 public:
  SqliteLedger(sqlite3* database, std::string path) : database_(database), path_(std::move(path)) {}
  SqliteLedger(const SqliteLedger&) = delete;
  SqliteLedger& operator=(const SqliteLedger&) = delete;
  ~SqliteLedger() override { sqlite().close_v2(database_); }

  Status prepare_schema() { return execute(kSchema); }

  Status open_pool(const LedgerPool& pool) override {
    return run(
        "INSERT INTO pool (id, provider, region, settings, opened_s) VALUES (?,?,?,?,?)",
        {pool.id, pool.provider, pool.region, nlohmann::json(pool.settings).dump(), pool.opened_s});
  }

  Status close_pool(const std::string& pool, std::int64_t now_s) override {
    return run("UPDATE pool SET closed_s=? WHERE id=? AND closed_s IS NULL", {now_s, pool});
  }

  Status ask(const LedgerEntry& entry) override {
    return run(
        "INSERT INTO entry (key, pool, kind, id, count, spot, instance_type, hourly_micro_dollars, "
        "asked_s) VALUES (?,?,?,?,?,?,?,?,?)",
        {entry.key, entry.pool, entry.kind, entry.id, std::int64_t{entry.count},
         std::int64_t{entry.spot}, entry.instance_type, entry.hourly_micro_dollars, entry.asked_s});
  }

  Status made(const std::string& pool, const std::string& key,
              const std::vector<std::string>& ids) override {
    if (Status status = execute("BEGIN IMMEDIATE"); !status) return status;
    Status status;
    for (const std::string& id : ids) {
      if (!status) break;
      status =
          run("INSERT OR IGNORE INTO entry SELECT key, pool, kind, ?, 1, spot, instance_type, "
              "hourly_micro_dollars, asked_s, NULL FROM entry WHERE pool=? AND key=? AND id=''",
              {id, pool, key});
    }
    if (status && !ids.empty()) {
      status = run("DELETE FROM entry WHERE pool=? AND key=? AND id=''", {pool, key});
    }
    if (!status) {
      (void)execute("ROLLBACK");
      return status;
    }
    return execute("COMMIT");
  }

  Status gone(const std::string& pool, const std::string& key_or_id, std::int64_t now_s) override {
    return run(
        "UPDATE entry SET gone_s=? WHERE pool=? AND (id=? OR (key=? AND id='')) AND gone_s IS NULL",
        {now_s, pool, key_or_id, key_or_id});
  }

  Result<std::vector<LedgerPool>> pools(bool open_only) override {
    std::vector<LedgerPool> out;
    const Status status = select(
        fmt::format("SELECT id, provider, region, settings, opened_s, closed_s FROM pool {} ORDER "
                    "BY opened_s DESC, id",
                    open_only ? "WHERE closed_s IS NULL" : ""),
        {}, [&](sqlite3_stmt* row) {
          LedgerPool pool{.id = text(row, 0), .provider = text(row, 1), .region = text(row, 2)};
          const auto settings = nlohmann::json::parse(text(row, 3), nullptr, false);
          if (settings.is_object()) {
            for (const auto& [name, value] : settings.items()) {
              if (value.is_string()) pool.settings[name] = value;
            }
          }
          pool.opened_s = sqlite().column_int64(row, 4);
          if (!is_null(row, 5)) pool.closed_s = sqlite().column_int64(row, 5);
          out.push_back(std::move(pool));
        });
    if (!status) return fail(status);
    return out;
  }

  Result<std::vector<LedgerEntry>> entries(const std::string& pool, bool open_only) override {
    std::vector<LedgerEntry> out;
    const Status status = select(
        fmt::format("SELECT key, pool, kind, id, count, spot, instance_type, hourly_micro_dollars, "
                    "asked_s, gone_s FROM entry WHERE pool=? {} ORDER BY asked_s, key, id",
                    open_only ? "AND gone_s IS NULL" : ""),
        {pool}, [&](sqlite3_stmt* row) {
          LedgerEntry entry{.key = text(row, 0),
                            .pool = text(row, 1),
                            .kind = text(row, 2),
                            .id = text(row, 3),
                            .count = static_cast<int>(sqlite().column_int64(row, 4)),
                            .spot = sqlite().column_int64(row, 5) != 0,
                            .instance_type = text(row, 6),
                            .hourly_micro_dollars = sqlite().column_int64(row, 7),
                            .asked_s = sqlite().column_int64(row, 8)};
          if (!is_null(row, 9)) entry.gone_s = sqlite().column_int64(row, 9);
          out.push_back(std::move(entry));
        });
    if (!status) return fail(status);
    return out;
  }

 private:
  static std::string text(sqlite3_stmt* row, int column) {
    const auto* found = sqlite().column_text(row, column);
    return found == nullptr ? std::string() : reinterpret_cast<const char*>(found);
  }
  static bool is_null(sqlite3_stmt* row, int column) {
    return sqlite().column_type(row, column) == SQLITE_NULL;
  }

  std::unexpected<Error> wrong() const {
    return fail(ErrorKind::unavailable,
                fmt::format("the ledger {} cannot be used: {}", path_, sqlite().errmsg(database_)),
                "nothing is bought without it: check the rights and the free space there");
  }

  Status execute(const char* statement) {
    if (sqlite().exec(database_, statement, nullptr, nullptr, nullptr) != SQLITE_OK) {
      return wrong();
    }
    return {};
  }

  Status run(const std::string& statement, std::initializer_list<Value> values) {
    return select(statement, values, [](sqlite3_stmt*) {});
  }

  template <typename Row>
  Status select(const std::string& statement, std::initializer_list<Value> values, Row on_row) {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite().prepare_v2(database_, statement.c_str(), -1, &prepared, nullptr) != SQLITE_OK) {
      return wrong();
    }
    int column = 0;
    for (const Value& value : values) {
      ++column;
      if (const auto* words = std::get_if<std::string>(&value)) {
        // The text outlives the statement.
        sqlite().bind_text(prepared, column, words->data(), static_cast<int>(words->size()),
                           nullptr);
      } else {
        sqlite().bind_int64(prepared, column, std::get<std::int64_t>(value));
      }
    }
    int code = SQLITE_ROW;
    while ((code = sqlite().step(prepared)) == SQLITE_ROW) on_row(prepared);
    Status status;
    if (code != SQLITE_DONE) status = wrong();
    sqlite().finalize(prepared);
    return status;
  }

  sqlite3* const database_;
  const std::string path_;
};

}  // namespace

Result<std::unique_ptr<Ledger>> Ledger::open(const std::string& path) {
  if (!sqlite().ready) {
    return fail(ErrorKind::unsupported,
                "what is bought is written into an SQLite file, and this machine has no "
                "libsqlite3.so.0",
                "install it, for example with 'apt-get install libsqlite3-0'");
  }
  const std::string parent = std::filesystem::path(path).parent_path();
  if (Status status = io::ensure_private_path(parent); !status) return fail(status);
  sqlite3* database = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  const int code = sqlite().open_v2(path.c_str(), &database, flags, nullptr);
  auto ledger = std::make_unique<SqliteLedger>(database, path);
  if (code != SQLITE_OK) {
    return fail(ErrorKind::denied,
                fmt::format("the ledger {} cannot be opened: {}", path, sqlite().errmsg(database)),
                "check the rights of that file, or set XDG_STATE_HOME to another directory");
  }
  sqlite().busy_timeout(database, kBusyTimeout_ms);
  if (Status status = ledger->prepare_schema(); !status) return fail(status);
  return ledger;
}

}  // namespace skyward::provider
