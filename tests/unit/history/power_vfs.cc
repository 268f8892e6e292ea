#include "tests/unit/history/power_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

namespace scalewatch::history {

namespace {

constexpr std::size_t kSector = 512;

struct Change {
  std::size_t at = 0;
  std::string bytes;
  std::optional<std::size_t> new_size;  // a truncation, when set
};

struct Account {
  std::string synced;
  std::vector<Change> pending;
};

void put(std::string& content, std::size_t at, std::string_view bytes) {
  if (content.size() < at + bytes.size()) content.resize(at + bytes.size());
  std::copy(bytes.begin(), bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(at));
}

void settle(Account& account) {
  for (const auto& change : account.pending) {
    if (change.new_size) {
      account.synced.resize(*change.new_size);
    } else {
      put(account.synced, change.at, change.bytes);
    }
  }
  account.pending.clear();
}

// Sectors of a write, by chance.
void put_some(std::string& content, const Change& change, std::mt19937& random) {
  const std::string_view bytes = change.bytes;
  for (std::size_t from = 0; from < bytes.size();) {
    std::size_t size = std::min(bytes.size() - from, kSector - (change.at + from) % kSector);
    const auto fate = random() % 16;
    if (fate >= 8 || (fate == 7 && size > 1)) {
      const std::size_t arrived = fate == 7 ? 1 + random() % (size - 1) : size;
      put(content, change.at + from, bytes.substr(from, arrived));
    }
    from += size;
  }
}

}  // namespace

struct PowerVfs::Impl {
  static Impl* self;

  sqlite3_vfs vfs{};
  sqlite3_vfs* real = nullptr;
  sqlite3_io_methods methods{};
  std::recursive_mutex mutex;
  std::map<std::string, Account> accounts;
  std::function<void(std::uint64_t)> call;
  std::uint64_t moments = 0;

  struct File {
    sqlite3_file base;
    char name[64];  // empty: not accounted for
    [[nodiscard]] sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };
  static File& file(sqlite3_file* f) { return *reinterpret_cast<File*>(f); }
  static sqlite3_file* real_of(sqlite3_file* f) { return file(f).real(); }

  void moment() {
    const auto number = moments++;
    if (call) call(number);
  }

