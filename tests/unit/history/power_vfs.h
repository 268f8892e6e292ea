// SQLite's file system with a second account of every file: what a disk would hold if the power went at this moment.
//
// What was written before a file's last sync is there. Of each write since, every 512-byte sector may have arrived or not, in
// any order, and one may be torn in the middle; a new length may have arrived or not. Names are taken at once: the sync of a
// folder is not modelled. Files really lie where they are named, so that locks and shared memory are SQLite's own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>

namespace scalewatch::history {

class PowerVfs {
 public:
  using Files = std::map<std::string, std::string>;  // file name without folder: content

  // Is the default for what is opened while it lives. One at a time; all connections must be closed before it ends.
  PowerVfs();
  ~PowerVfs();
  PowerVfs(const PowerVfs&) = delete;
  PowerVfs& operator=(const PowerVfs&) = delete;

  // Called before each write, truncation and sync of any thread, with the number of those before it.
  void on_moment(std::function<void(std::uint64_t)> call);
  // One outcome of a power cut now; callable from on_moment's call. What runs goes on as before.
  Files power_cut(std::mt19937& random);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::history
