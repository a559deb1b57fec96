#include "cli/json_text.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <system_error>
#include <vector>

#include "cli/failure.h"
#include "cli/words.h"
#include "text/json_problem.h"

namespace msj::cli {
namespace {

using nlohmann::json;

// Deep enough for every file that is read, and far from what would exhaust the stack of a recursive walk.
constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxMebibytes = 16;

// Called at each step of the parser: what JSON allows and such a file must not have.
class Rules {
 public:
  Rules(std::string_view file, std::string_view what) : file_(file), what_(what) {}

  void see(int depth, json::parse_event_t event, const json &value) {
    if (depth > kMaxDepth) failure("{}: {} is nested deeper than {} levels", file_, what_, kMaxDepth);
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event != json::parse_event_t::key) return;
    const auto &key = value.get_ref<const std::string &>();
    if (!keys_.back().insert(key).second) {
      failure("{}: {} has '{}' twice in one object; once is accepted", file_, what_, shortened(key));
    }
  }

 private:
  std::string_view file_;
  std::string_view what_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

// Whatever never ends, or was never a text, is refused before it is opened.
void require_text_file(const std::filesystem::path &file, std::string_view what, Pipes pipes) {
  using std::filesystem::file_type;
  std::error_code error;
  const file_type type = std::filesystem::status(file, error).type();
  if (type == file_type::not_found || type == file_type::none) {
    failure("{}: {} cannot be opened: {}", file.native(), what, error.message());
  }
  if (type == file_type::directory) {
    failure("{}: {} is a directory; a JSON file is accepted", file.native(), what);
  }
  if (type == file_type::fifo && pipes == Pipes::refused) {  // opening one waits for its writer, who may never come
    failure("{}: {} is a pipe; a regular JSON file is accepted", file.native(), what);
  }
  if (type != file_type::regular && type != file_type::fifo) {
    failure("{}: {} is a device or socket; a JSON file is accepted", file.native(), what);
  }
}

}  // namespace

std::string read_json_text(const std::filesystem::path &file, std::string_view what, Pipes pipes) {
  require_text_file(file, what, pipes);
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) failure("{}: {} cannot be opened: {}", file.native(), what, std::generic_category().message(errno));
  std::string text((kMaxMebibytes << 20) + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) failure("{}: {} cannot be read to its end", file.native(), what);
  if (!stream.eof()) failure("{}: {} is larger than {} MiB, the most accepted", file.native(), what, kMaxMebibytes);
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

json parse_json_text(std::string_view text, std::string_view file, std::string_view what) {
  Rules rules(file, what);
  try {
    return json::parse(text, [&rules](int depth, json::parse_event_t event, const json &value) {
      rules.see(depth, event, value);
      return true;
    });
  } catch (const json::exception &) {
    failure("{}: {} is not JSON: {}", file, what, json_problem(text));
  }
}

std::string shown(const json &value) {
  if (value.is_structured() && value.size() > 8) return fmt::format("a JSON {} of {}", value.type_name(), value.size());
  return shortened(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace msj::cli
