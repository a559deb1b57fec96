#include "cli/npy_header.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "cli/words.h"

namespace msj::cli {
namespace {

constexpr std::string_view kAcceptedTypes =
    "bool, int8, uint8, uint16, int32, int64, float16, float32, float64, bfloat16 ('<V2'), float8_e4m3fn, float8_e5m2 "
    "and "
    "one-byte '|V1'";

std::string quoted(std::string_view text) { return fmt::format("'{}'", printable(shortened(text))); }

// ---- the dict

struct Dictionary {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Dictionary parse() {
    expect('{', "the opening '{'");
    while (!accept('}')) {
      parse_entry();
      if (accept(',')) continue;
      expect('}', "',' or '}'");
      break;
    }
    skip_space();
    if (position_ != text_.size()) malformed("nothing more after '}'");
    return {required(descr_, "descr"), required(fortran_order_, "fortran_order"), required(shape_, "shape")};
  }

 private:
  void parse_entry() {
    const std::string_view key = parse_string("a key in quotes");
    expect(':', "':' after the key");
    if (key == "descr") {
      set(descr_, parse_descr(), key);
    } else if (key == "fortran_order") {
      set(fortran_order_, parse_bool(), key);
    } else if (key == "shape") {
      set(shape_, parse_shape(), key);
    } else {
      npy_failure(file_, "the header has the key {}; accepted: 'descr', 'fortran_order' and 'shape'", quoted(key));
    }
  }

  template <typename T>
  void set(std::optional<T> &field, T value, std::string_view key) {
    if (field) npy_failure(file_, "the header has the key '{}' twice; it must have it once", key);
    field = std::move(value);
  }

  template <typename T>
  T required(std::optional<T> &field, std::string_view key) {
    if (!field) npy_failure(file_, "the header has no '{}'; it must have 'descr', 'fortran_order' and 'shape'", key);
    return *std::move(field);
  }

  std::string parse_descr() {
    skip_space();
    if (peek() == '[' || peek() == '(') {
      npy_failure(file_, "the dtype is structured ({}); accepted: {}", quoted(text_.substr(position_)), kAcceptedTypes);
    }
    return std::string(parse_string("a dtype in quotes"));
  }

  bool parse_bool() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    malformed("True or False for 'fortran_order'");
  }

  std::vector<std::int64_t> parse_shape() {
    std::vector<std::int64_t> shape;
    expect('(', "'(' of the shape");
    while (!accept(')')) {
      shape.push_back(parse_size());
      if (accept(',')) continue;
      if (shape.size() == 1) malformed("',' in a shape of one size, as in (3,)");
      expect(')', "',' or ')' in the shape");
      break;
    }
    return shape;
  }

  std::int64_t parse_size() {
    skip_space();
    std::int64_t size = 0;
    const char *const begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
    if (error == std::errc::invalid_argument) malformed("an integer in the shape");
    const std::string_view digits(begin, static_cast<std::size_t>(end - begin));
    if (digits.front() == '-') npy_failure(file_, "the shape has the size {}; sizes must be 0 or more", quoted(digits));
    if (error != std::errc()) npy_failure(file_, "the shape has the size {}; it must be below 2^63", quoted(digits));
    position_ += digits.size();
    if (peek() == 'L') ++position_;  // written by Python 2
    return size;
  }

