#include "cli/json_text.h"

#include <cerrno>
#include <fstream>
#include <system_error>

#include "cli/failure.h"
#include "cli/words.h"
#include "text/json_reader.h"

namespace msj::cli {
namespace {

using nlohmann::json;

// Deep enough for every file that is read, and far from what would exhaust the stack of a recursive walk; and more
// objects, lists and names than a manifest of a hundred thousand shapes has.
constexpr JsonBounds kBounds = {16, std::size_t{1} << 20};
constexpr std::size_t kMaxMebibytes = 16;

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
  JsonReader<json> reader(kBounds);
  if (reader.read(text)) return reader.take();
  switch (reader.fault()) {
    case JsonFault::too_deep:
      failure("{}: {} is nested deeper than {} levels", file, what, kBounds.depth);
    case JsonFault::too_many_parts:
      failure("{}: {} has more than {} objects, lists and names, the most accepted", file, what, kBounds.parts);
    case JsonFault::too_many_names:
      failure("{}: {} has more than {} names in one object, the most accepted", file, what, kMostJsonNames);
    case JsonFault::twice:
      failure("{}: {} has '{}' twice in one object; once is accepted", file, what, shortened(reader.detail()));
    case JsonFault::no_json:
    case JsonFault::none:
      break;
  }
  failure("{}: {} is not JSON: {}", file, what, reader.detail());
}

std::string shown(const json &value) {
  if (value.is_structured() && value.size() > 8) return fmt::format("a JSON {} of {}", value.type_name(), value.size());
  return shortened(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace msj::cli
