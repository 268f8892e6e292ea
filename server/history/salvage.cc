#include "server/history/salvage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "server/engine/ports/history_store.h"
#include "server/history/schema.h"
#include "server/history/sqlite.h"

namespace scalewatch::history {

namespace {

constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
constexpr int kMaxHoles = 20'000;  // places of a table at which reading fails; beyond them its rest is given up

// Tables made of others, which are made anew from them.
constexpr std::string_view kDerived = "scaler_sums";

std::vector<std::string> texts(Connection& connection, const std::string& sql) {
  std::vector<std::string> out;
  try {
    Query query(connection, sql);
    while (query.step()) out.push_back(query.bytes(0));
  } catch (const engine::StoreError&) {
    // What was read so far counts.
  }
  return out;
}

// One table, copied row by row around what cannot be read.
class TableCopy {
 public:
  TableCopy(Connection& from, Connection& to, std::string table) : from_(from), to_(to), table_(std::move(table)) {
    const std::string names = fmt::format("SELECT name FROM pragma_table_info('{}')", table_);
    const auto old = texts(from_, names);
    for (auto& name : texts(to_, names)) {
      if (std::find(old.begin(), old.end(), name) != old.end()) columns_.push_back(std::move(name));
    }
    has_rowid_ =
        to_.scalar(fmt::format("SELECT count(*) FROM sqlite_schema WHERE name = '{}' AND sql LIKE '%WITHOUT ROWID%'", table_)
                       .c_str()) == 0;
  }

  // Rows that were copied; `holes` counts places that cannot be read.
  std::uint64_t run(int& holes) {
    if (columns_.empty()) {
      ++holes;
      return 0;
    }
    to_.execute("BEGIN");
    if (has_rowid_) {
      copy_around();
    } else if (std::optional<std::int64_t> none; !copy(fmt::format("SELECT {} FROM {}", list(), table_), none)) {
      // From the other end as far as that goes; what both reach is there once.
      ++holes_;
      copy(fmt::format("SELECT {} FROM {} ORDER BY 1 DESC, 2 DESC, 3 DESC, 4 DESC, 5 DESC", list(), table_), none);
    }
    to_.execute("COMMIT");
    holes += holes_;
    return rows_;
  }

 private:
  [[nodiscard]] std::string list() const { return fmt::format("{}", fmt::join(columns_, ", ")); }

  // All rows, around ranges of which nothing can be read. By turns the next range behind what was read is tried, for numbers
  // that lie close, and the widest one, for those that lie far apart: of a file that was cut nearly all there can be are beyond
  // it.
  void copy_around() {
    const std::string select =
        fmt::format("SELECT {}, rowid FROM {} WHERE rowid BETWEEN ? AND ? ORDER BY rowid", list(), table_);
    const std::string backwards = select + " DESC";
    std::map<std::int64_t, std::int64_t> todo;                // first number to last one
    std::set<std::pair<std::uint64_t, std::int64_t>> widths;  // of these, with their first numbers
    const auto add = [&](std::int64_t from, std::int64_t to) {
      todo.emplace(from, to);
      widths.emplace(static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from), from);
    };
    add(kFirst, kLast);
    while (!todo.empty() && holes_ < kMaxHoles) {
      const auto next = holes_ % 2 == 0 ? todo.begin() : todo.find(widths.rbegin()->second);
      std::int64_t from = next->first;
      std::int64_t to = next->second;
      todo.erase(next);
      widths.erase({static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from), from});
      std::optional<std::int64_t> last;
      if (copy(select, last, from, to)) continue;
      ++holes_;
      if (last && *last >= to) continue;
      if (last) from = *last + 1;
      std::optional<std::int64_t> first;
      if (copy(backwards, first, from, to) || (first && *first <= from)) continue;
      if (first) to = *first - 1;
      // Between the two something can't be read: perhaps not all of it.
      if (from >= to) continue;
      const std::int64_t middle = std::midpoint(from, to);
      add(from, middle);
      add(middle + 1, to);
    }
  }