  std::string_view parse_string(std::string_view what) {
    skip_space();
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed(what);
    const std::size_t begin = position_ + 1;
    const std::size_t end = text_.find_first_of(quote == '"' ? "\"\\\n" : "'\\\n", begin);
    if (end == std::string_view::npos || text_[end] != quote) {
      position_ = std::min(end, text_.size());
      malformed("a string without escapes that ends");
    }
    position_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  [[nodiscard]] char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void skip_space() { position_ = std::min(text_.find_first_not_of(" \t\r\n\f", position_), text_.size()); }

  bool accept(char wanted) {
    skip_space();
    if (peek() != wanted) return false;
    ++position_;
    return true;
  }

  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  void expect(char wanted, std::string_view what) {
    if (!accept(wanted)) malformed(what);
  }

  [[noreturn]] void malformed(std::string_view wanted) const {
    const std::string_view found = text_.substr(position_);
    npy_failure(file_, "the .npy header is malformed at byte {}: {} where {} was expected", position_,
                found.empty() ? "the end" : quoted(found), wanted);
  }

  std::string_view text_;
  std::string_view file_;
  std::size_t position_ = 0;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

// ---- dtype

struct ElementType {
  NpyType type;
  bool is_big_endian;
};

// The kind and size of a descr ("f4"), or a name, which people write by hand for ml_dtypes' types.
std::optional<NpyType> find_type(std::string_view kind) {
  if (kind == "?") kind = "b1";
  if (kind == "f1") kind = "float8_e5m2";  // ml_dtypes writes it so; its other types of one byte are all 'V1'
  const auto *const found = std::ranges::find_if(
      kNpyTypes, [kind](const NpyTypeInfo &type) { return type.name == kind || type.descr.substr(1) == kind; });
  return found == kNpyTypes.end() ? std::nullopt : std::optional(found->type);
}

ElementType parse_type(std::string_view descr, std::string_view file) {
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr.front()) != std::string_view::npos;
  const std::string_view kind = descr.substr(has_order ? 1 : 0);
  if (kind.starts_with('O')) {
    npy_failure(file, "the array holds Python objects (dtype {}); accepted: {}", quoted(descr), kAcceptedTypes);
  }
  const std::optional<NpyType> type = find_type(kind);
  if (!type) npy_failure(file, "the dtype is {}; accepted: {}", quoted(descr), kAcceptedTypes);
  return {*type, descr.front() == '>' && bytes(*type) > 1};
}

// ---- before the dict

// The length of the part before the header's text, from the version; checks that it is all there.
std::size_t preamble_bytes(std::span<const std::byte> file_bytes, std::string_view file) {
  const std::string_view text(reinterpret_cast<const char *>(file_bytes.data()), file_bytes.size());
  if (text.starts_with("PK\x03\x04")) {
    npy_failure(file, "this is a zip archive, perhaps .npz; accepted: a .npy file with one array");
  }
  if (!text.starts_with(kNpyMagic)) {
    npy_failure(file, "not a .npy file: it starts with {}, not with '\\x93NUMPY'",
                text.empty() ? "nothing" : quoted(text.substr(0, kNpyMagic.size())));
  }
  if (text.size() < kNpyVersionEnd) npy_failure(file, "the file ends in its first {} bytes", kNpyVersionEnd);
  const int major = std::to_integer<int>(file_bytes[6]);
  const int minor = std::to_integer<int>(file_bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    npy_failure(file, "the .npy version is {}.{}; accepted: 1.0, 2.0 and 3.0", major, minor);
  }
  const std::size_t end = kNpyVersionEnd + (major == 1 ? 2 : 4);
  if (text.size() < end) npy_failure(file, "the file ends after {} bytes, before its header", text.size());
  return end;
}

std::string_view header_text(std::span<const std::byte> file_bytes, std::size_t begin, std::string_view file) {
  std::size_t length = 0;
  for (std::size_t i = begin; i-- > kNpyVersionEnd;) length = length << 8 | std::to_integer<std::size_t>(file_bytes[i]);
  if (length > kNpyMaxHeaderBytes) {
    npy_failure(file, "the .npy header is said to have {} bytes; at most {} are accepted", length, kNpyMaxHeaderBytes);
  }
  if (length > file_bytes.size() - begin) {
    npy_failure(file, "the .npy header is truncated: it should have {} bytes, the file has {} for it", length,
                file_bytes.size() - begin);
  }
  return {reinterpret_cast<const char *>(file_bytes.data()) + begin, length};
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> file_bytes, std::string_view file) {
  const std::size_t begin = preamble_bytes(file_bytes, file);
  const std::string_view text = header_text(file_bytes, begin, file);
  Dictionary dictionary = HeaderParser(text, file).parse();
  const ElementType element = parse_type(dictionary.descr, file);
  return {element.type, element.is_big_endian, dictionary.fortran_order, std::move(dictionary.shape),
          begin + text.size()};
}

}  // namespace msj::cli
