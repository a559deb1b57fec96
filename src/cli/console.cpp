#include "cli/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/words.h"
#include "maxsim_jit/maxsim_jit.h"

namespace msj::cli {
namespace {

constexpr std::int64_t kBarCells = 30;
// Lines of progress, where there is no terminal, are at least this far apart (but for the last of each kind).
constexpr std::chrono::seconds kLineInterval{2};

std::string_view level_name(std::int32_t level) {
  switch (level) {
    case MSJ_LOG_ERROR:
      return "error: ";
    case MSJ_LOG_WARNING:
      return "warning: ";
    default:
      return "";
  }
}

}  // namespace

std::string bar_text(std::string_view what, std::int64_t done, std::int64_t total) {
  const std::int64_t whole = std::max<std::int64_t>(total, 1);
  const std::int64_t part = std::clamp<std::int64_t>(done, 0, whole);
  // By division first, so that no total overflows.
  const auto share = static_cast<double>(part) / static_cast<double>(whole);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBarCells));
  return fmt::format("{:<8} [{:<{}}] {}/{} {:>3} %", what, std::string(filled, '#'), kBarCells, done, total,
                     static_cast<int>(share * 100));
}

Console::Console(std::FILE *stream) : Console(stream, ::isatty(::fileno(stream)) == 1) {}

void Console::note(std::string_view sentence) {
  const std::scoped_lock lock(mutex_);
  write_line(sentence);
}

void Console::log(std::int32_t level, std::string_view message) {
  if (level >= MSJ_LOG_INFO && !verbose_) return;
  const std::scoped_lock lock(mutex_);
  write_line(fmt::format("{}{}", level_name(level), message));
}

void Console::progress(std::string_view what, std::int64_t done, std::int64_t total) {
  const std::scoped_lock lock(mutex_);
  if (has_bar_) {
    std::string text = bar_text(what, done, total);
    if (text == bar_) return;
    erase_bar();
    write(text);
    std::fflush(stream_);
    bar_ = std::move(text);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (done < total && now - last_line_ < kLineInterval) return;
  last_line_ = now;
  write_line(fmt::format("{} {} of {}", what, done, total));
}

void Console::clear_bar() {
  const std::scoped_lock lock(mutex_);
  erase_bar();
  std::fflush(stream_);
}

// The bar is drawn again by the next step of progress.
void Console::write_line(std::string_view line) {
  erase_bar();
  write(fmt::format("maxsim-jit: {}\n", printable(line)));
}

// Where stderr can't be written there is nobody to tell, and the work goes on.
void Console::write(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stream_); }

void Console::erase_bar() {
  if (bar_.empty()) return;
  write("\r\x1b[K");
  bar_.clear();
}

}  // namespace msj::cli