  // Copies what the query gives; false when it breaks off. `reached`: rowid, the last column, of the last row that came.
  template <class... Values>
  bool copy(const std::string& sql, std::optional<std::int64_t>& reached, const Values&... values) try {
    Query rows(from_, sql, values...);
    while (rows.step()) {
      std::string marks = "?";
      for (std::size_t i = 1; i < columns_.size() + (has_rowid_ ? 1 : 0); ++i) marks += ", ?";
      Query insert(
          to_, fmt::format("INSERT OR IGNORE INTO {} ({}{}) VALUES ({})", table_, list(), has_rowid_ ? ", rowid" : "", marks));
      for (std::size_t i = 0; i < columns_.size() + (has_rowid_ ? 1 : 0); ++i) insert.bind_from(rows, static_cast<int>(i));
      insert.run();
      rows_ += static_cast<std::uint64_t>(to_.changes());
      if (has_rowid_) reached = rows.i64(static_cast<int>(columns_.size()));
    }
    return true;
  } catch (const engine::StoreError& error) {
    if (error.retryable && !is_read_error(error)) throw;
    return false;
  }
  // A page that the disk does not give is as good as damaged.
  [[nodiscard]] static bool is_read_error(const engine::StoreError& error) {
    return std::string_view(error.what()).find("disk I/O error") != std::string_view::npos;
  }

  Connection& from_;
  Connection& to_;
  const std::string table_;
  std::vector<std::string> columns_;
  bool has_rowid_ = true;
  int holes_ = 0;
  std::uint64_t rows_ = 0;
};

// The damaged file stays where it is, under its other name too, until the new one takes its place: a repair that is killed here
// leaves a history to start from.
void put_in_place(const std::filesystem::path& database, const std::string& made, std::string& kept) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  kept = fmt::format("{}.damaged-{}", database.string(), seconds);
  std::error_code none;
  std::filesystem::create_hard_link(database, kept, none);
  if (none) std::filesystem::rename(database, kept);  // a file system without links
  std::filesystem::rename(database.string() + "-wal", kept + "-wal", none);
  std::filesystem::remove(database.string() + "-shm", none);
  std::filesystem::rename(made, database);
}

}  // namespace

bool needs_salvage(const std::filesystem::path& database) try {
  Connection connection(database.string(), SQLITE_OPEN_READONLY);
  Query check(connection, "PRAGMA quick_check(1)");
  return !check.step() || check.bytes(0) != "ok";
} catch (const engine::StoreError&) {
  return true;
}

void salvage(const std::filesystem::path& database, std::vector<Fault>& faults) {
  const std::string made = database.string() + ".salvage";
  std::error_code none;
  for (const char* tail : {"", "-wal", "-shm"}) std::filesystem::remove(made + tail, none);
  std::string lost;
  {
    Connection to(made, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    prepare_schema(to, made);
    to.execute("PRAGMA synchronous = OFF");
    std::unique_ptr<Connection> from;
    try {
      from = std::make_unique<Connection>(database.string(), SQLITE_OPEN_READONLY);
      // The second: a file that is shorter than its header says is read as far as it goes (lockBtree() in SQLite's btree.c).
      from->execute("PRAGMA cell_size_check = ON; PRAGMA writable_schema = ON");
      if (from->scalar("PRAGMA user_version") == kOldestUsed) to.execute("PRAGMA user_version = 2");
    } catch (const engine::StoreError&) {
      from.reset();
    }
    std::uint64_t rows = 0;
    for (const auto& table : texts(to, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")) {
      if (table == kDerived) continue;
      int holes = from ? 0 : 1;
      if (from) rows += TableCopy(*from, to, table).run(holes);
      if (holes == 0) continue;
      const std::string count = holes >= kMaxHoles ? "many" : std::to_string(holes);
      lost += fmt::format("{}{} ({} {})", lost.empty() ? "" : ", ", table, count, holes == 1 ? "hole" : "holes");
    }
    if (!lost.empty()) {
      faults.push_back({fmt::format("the database: rows that can't be read, in {}; {} rows were copied", lost, rows), {}});
    }
    to.execute("PRAGMA synchronous = FULL; PRAGMA wal_checkpoint(TRUNCATE)");
  }
  const int file = ::open(made.c_str(), O_RDONLY | O_CLOEXEC);
  const bool flushed = file >= 0 && ::fsync(file) == 0;
  if (file >= 0) ::close(file);
  if (!flushed) throw engine::StoreError(made + ": cannot flush", true);
  std::string kept;
  put_in_place(database, made, kept);
  faults.push_back({"the database: damaged", "made anew from the rows that can be read; the damaged file is " + kept});
}

}  // namespace scalewatch::history
