// What a test leaves behind nowhere: a private directory, and environment variables that are put back.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace msj::testing {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "msj-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no scratch directory at " + pattern);
    path_ = pattern;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory &) = delete;
  ScratchDirectory &operator=(const ScratchDirectory &) = delete;

  [[nodiscard]] const std::string &path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string &name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Not while other threads read the environment.
class ScopedEnvironment {
 public:
  ScopedEnvironment(std::string variable, const std::string &value) : variable_(std::move(variable)) {
    if (const char *before = std::getenv(variable_.c_str())) before_ = before;
    setenv(variable_.c_str(), value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    if (before_) {
      setenv(variable_.c_str(), before_->c_str(), 1);
    } else {
      unsetenv(variable_.c_str());
    }
  }
  ScopedEnvironment(const ScopedEnvironment &) = delete;
  ScopedEnvironment &operator=(const ScopedEnvironment &) = delete;

 private:
  std::string variable_;
  std::optional<std::string> before_;
};

[[nodiscard]] inline std::string read_text(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const std::filesystem::path &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

// Regular files below `directory` whose names end in `ending`, sorted; none where there is no such directory.
[[nodiscard]] inline std::vector<std::filesystem::path> files_below(const std::string &directory,
                                                                    const std::string &ending) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::exists(directory)) return found;
  for (const auto &item : std::filesystem::recursive_directory_iterator(directory)) {
    if (item.is_regular_file() && item.path().string().ends_with(ending)) found.push_back(item.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Those of a cache: its autotune entries, and its cubins.
[[nodiscard]] inline std::vector<std::filesystem::path> entry_files(const std::string &cache) {
  std::vector<std::filesystem::path> found;
  for (const auto &path : files_below(cache, ".json")) {
    if (path.string().find("/autotune/") != std::string::npos) found.push_back(path);
  }
  return found;
}
[[nodiscard]] inline std::vector<std::filesystem::path> cubin_files(const std::string &cache) {
  return files_below(cache, ".cubin");
}

}  // namespace msj::testing
