// A disk for tests: an SQLite VFS over the system's that can refuse any operation, and that
// remembers what was written but not yet flushed, so that a test can see what a power loss may
// leave behind.
//
// What a power loss leaves of a file: all that was flushed before, and of each later write nothing,
// all, or some of its sectors of 512 bytes, in any combination (a disk orders nothing between two
// flushes). A truncation may or may not have happened. The shared-memory file is lost.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <new>
#include <random>
#include <string>
#include <vector>

namespace bole::ledger::test {

enum class DiskOp { kRead, kWrite, kTruncate, kSync, kDelete, kOpen };

class BrokenDisk {
 public:
  // Asked before every operation: SQLITE_OK lets it happen, anything else is what SQLite is told.
  using Judge = std::function<int(DiskOp, const std::string& path)>;

  explicit BrokenDisk(std::string name) : name_(std::move(name)) {
    real_ = sqlite3_vfs_find(nullptr);
    vfs_ = *real_;
    vfs_.pNext = nullptr;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
    vfs_.zName = name_.c_str();
    vfs_.pAppData = this;
    vfs_.xOpen = &BrokenDisk::open;
    vfs_.xDelete = &BrokenDisk::remove;
    sqlite3_vfs_register(&vfs_, 0);
  }
  BrokenDisk(const BrokenDisk&) = delete;
  BrokenDisk& operator=(const BrokenDisk&) = delete;
  ~BrokenDisk() { sqlite3_vfs_unregister(&vfs_); }

  [[nodiscard]] const std::string& name() const { return name_; }
  void judgeBy(Judge judge) { judge_ = std::move(judge); }
  void heal() { judge_ = nullptr; }

  // Begins to remember writes; the files as they are now count as flushed.
  void remember() { remembering_ = true; }

  // Writes into `directory` what a power loss now might leave of the files that were written to.
  void losePower(const std::string& directory, std::mt19937_64& random) const {
    for (const auto& [path, image] : images_) {
      if (!image.exists) continue;
      const auto name = std::filesystem::path(path).filename();
      std::ofstream(std::filesystem::path(directory) / name, std::ios::binary)
          << afterLoss(image, random);
    }
  }

 private:
  static constexpr std::size_t kSector = 512;
  struct Change {
    bool truncates;
    std::size_t offset;  // or the new size
    std::string bytes;
  };
  struct Image {
    bool exists = true;
    std::string flushed;
    std::vector<Change> pending;
  };
  struct File {
    sqlite3_file base;
    BrokenDisk* disk;
    std::string* path;
    [[nodiscard]] sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };

  static void apply(std::string& content, const Change& change) {
    if (change.truncates) {
      if (change.offset < content.size()) content.resize(change.offset);
      return;
    }
    const auto end = change.offset + change.bytes.size();
    if (end > content.size()) content.resize(end, '\0');
    content.replace(change.offset, change.bytes.size(), change.bytes);
  }

  static std::string afterLoss(const Image& image, std::mt19937_64& random) {
    auto content = image.flushed;
    const auto odds = random() % 5;  // of a change to be kept, in quarters
    for (const auto& change : image.pending) {
      if (random() % 4 >= odds) continue;
      if (change.truncates || random() % 4 != 0) {
        apply(content, change);
        continue;
      }
      for (std::size_t at = 0; at < change.bytes.size(); at += kSector) {
        if (random() % 2 == 0) continue;
        apply(content, {false, change.offset + at, change.bytes.substr(at, kSector)});
      }
    }
    return content;
  }

  int judge(DiskOp op, const std::string& path) { return judge_ ? judge_(op, path) : SQLITE_OK; }

  Image& imageOf(const std::string& path) {
    const auto found = images_.find(path);
    if (found != images_.end()) return found->second;
    std::ifstream file(path, std::ios::binary);
    Image image;
    image.flushed.assign(std::istreambuf_iterator<char>(file), {});
    return images_.emplace(path, std::move(image)).first->second;
  }

  void note(const std::string& path, Change change) {
    if (!remembering_) return;
    auto& image = imageOf(path);
    image.exists = true;
    image.pending.push_back(std::move(change));
  }

  void noteSync(const std::string& path) {
    if (!remembering_) return;
    auto& image = imageOf(path);
    for (const auto& change : image.pending) apply(image.flushed, change);
    image.pending.clear();
  }

  static File* of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
    auto* disk = static_cast<BrokenDisk*>(vfs->pAppData);
    file->pMethods = nullptr;
    const std::string name = path != nullptr ? path : "";
    const int refused = disk->judge(DiskOp::kOpen, name);
    if (refused != SQLITE_OK) return refused;
    auto* mine = of(file);
    mine->real()->pMethods = nullptr;
    const int code = disk->real_->xOpen(disk->real_, path, mine->real(), flags, out);
    if (code != SQLITE_OK) return code;
    mine->disk = disk;
    mine->path = new std::string(name);
    mine->base.pMethods = methods();
    if (disk->remembering_) disk->imageOf(name).exists = true;
    return SQLITE_OK;
  }

