#include "cli/manifest_text.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <system_error>
#include <vector>

#include "cli/failure.h"
#include "cli/words.h"

namespace msj::cli {
namespace {

using nlohmann::json;

// Deep enough for every manifest, and far from what would exhaust the stack of a recursive walk.
constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxMebibytes = 16;

// Called at each step of the parser: what JSON allows and a manifest must not have.
class Rules {
 public:
  explicit Rules(std::string_view file) : file_(file) {}

  void see(int depth, json::parse_event_t event, const json &value) {
    if (depth > kMaxDepth) failure("{}: the manifest is nested deeper than {} levels", file_, kMaxDepth);
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event != json::parse_event_t::key) return;
    const auto &key = value.get_ref<const std::string &>();
    if (!keys_.back().insert(key).second) {
      failure("{}: the manifest has '{}' twice in one object; once is accepted", file_, shortened(key));
    }
  }

 private:
  std::string_view file_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

// Without the "[json.exception.…] " that the library's sentences start with, and without most of what it last read:
// that may be the whole text.
std::string sentence_of(const json::exception &error) {
  constexpr std::string_view kLastRead = "last read: ";
  std::string_view text = error.what();
  text.remove_prefix(std::min(text.find("] "), text.size() - 2) + 2);
  const std::size_t read = text.find(kLastRead);
  if (read == std::string_view::npos) return std::string(text);
  const std::string_view head = text.substr(0, read + kLastRead.size());
  const std::size_t end = std::min(std::max(text.rfind("; expected "), head.size()), text.size());
  return fmt::format("{}{}{}", head, shortened(text.substr(head.size(), end - head.size())),
                     shortened(text.substr(end)));
}

// Whatever never ends, or was never a text, is refused before it is opened.
void require_text_file(const std::filesystem::path &file) {
  using std::filesystem::file_type;
  std::error_code error;
  const file_type type = std::filesystem::status(file, error).type();
  if (type == file_type::not_found || type == file_type::none) {
    failure("{}: the manifest cannot be opened: {}", file.native(), error.message());
  }
  if (type == file_type::directory) {
    failure("{}: the manifest is a directory; a JSON file is accepted", file.native());
  }
  if (type != file_type::regular && type != file_type::fifo) {
    failure("{}: the manifest is a device or socket; a JSON file is accepted", file.native());
  }
}

}  // namespace

std::string read_manifest_text(const std::filesystem::path &file) {
  require_text_file(file);
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) failure("{}: the manifest cannot be opened: {}", file.native(), std::generic_category().message(errno));
  std::string text((kMaxMebibytes << 20) + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) failure("{}: the manifest cannot be read to its end", file.native());
  if (!stream.eof()) failure("{}: the manifest is larger than {} MiB, the most accepted", file.native(), kMaxMebibytes);
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

json parse_manifest_text(std::string_view text, std::string_view file) {
  Rules rules(file);
  try {
    return json::parse(text, [&rules](int depth, json::parse_event_t event, const json &value) {
      rules.see(depth, event, value);
      return true;
    });
  } catch (const json::exception &error) {
    failure("{}: the manifest is not JSON: {}", file, sentence_of(error));
  }
}

}  // namespace msj::cli
