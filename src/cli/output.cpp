#include "cli/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "cli/failure.h"
#include "cli/words.h"

namespace msj::cli {
namespace {

// Cells may hold UTF-8: continuation bytes take no column.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// JSON escapes the control characters below U+0020 alone; terminals obey U+007F to U+009F as well.
std::string escaped_controls(std::string_view json) {
  std::string result;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = static_cast<unsigned char>(i + 1 < json.size() ? json[i + 1] : 0);
    if (byte == 0x7F) {
      result += "\\u007f";
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      result += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      result += json[i];
    }
  }
  return result;
}

}  // namespace

Json parse_library_json(std::string_view text) try { return Json::parse(text); } catch (const Json::exception &error) {
  failure("the library's JSON cannot be read: {}", error.what());
}

void print_text(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    failure("stdout cannot be written: {}", std::generic_category().message(errno));
  }
}

void print_json(const Json &document) {
  // Text that is not UTF-8 (a path, say) must not make the output fail.
  print_text(escaped_controls(document.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n");
}

Json to_json(const msj_counters &counters) {
  return {{"nvrtc_invocations", counters.nvrtc_invocations},
          {"nvrtc_seconds", counters.nvrtc_seconds},
          {"cubin_hits_memory", counters.cubin_hits_memory},
          {"cubin_hits_disk", counters.cubin_hits_disk},
          {"module_loads", counters.module_loads},
          {"sweeps", counters.sweeps},
          {"candidates_timed", counters.candidates_timed},
          {"autotune_hits", counters.autotune_hits},
          {"launches", counters.launches}};
}

Json to_json(const OpInfo &op, const SizeMap &sizes) {
  Json result = Json::object();
  for (const SizeInfo &size : op.sizes) {
    if (const auto found = sizes.find(size.name); found != sizes.end()) result[size.name] = found->second;
  }
  return result;
}

Json to_json(float value) {
  const std::string text = std::isnan(value) ? "nan" : fmt::format("{}", value);
  if (!std::isfinite(value)) return text;
  return std::strtod(text.c_str(), nullptr);
}

std::string table(std::vector<std::vector<std::string>> rows) {
  for (auto &row : rows) std::ranges::transform(row, row.begin(), printable);
  std::vector<std::size_t> widths;
  for (const auto &row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string result;
  for (const auto &row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      result += row[i];
      if (i + 1 < row.size()) result.append(widths[i] - width(row[i]) + 2, ' ');
    }
    result += '\n';
  }
  return result;
}

}  // namespace msj::cli
