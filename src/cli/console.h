// What the command says on stderr: notes, the library's log, and progress, as a bar on a terminal and as lines
// elsewhere. The bar is always the last line; everything else is written above it.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace msj::cli {

// "compile  [#####     ]  12/24  50 %"
[[nodiscard]] std::string bar_text(std::string_view what, std::int64_t done, std::int64_t total);

class Console {
 public:
  // A bar where `stream` is a terminal. The stream must outlive the console.
  explicit Console(std::FILE *stream);
  Console(std::FILE *stream, bool bar) : stream_(stream), has_bar_(bar) {}
  ~Console() { clear_bar(); }
  Console(const Console &) = delete;
  Console &operator=(const Console &) = delete;

  void set_verbose(bool verbose) { verbose_ = verbose; }  // before other threads use the console

  // All of these may be called from any thread.
  void note(std::string_view sentence);
  void log(std::int32_t level, std::string_view message);  // MSJ_LOG_*; info and debug only when verbose
  void progress(std::string_view what, std::int64_t done, std::int64_t total);
  void clear_bar();

 private:
  void write_line(std::string_view line);
  void write(std::string_view text);
  void erase_bar();

  std::FILE *stream_;
  bool has_bar_;
  bool verbose_ = false;
  std::mutex mutex_;  // guards what follows and the stream
  std::string bar_;   // as drawn; "" where none is
  std::chrono::steady_clock::time_point last_line_{};
};

}  // namespace msj::cli
