// The history file (FORMAT.md specifies it byte by byte): what it looks like on disk, and how a file is made or checked when it
// is opened.
//
// `history.db` is a SQLite 3 database (application_id 0x53435731, "SCW1") that people may open and read at any time; its
// version is SQLite's user_version. Blobs are serialized scalewatch.v1 messages unless said otherwise. Unsigned 64-bit values
// are stored as SQLite's signed ones, bit for bit. Numbers that may be NaN (loss, lr, grad_norm, scales) hold the text 'NaN'
// then, for SQLite takes a NaN for NULL; NULL means absent, Inf is stored as such.
#pragma once

#include "server/history/sqlite.h"

namespace scalewatch::history {

inline constexpr std::int64_t kApplicationId = 0x53435731;
inline constexpr std::int64_t kSchemaVersion = 3;
// 2 and 3 differ in one thing: in a file of version 3 every message has a seal (see seal.h). One of version 2 stays what it is,
// for its older messages have none.
inline constexpr std::int64_t kOldestUsed = 2;
inline constexpr std::int64_t kSealedVersion = 3;

// Makes the schema in an empty file, checks it in another, and brings an older one up to date; a copy of the older file is
// left beside it as history.db.vN. Throws StoreError for a file of something else and for one that a newer binary wrote.
void prepare_schema(Connection& connection, const std::string& path);

}  // namespace scalewatch::history
