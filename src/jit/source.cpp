#include "jit/source.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "base/error.h"

namespace msj::jit {

namespace {

// The name in `#include "name"`, or "" if the line is no such line.
std::string_view included_name(std::string_view line) {
  constexpr std::string_view kDirective = "#include \"";
  const std::size_t start = line.find_first_not_of(" \t");
  if (start == std::string_view::npos || line.substr(start).substr(0, kDirective.size()) != kDirective) return {};
  const std::string_view rest = line.substr(start + kDirective.size());
  return rest.substr(0, rest.find('"'));
}

bool is_pragma_once(std::string_view line) { return line.substr(0, 12) == "#pragma once"; }

}  // namespace

std::string KernelSources::text(const std::string &name) const {
  if (kernel_dir_.empty()) {
    const auto it = embedded_kernels().find(name);
    if (it == embedded_kernels().end()) {
      throw_error(MSJ_ERROR_INTERNAL, "kernel source '{}' is not embedded in the library", name);
    }
    return std::string(it->second);
  }
  const std::string path = kernel_dir_ + "/" + name;
  // A pipe in its place would be waited on for ever.
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    throw_error(MSJ_ERROR_IO,
                "kernel source '{}' is no regular file; MAXSIM_JIT_KERNEL_DIR must name a folder like "
                "kernels/",
                path);
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  if (!file) {
    throw_error(MSJ_ERROR_IO,
                "kernel source '{}' could not be read; MAXSIM_JIT_KERNEL_DIR must name a folder like kernels/", path);
  }
  return content.str();
}

const std::string &KernelSources::expanded(const std::string &name) {
  const std::scoped_lock lock(mutex_);
  const auto known = expanded_.find(name);
  if (known != expanded_.end()) return known->second;

  std::string out;
  std::set<std::string, std::less<>> seen;
  const auto expand = [&](const auto &self, const std::string &file) -> void {
    std::istringstream lines(text(file));
    for (std::string line; std::getline(lines, line);) {
      const std::string_view included = included_name(line);
      if (!included.empty()) {
        if (seen.emplace(included).second) self(self, std::string(included));
      } else if (!is_pragma_once(line)) {
        out += line;
        out += '\n';
      }
    }
  };
  expand(expand, name);
  return expanded_.emplace(name, std::move(out)).first->second;
}

}  // namespace msj::jit
