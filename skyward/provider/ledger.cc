#include "skyward/provider/ledger.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "skyward/base/text.h"
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
  decltype(&sqlite3_errcode) errcode = nullptr;
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
  void* library = io::load_library({"libsqlite3.so.0"}).handle;
  if (library == nullptr) return sqlite;
  sqlite.ready = io::find_symbol(library, "sqlite3_open_v2", sqlite.open_v2) &&
                 io::find_symbol(library, "sqlite3_close_v2", sqlite.close_v2) &&
                 io::find_symbol(library, "sqlite3_exec", sqlite.exec) &&
                 io::find_symbol(library, "sqlite3_errmsg", sqlite.errmsg) &&
                 io::find_symbol(library, "sqlite3_errcode", sqlite.errcode) &&
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

// Not a write-ahead log: that needs memory that all its processes share, which a network file
// system does not give, and a file may be local on one computer and not on another.
constexpr const char* kJournalMode = "PRAGMA journal_mode=DELETE";
// A line that was written is there after a power cut: FULL would not write the journal's removal.
constexpr const char* kSynchronous = "PRAGMA synchronous=EXTRA";

constexpr std::int64_t kSchemaVersion = 1;

// The keys alone; the other columns are added as they are to a file of an older version.
constexpr const char* kTables = R"sql(
CREATE TABLE IF NOT EXISTS pool (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS entry (
  key TEXT NOT NULL, pool TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (pool, key, id));
)sql";

struct Column {
  const char* table;
  const char* name;
  const char* type;
  const char* otherwise;  // in lines of a version that did not have it
};
constexpr std::array<Column, 14> kColumns = {{
    {"pool", "provider", "TEXT", "''"},
    {"pool", "region", "TEXT", "''"},
    {"pool", "settings", "TEXT", "'{}'"},
    {"pool", "opened_s", "INTEGER", "0"},
    {"pool", "closed_s", "INTEGER", "NULL"},
    {"pool", "expires_s", "INTEGER", "0"},
    {"entry", "kind", "TEXT", "''"},
    {"entry", "count", "INTEGER", "1"},
    {"entry", "spot", "INTEGER", "0"},
    {"entry", "instance_type", "TEXT", "''"},
    {"entry", "hourly_micro_dollars", "INTEGER", "0"},
    {"entry", "asked_s", "INTEGER", "0"},
    {"entry", "gone_s", "INTEGER", "NULL"},
    {"entry", "gone_late", "INTEGER", "0"},
}};

// Clocks differ, and a machine takes its time to end.
constexpr std::int64_t kEnding_s = 120;

std::string settings_text(const std::map<std::string, std::string>& settings) {
  using nlohmann::json;
  return json(settings).dump(-1, ' ', false, json::error_handler_t::replace);
}

using Value = std::variant<std::string, std::int64_t>;

class SqliteLedger final : public Ledger {
 public:
  SqliteLedger(sqlite3* database, std::string path) : database_(database), path_(std::move(path)) {}
  SqliteLedger(const SqliteLedger&) = delete;
  SqliteLedger& operator=(const SqliteLedger&) = delete;
  ~SqliteLedger() override { sqlite().close_v2(database_); }

  Status prepare_schema() {
    // Fails while an older version has the file open with a log, which serves as well.
    (void)execute(kJournalMode);
    if (Status status = execute(kSynchronous); !status) return status;
    const auto version = schema_version();
    if (!version) return fail(version);
    if (*version == kSchemaVersion) return {};
    return transaction([&] { return complete_schema(); });
  }

  // Of a file that is only read.
  Status learn_schema() {
    if (const auto version = schema_version(); !version) return fail(version);
    const auto there = columns();
    if (!there) return fail(there);
    blank_ = there->empty();
    for (const Column& column : kColumns) {
      if (!there->contains({column.table, column.name})) {
        lacking_.emplace(column.table, column.name);
      }
    }
    return {};
  }

  // The last statement failed since the file must be read with others, which could not be made or
  // changed; not because somebody writes.
  bool needs_files() const {
    const int code = sqlite().errcode(database_) & 0xff;
    return code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_IOERR ||
           code == SQLITE_FULL;
  }