  static int remove(sqlite3_vfs* vfs, const char* path, int sync) {
    auto* disk = static_cast<BrokenDisk*>(vfs->pAppData);
    const int refused = disk->judge(DiskOp::kDelete, path);
    if (refused != SQLITE_OK) return refused;
    if (disk->remembering_) {
      auto& image = disk->imageOf(path);
      // A deletion that is flushed is for good; another may have happened or not.
      if (sync != 0)
        image = Image{false, "", {}};
      else
        image.pending.push_back({true, 0, ""});
    }
    return disk->real_->xDelete(disk->real_, path, sync);
  }

  static int close(sqlite3_file* file) {
    auto* mine = of(file);
    const int code = mine->real()->pMethods->xClose(mine->real());
    delete mine->path;
    return code;
  }

  static int read(sqlite3_file* file, void* bytes, int size, sqlite3_int64 offset) {
    auto* mine = of(file);
    const int refused = mine->disk->judge(DiskOp::kRead, *mine->path);
    if (refused != SQLITE_OK) return refused;
    return mine->real()->pMethods->xRead(mine->real(), bytes, size, offset);
  }

  static int write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
    auto* mine = of(file);
    const int refused = mine->disk->judge(DiskOp::kWrite, *mine->path);
    if (refused != SQLITE_OK) return refused;
    mine->disk->note(*mine->path, {false, static_cast<std::size_t>(offset),
                                   std::string(static_cast<const char*>(bytes),
                                               static_cast<std::size_t>(size))});
    return mine->real()->pMethods->xWrite(mine->real(), bytes, size, offset);
  }

  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    auto* mine = of(file);
    const int refused = mine->disk->judge(DiskOp::kTruncate, *mine->path);
    if (refused != SQLITE_OK) return refused;
    mine->disk->note(*mine->path, {true, static_cast<std::size_t>(size), ""});
    return mine->real()->pMethods->xTruncate(mine->real(), size);
  }

  static int sync(sqlite3_file* file, int flags) {
    auto* mine = of(file);
    const int refused = mine->disk->judge(DiskOp::kSync, *mine->path);
    if (refused != SQLITE_OK) {
      // As Linux does it: what could not be flushed is still read back, but no later flush will
      // write it.
      if (mine->disk->remembering_) mine->disk->imageOf(*mine->path).pending.clear();
      return refused;
    }
    mine->disk->noteSync(*mine->path);
    return mine->real()->pMethods->xSync(mine->real(), flags);
  }

  static int fileSize(sqlite3_file* f, sqlite3_int64* size) {
    return of(f)->real()->pMethods->xFileSize(of(f)->real(), size);
  }
  static int lock(sqlite3_file* f, int level) {
    return of(f)->real()->pMethods->xLock(of(f)->real(), level);
  }
  static int unlock(sqlite3_file* f, int level) {
    return of(f)->real()->pMethods->xUnlock(of(f)->real(), level);
  }
  static int checkLock(sqlite3_file* f, int* out) {
    return of(f)->real()->pMethods->xCheckReservedLock(of(f)->real(), out);
  }
  static int control(sqlite3_file* f, int op, void* argument) {
    return of(f)->real()->pMethods->xFileControl(of(f)->real(), op, argument);
  }
  static int sectorSize(sqlite3_file* f) {
    return of(f)->real()->pMethods->xSectorSize(of(f)->real());
  }
  static int traits(sqlite3_file* f) {
    return of(f)->real()->pMethods->xDeviceCharacteristics(of(f)->real());
  }
  static int shmMap(sqlite3_file* f, int page, int size, int extend, void volatile** out) {
    return of(f)->real()->pMethods->xShmMap(of(f)->real(), page, size, extend, out);
  }
  static int shmLock(sqlite3_file* f, int offset, int n, int flags) {
    return of(f)->real()->pMethods->xShmLock(of(f)->real(), offset, n, flags);
  }
  static void shmBarrier(sqlite3_file* f) { of(f)->real()->pMethods->xShmBarrier(of(f)->real()); }
  static int shmUnmap(sqlite3_file* f, int remove) {
    return of(f)->real()->pMethods->xShmUnmap(of(f)->real(), remove);
  }

  // Version 2: without memory-mapped reads, which would go past the judge.
  static const sqlite3_io_methods* methods() {
    static const sqlite3_io_methods table = {2,          close,      read,    write,  truncate,
                                             sync,       fileSize,   lock,    unlock, checkLock,
                                             control,    sectorSize, traits,  shmMap, shmLock,
                                             shmBarrier, shmUnmap,   nullptr, nullptr};
    return &table;
  }

  std::string name_;
  sqlite3_vfs* real_;
  sqlite3_vfs vfs_{};
  Judge judge_;
  bool remembering_ = false;
  std::map<std::string, Image> images_;
};

}  // namespace bole::ledger::test
