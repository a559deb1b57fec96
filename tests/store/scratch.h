// What the store's tests stand on: a directory that goes away, settings for a cache in it, and a log that remembers.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "store/cache_root.h"
#include "store/cubin_format.h"

namespace msj::store {

// Memory where there is such a place, for tests that make thousands of files.
inline std::string memory_directory() {
  const bool usable = ::access("/dev/shm", W_OK | X_OK) == 0;
  return usable ? "/dev/shm" : std::filesystem::temp_directory_path().string();
}

class Scratch {
 public:
  explicit Scratch(const std::string &parent = std::filesystem::temp_directory_path().string()) {
    std::string pattern = parent + "/msj-store-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  [[nodiscard]] std::string operator/(const std::string &name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string &path() const { return path_; }

 private:
  std::string path_;
};

// Collects every message of a Log.
class Journal {
 public:
  Log log{"", &Journal::add, this};
  [[nodiscard]] int warnings() const { return static_cast<int>(messages_.size()); }
  [[nodiscard]] std::string last() const { return messages_.empty() ? "" : messages_.back(); }
  [[nodiscard]] bool says(const std::string &part) const { return last().find(part) != std::string::npos; }

 private:
  static void add(void *self, std::int32_t level, const char *message) {
    if (level <= MSJ_LOG_WARNING) static_cast<Journal *>(self)->messages_.emplace_back(message);
  }
  std::vector<std::string> messages_;
};

inline Settings settings_for(const std::string &writable, const std::vector<std::string> &read_only = {}) {
  Settings settings;
  settings.cache_dir = writable;
  settings.read_only_dirs = read_only;
  return settings;
}

// A cache and its journal: one "context".
struct Cache {
  explicit Cache(const std::string &writable, const std::vector<std::string> &read_only = {},
                 std::shared_ptr<Files> files = real_files())
      : root(settings_for(writable, read_only), std::move(files), journal.log) {}
  Journal journal;
  CacheRoot root;
};

inline void write_file(const std::string &path, const std::string &bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline mode_t mode_of(const std::string &path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

// Names below a directory that are temporaries of an interrupted write.
inline int leftovers(const std::string &directory) {
  int count = 0;
  std::error_code none;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(directory, none)) {
    if (entry.path().filename().string().starts_with(".tmp-")) ++count;
  }
  return count;
}

// A modification time this many seconds ago.
inline void age(const std::string &path, long seconds, long nanoseconds = 0) {
  const timespec then{::time(nullptr) - seconds, nanoseconds};
  const timespec times[2] = {then, then};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

inline long age_of(const std::string &path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return static_cast<long>(::time(nullptr) - status.st_mtim.tv_sec);
}

inline bool is_root() { return ::geteuid() == 0; }

inline CubinFile sample_cubin(char digit = 'a', std::size_t bytes = 40) {
  return {std::string(32, digit), R"({"op":"dense_forward","features":["q_mask"]})", R"({"nvrtc":"13.0"})",
          std::string(bytes, static_cast<char>(0x7f))};
}

}  // namespace msj::store