  Status open_pool(const LedgerPool& pool) override {
    return run(
        "INSERT INTO pool (id, provider, region, settings, opened_s, expires_s) VALUES "
        "(?,?,?,?,?,?)",
        {pool.id, pool.provider, pool.region, settings_text(pool.settings), pool.opened_s,
         pool.expires_s});
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
    std::int64_t known = 0;
    const auto count_known = [&] {
      return select("SELECT COUNT(*) FROM entry WHERE pool=? AND key=? AND id<>''", {pool, key},
                    [&](sqlite3_stmt* row) { known = sqlite().column_int64(row, 0) - known; });
    };
    return transaction([&] {
      Status status = count_known();
      for (const std::string& id : ids) {
        if (!status) break;
        status =
            run("INSERT OR IGNORE INTO entry (key, pool, kind, id, count, spot, instance_type, "
                "hourly_micro_dollars, asked_s) SELECT key, pool, kind, ?, 1, spot, instance_type, "
                "hourly_micro_dollars, asked_s FROM entry WHERE pool=? AND key=? AND id=''",
                {id, pool, key});
      }
      // Of how many nothing is known is still there.
      if (status) status = count_known();
      if (status) {
        status = run("UPDATE entry SET count=count-? WHERE pool=? AND key=? AND id=''",
                     {known, pool, key});
      }
      if (status) {
        status =
            run("DELETE FROM entry WHERE pool=? AND key=? AND id='' AND count<=0", {pool, key});
      }
      return status;
    });
  }

  Status price(const std::string& pool, const std::string& id,
               std::int64_t hourly_micro_dollars) override {
    return run("UPDATE entry SET hourly_micro_dollars=? WHERE pool=? AND id=?",
               {hourly_micro_dollars, pool, id});
  }

  Status gone(const std::string& pool, const std::vector<std::string>& keys_or_ids,
              std::int64_t now_s) override {
    return transaction([&] {
      Status status;
      for (const std::string& one : keys_or_ids) {
        if (status) status = mark_gone(pool, one, now_s, false);
      }
      return status;
    });
  }
  Status gone_by(const std::string& pool, const std::string& key_or_id,
                 std::int64_t latest_s) override {
    return mark_gone(pool, key_or_id, latest_s, true);
  }

  Result<std::vector<LedgerPool>> pools(bool open_only) override {
    return select_pools(
        fmt::format("{} ORDER BY coalesce({}, 0) DESC, id",
                    open_only ? fmt::format("WHERE {} IS NULL", field("pool", "closed_s")) : "",
                    field("pool", "opened_s")),
        {});
  }

  Result<std::optional<LedgerPool>> find_pool(const std::string& id) override {
    auto found = select_pools("WHERE id=?", {id});
    if (!found) return fail(found);
    return found->empty() ? std::nullopt : std::optional(std::move(found->front()));
  }

  Result<std::vector<LedgerEntry>> entries(const std::string& pool, bool open_only) override {
    std::vector<LedgerEntry> out;
    if (blank_) return out;
    const Status status = select(
        fmt::format(
            "SELECT key, pool, id{} FROM entry WHERE pool=? {} ORDER BY coalesce({}, 0), key, id",
            fields("entry", {"kind", "count", "spot", "instance_type", "hourly_micro_dollars",
                             "asked_s", "gone_s", "gone_late"}),
            open_only ? fmt::format("AND {} IS NULL", field("entry", "gone_s")) : "",
            field("entry", "asked_s")),
        {pool}, [&](sqlite3_stmt* row) {
          LedgerEntry entry{.key = text(row, 0),
                            .pool = text(row, 1),
                            .kind = text(row, 3),
                            .id = text(row, 2),
                            .count = static_cast<int>(sqlite().column_int64(row, 4)),
                            .spot = sqlite().column_int64(row, 5) != 0,
                            .instance_type = text(row, 6),
                            .hourly_micro_dollars = sqlite().column_int64(row, 7),
                            .asked_s = sqlite().column_int64(row, 8)};
          if (!is_null(row, 9)) entry.gone_s = sqlite().column_int64(row, 9);
          entry.gone_late = sqlite().column_int64(row, 10) != 0;
          out.push_back(std::move(entry));
        });
    if (!status) return fail(status);
    return out;
  }

 private:
  // `which`: the conditions and the order, with their values.
  Result<std::vector<LedgerPool>> select_pools(const std::string& which,
                                               std::initializer_list<Value> values) {
    std::vector<LedgerPool> out;
    if (blank_) return out;
    const Status status = select(
        fmt::format(
            "SELECT id{} FROM pool {}",
            fields("pool", {"provider", "region", "settings", "opened_s", "closed_s", "expires_s"}),
            which),
        values, [&](sqlite3_stmt* row) {
          LedgerPool pool{.id = text(row, 0), .provider = text(row, 1), .region = text(row, 2)};
          const auto settings = nlohmann::json::parse(text(row, 3), nullptr, false);
          if (settings.is_object()) {
            for (const auto& [name, value] : settings.items()) {
              if (value.is_string()) pool.settings[name] = value;
            }
          }
          pool.opened_s = sqlite().column_int64(row, 4);
          if (!is_null(row, 5)) pool.closed_s = sqlite().column_int64(row, 5);
          pool.expires_s = sqlite().column_int64(row, 6);
          out.push_back(std::move(pool));
        });
    if (!status) return fail(status);
    return out;
  }