  static int open(sqlite3_vfs* /*vfs*/, const char* path, sqlite3_file* f, int flags, int* out_flags) {
    File& opened = file(f);
    std::memset(&opened, 0, sizeof opened);
    const int code = self->real->xOpen(self->real, path, opened.real(), flags, out_flags);
    if (code != SQLITE_OK) return code;
    opened.base.pMethods = &self->methods;
    if (path != nullptr && (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) != 0) {
      const std::string name = std::filesystem::path(path).filename().string();
      std::strncpy(opened.name, name.c_str(), sizeof opened.name - 1);
      std::lock_guard lock(self->mutex);
      self->accounts.try_emplace(name);
    }
    return SQLITE_OK;
  }
  static int remove(sqlite3_vfs* /*vfs*/, const char* path, int sync) {
    {
      std::lock_guard lock(self->mutex);
      self->accounts.erase(std::filesystem::path(path).filename().string());
    }
    return self->real->xDelete(self->real, path, sync);
  }
  static int write(sqlite3_file* f, const void* bytes, int size, sqlite3_int64 at) {
    if (file(f).name[0] != 0) {
      std::lock_guard lock(self->mutex);
      self->moment();
      self->accounts[file(f).name].pending.push_back(
          {static_cast<std::size_t>(at), std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size)),
           std::nullopt});
    }
    return real_of(f)->pMethods->xWrite(real_of(f), bytes, size, at);
  }
  static int truncate(sqlite3_file* f, sqlite3_int64 size) {
    if (file(f).name[0] != 0) {
      std::lock_guard lock(self->mutex);
      self->moment();
      self->accounts[file(f).name].pending.push_back({0, {}, static_cast<std::size_t>(size)});
    }
    return real_of(f)->pMethods->xTruncate(real_of(f), size);
  }
  static int sync(sqlite3_file* f, int /*flags*/) {
    if (file(f).name[0] != 0) {
      std::lock_guard lock(self->mutex);
      self->moment();
      settle(self->accounts[file(f).name]);
    }
    return SQLITE_OK;  // nobody pulls the plug of the test
  }

  Impl() {
    self = this;
    real = sqlite3_vfs_find(nullptr);
    vfs = *real;
    vfs.zName = "power";
    vfs.szOsFile = static_cast<int>(sizeof(File)) + real->szOsFile;
    vfs.xOpen = open;
    vfs.xDelete = remove;
    methods.iVersion = 2;  // no memory maps: they would pass by
    methods.xClose = [](sqlite3_file* f) { return real_of(f)->pMethods->xClose(real_of(f)); };
    methods.xRead = [](sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
      return real_of(f)->pMethods->xRead(real_of(f), to, size, at);
    };
    methods.xWrite = write;
    methods.xTruncate = truncate;
    methods.xSync = sync;
    methods.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) { return real_of(f)->pMethods->xFileSize(real_of(f), size); };
    methods.xLock = [](sqlite3_file* f, int level) { return real_of(f)->pMethods->xLock(real_of(f), level); };
    methods.xUnlock = [](sqlite3_file* f, int level) { return real_of(f)->pMethods->xUnlock(real_of(f), level); };
    methods.xCheckReservedLock = [](sqlite3_file* f, int* out) {
      return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
    };
    methods.xFileControl = [](sqlite3_file* f, int op, void* argument) {
      return real_of(f)->pMethods->xFileControl(real_of(f), op, argument);
    };
    methods.xSectorSize = [](sqlite3_file* /*f*/) { return static_cast<int>(kSector); };
    methods.xDeviceCharacteristics = [](sqlite3_file* /*f*/) { return 0; };
    methods.xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** out) {
      return real_of(f)->pMethods->xShmMap(real_of(f), page, size, extend, out);
    };
    methods.xShmLock = [](sqlite3_file* f, int offset, int n, int flags) {
      return real_of(f)->pMethods->xShmLock(real_of(f), offset, n, flags);
    };
    methods.xShmBarrier = [](sqlite3_file* f) { real_of(f)->pMethods->xShmBarrier(real_of(f)); };
    methods.xShmUnmap = [](sqlite3_file* f, int remove_it) { return real_of(f)->pMethods->xShmUnmap(real_of(f), remove_it); };
    sqlite3_vfs_register(&vfs, 1);
  }
  ~Impl() {
    sqlite3_vfs_unregister(&vfs);
    sqlite3_vfs_register(real, 1);
    self = nullptr;
  }
};

PowerVfs::Impl* PowerVfs::Impl::self = nullptr;

PowerVfs::PowerVfs() : impl_(std::make_unique<Impl>()) {}
PowerVfs::~PowerVfs() = default;

void PowerVfs::on_moment(std::function<void(std::uint64_t)> call) {
  std::lock_guard lock(impl_->mutex);
  impl_->call = std::move(call);
}

PowerVfs::Files PowerVfs::power_cut(std::mt19937& random) {
  std::lock_guard lock(impl_->mutex);
  Files files;
  for (const auto& [name, account] : impl_->accounts) {
    std::string content = account.synced;
    std::vector<const Change*> order;
    for (const auto& change : account.pending) order.push_back(&change);
    // Lengths keep their order among the writes: file systems journal them.
    const bool truncated = std::any_of(order.begin(), order.end(), [](const Change* change) { return change->new_size; });
    if (!truncated) std::shuffle(order.begin(), order.end(), random);
    for (const Change* change : order) {
      if (change->new_size) {
        if (random() % 2 != 0) content.resize(*change->new_size);
      } else {
        put_some(content, *change, random);
      }
    }
    files[name] = std::move(content);
  }
  return files;
}

}  // namespace scalewatch::history