  static std::string text(sqlite3_stmt* row, int column) {
    const auto* found = sqlite().column_text(row, column);
    return found == nullptr ? std::string() : reinterpret_cast<const char*>(found);
  }
  static bool is_null(sqlite3_stmt* row, int column) {
    return sqlite().column_type(row, column) == SQLITE_NULL;
  }

  std::unexpected<Error> wrong() const {
    const int code = sqlite().errcode(database_) & 0xff;
    const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    return fail(
        ErrorKind::unavailable,
        fmt::format("the ledger {} cannot be used: {}", path_, sqlite().errmsg(database_)),
        damaged
            ? "move it away: Skyward starts a new one, and 'skyward gc' finds the machines in it "
              "by their tags; it keeps those that may still be in use, which 'skyward pool delete "
              "ID' terminates"
            : "Skyward launches nothing without it: check the permissions and free space there");
  }

  Status mark_gone(const std::string& pool, const std::string& key_or_id, std::int64_t gone_s,
                   bool late) {
    return run(
        "UPDATE entry SET gone_s=?, gone_late=? WHERE pool=? AND (id=? OR (key=? AND id='')) AND "
        "gone_s IS NULL",
        {gone_s, std::int64_t{late}, pool, key_or_id, key_or_id});
  }

  // Fails with `unsupported` for a newer one than this program knows.
  Result<std::int64_t> schema_version() {
    std::int64_t version = 0;
    const Status status = select("PRAGMA user_version", {}, [&](sqlite3_stmt* row) {
      version = sqlite().column_int64(row, 0);
    });
    if (!status) return fail(status);
    if (version > kSchemaVersion) {
      return fail(
          ErrorKind::unsupported,
          fmt::format("the ledger {} was written by a newer version of skyward", path_),
          "use that version; another XDG_STATE_HOME has another ledger, which knows nothing "
          "of these pools");
    }
    return version;
  }

  using Columns = std::set<std::pair<std::string, std::string>>;  // table, name
  Result<Columns> columns() {
    Columns there;
    for (const std::string table : {"pool", "entry"}) {
      const Status status = select(fmt::format("PRAGMA table_info({})", table), {},
                                   [&](sqlite3_stmt* row) { there.emplace(table, text(row, 1)); });
      if (!status) return fail(status);
    }
    return there;
  }

  // What to select for a column.
  std::string field(const char* table, const char* name) const {
    if (!lacking_.contains({table, name})) return name;
    const auto* column = std::ranges::find_if(kColumns, [&](const Column& one) {
      return std::string_view(one.table) == table && std::string_view(one.name) == name;
    });
    return column->otherwise;
  }
  std::string fields(const char* table, std::initializer_list<const char*> names) const {
    std::string out;
    for (const char* name : names) out += ", " + field(table, name);
    return out;
  }

  // Another process may have done the same a moment ago.
  Status complete_schema() {
    if (Status status = execute(kTables); !status) return status;
    const auto there = columns();
    if (!there) return fail(there);
    for (const Column& column : kColumns) {
      if (there->contains({column.table, column.name})) continue;
      const bool may_lack = column.otherwise == std::string_view("NULL");
      const Status added = execute(
          fmt::format("ALTER TABLE {} ADD COLUMN {} {}{}{}", column.table, column.name, column.type,
                      may_lack ? "" : " NOT NULL DEFAULT ", may_lack ? "" : column.otherwise));
      if (!added) return added;
    }
    return execute(fmt::format("PRAGMA user_version={}", kSchemaVersion));
  }

  template <typename Work>
  Status transaction(Work work) {
    if (Status status = execute("BEGIN IMMEDIATE"); !status) return status;
    Status status = work();
    // While somebody reads for a long time it fails as busy, and the transaction stays open.
    if (status) status = execute("COMMIT");
    if (!status) (void)execute("ROLLBACK");
    return status;
  }

  Status execute(const std::string& statements) {
    if (sqlite().exec(database_, statements.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
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
  bool blank_ = false;  // there is not even a table
  Columns lacking_{};   // of a file that may not be completed
};

class BlankLedger final : public Ledger {
 public:
  Status open_pool(const LedgerPool&) override { return {}; }
  Status close_pool(const std::string&, std::int64_t) override { return {}; }
  Status ask(const LedgerEntry&) override { return {}; }
  Status made(const std::string&, const std::string&, const std::vector<std::string>&) override {
    return {};
  }
  Status price(const std::string&, const std::string&, std::int64_t) override { return {}; }
  Status gone(const std::string&, const std::vector<std::string>&, std::int64_t) override {
    return {};
  }
  Status gone_by(const std::string&, const std::string&, std::int64_t) override { return {}; }
  Result<std::vector<LedgerPool>> pools(bool) override { return std::vector<LedgerPool>{}; }
  Result<std::optional<LedgerPool>> find_pool(const std::string&) override {
    return std::optional<LedgerPool>();
  }
  Result<std::vector<LedgerEntry>> entries(const std::string&, bool) override {
    return std::vector<LedgerEntry>{};
  }
};

}  // namespace

std::string LedgerPool::setting(const std::string& name) const { return value_at(settings, name); }

bool is_of_ledger(const Error& error, const std::string& path) {
  return error.message.starts_with(fmt::format("the ledger {} ", path));
}

std::unique_ptr<Ledger> blank_ledger() { return std::make_unique<BlankLedger>(); }

std::int64_t latest_end_s(const LedgerPool& pool, const LedgerEntry& entry, std::int64_t now_s) {
  if (pool.expires_s == 0) return now_s;
  return std::min(now_s, std::max(pool.expires_s, entry.asked_s) + kEnding_s);
}

namespace {

Result<std::unique_ptr<SqliteLedger>> open_file(const std::string& path, const std::string& name,
                                                int flags, Duration patience = kLedgerPatience) {
  if (!sqlite().ready) {
    return fail(
        ErrorKind::unsupported,
        fmt::format("the ledger {} is an SQLite file, but this machine has no libsqlite3.so.0",
                    path),
        "install it, for example with 'apt-get install libsqlite3-0'");
  }
  sqlite3* database = nullptr;
  const int code =
      sqlite().open_v2(name.c_str(), &database, flags | SQLITE_OPEN_FULLMUTEX, nullptr);
  auto ledger = std::make_unique<SqliteLedger>(database, path);
  if (code != SQLITE_OK) {
    return fail(ErrorKind::denied,
                fmt::format("the ledger {} cannot be opened: {}", path, sqlite().errmsg(database)),
                "check the permissions of that file, or set XDG_STATE_HOME to another directory");
  }
  sqlite().busy_timeout(database, static_cast<int>(patience / std::chrono::milliseconds(1)));
  return ledger;
}

// As SQLite's addresses have it.
std::string address_of(const std::string& path, std::string_view parameters) {
  std::string out = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      out += fmt::format("%{:02X}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return fmt::format("{}?{}", out, parameters);
}

}  // namespace

Result<std::unique_ptr<Ledger>> Ledger::open(const std::string& path, Duration patience) {
  const std::string parent = std::filesystem::path(path).parent_path();
  if (Status status = io::ensure_private_path(parent); !status) {
    return fail(status.error().kind,
                fmt::format("the ledger {} cannot be created: {}", path, status.error().message),
                "Skyward launches nothing without it: set XDG_STATE_HOME to a directory of yours "
                "that can be written to");
  }
  auto ledger = open_file(path, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, patience);
  if (!ledger) return fail(ledger);
  if (Status status = (*ledger)->prepare_schema(); !status) return fail(status);
  return *std::move(ledger);
}

Result<std::unique_ptr<Ledger>> Ledger::open_to_read(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return blank_ledger();
  constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
  auto ledger = open_file(path, address_of(path, "mode=ro"), kFlags);
  if (!ledger) return fail(ledger);
  Status learned = (*ledger)->learn_schema();
  if (!learned && (*ledger)->needs_files()) {
    // A writer that was killed leaves a journal, and the first reader undoes what it began. Where
    // SQLite cannot make the files that it reads with, nobody can write either; unless something
    // was written there that has not come into the file itself.
    const auto is_used = [&](const char* ending) {
      const std::string file = path + ending;
      return std::filesystem::exists(file, error) && !std::filesystem::is_empty(file, error);
    };
    if (is_used("-journal")) {
      ledger = open_file(path, path, SQLITE_OPEN_READWRITE);
    } else if (!is_used("-wal")) {
      ledger = open_file(path, address_of(path, "immutable=1"), kFlags);
    }
    if (!ledger) return fail(ledger);
    learned = (*ledger)->learn_schema();
  }
  if (!learned) return fail(learned);
  return *std::move(ledger);
}

}  // namespace skyward::provider
