#include "cli/npy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <optional>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace msj::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "byte order of files is judged against little endian");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionEnd = 8;  // magic, major, minor; then the header's length in 2 or 4 bytes
constexpr std::string_view kAcceptedTypes =
    "bool, int8, uint8, int32, int64, float16, float32, float64, bfloat16 ('<V2'), float8_e4m3fn, float8_e5m2 and "
    "one-byte '|V1'";

struct TypeInfo {
  NpyType type;
  std::string_view name;
  std::string_view descr;  // what the writer puts into the header
  std::int64_t bytes;
};

// In the enum's order; of several with one descr, a file is read as the first.
constexpr std::array<TypeInfo, 12> kTypes{{
    {NpyType::boolean, "bool", "|b1", 1},
    {NpyType::i8, "int8", "|i1", 1},
    {NpyType::u8, "uint8", "|u1", 1},
    {NpyType::raw8, "raw8", "|V1", 1},
    {NpyType::i32, "int32", "<i4", 4},
    {NpyType::i64, "int64", "<i8", 8},
    {NpyType::f16, "float16", "<f2", 2},
    {NpyType::bf16, "bfloat16", "<V2", 2},
    {NpyType::f32, "float32", "<f4", 4},
    {NpyType::f64, "float64", "<f8", 8},
    {NpyType::fp8_e4m3, "float8_e4m3fn", "|V1", 1},
    {NpyType::fp8_e5m2, "float8_e5m2", "|V1", 1},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<std::size_t>(kTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(in_order());

const TypeInfo &info(NpyType type) { return kTypes.at(static_cast<std::size_t>(type)); }

template <typename... Args>
[[noreturn]] void fail(std::string_view file, fmt::format_string<Args...> format, Args &&...args) {
  throw std::runtime_error(
      fmt::format("{}: {}", file.empty() ? "''" : file, fmt::format(format, std::forward<Args>(args)...)));
}

std::string system_message(int error) { return std::generic_category().message(error); }

// Text from a file, made fit for a one-line message.
std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string result = "'";
  for (const char c : text.substr(0, kMost)) result += (c >= ' ' && c <= '~') ? c : '?';
  return result + (text.size() > kMost ? "…'" : "'");
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

// ---- header: a Python dict literal with the keys descr, fortran_order and shape

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Header parse() {
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
      fail(file_, "the header has the key {}; accepted: 'descr', 'fortran_order' and 'shape'", quoted(key));
    }
  }

  template <typename T>
  void set(std::optional<T> &field, T value, std::string_view key) {
    if (field) fail(file_, "the header has the key '{}' twice; it must have it once", key);
    field = std::move(value);
  }

  template <typename T>
  T required(std::optional<T> &field, std::string_view key) {
    if (!field) fail(file_, "the header has no '{}'; it must have 'descr', 'fortran_order' and 'shape'", key);
    return *std::move(field);
  }

  std::string parse_descr() {
    skip_space();
    if (peek() == '[' || peek() == '(') {
      fail(file_, "the dtype is structured ({}); accepted: {}", quoted(text_.substr(position_)), kAcceptedTypes);
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
    if (digits.front() == '-') fail(file_, "the shape has the size {}; sizes must be 0 or more", quoted(digits));
    if (error != std::errc()) fail(file_, "the shape has the size {}; it must be below 2^63", quoted(digits));
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
    fail(file_, "the .npy header is malformed at byte {}: {} where {} was expected", position_,
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
  bool swapped;
};

// The kind and size of a descr ("f4"), or a name, which people write by hand for ml_dtypes' types.
std::optional<NpyType> find_type(std::string_view kind) {
  if (kind == "?") kind = "b1";
  if (kind == "f1") kind = "float8_e5m2";  // ml_dtypes writes it so; its other types of one byte are all 'V1'
  const auto *const found = std::ranges::find_if(
      kTypes, [kind](const TypeInfo &type) { return type.name == kind || type.descr.substr(1) == kind; });
  return found == kTypes.end() ? std::nullopt : std::optional(found->type);
}

ElementType parse_type(std::string_view descr, std::string_view file) {
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr.front()) != std::string_view::npos;
  const std::string_view kind = descr.substr(has_order ? 1 : 0);
  if (kind.starts_with('O')) {
    fail(file, "the array holds Python objects (dtype {}); accepted: {}", quoted(descr), kAcceptedTypes);
  }
  const std::optional<NpyType> type = find_type(kind);
  if (!type) fail(file, "the dtype is {}; accepted: {}", quoted(descr), kAcceptedTypes);
  return {*type, descr.front() == '>' && bytes(*type) > 1};
}

// ---- layout

std::int64_t checked_elements(std::span<const std::int64_t> shape, std::int64_t element_bytes, std::string_view file) {
  if (shape.size() > kNpyMaxRank) {
    fail(file, "the array has {} dimensions; at most {} are accepted", shape.size(), kNpyMaxRank);
  }
  std::int64_t total = element_bytes;  // with sizes of 0 as 1, so that strides fit as well
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(total, std::max<std::int64_t>(size, 1), &total)) {
      fail(file, "the shape {} needs more than 2^63 bytes", shape_text(shape));
    }
  }
  return std::ranges::find(shape, 0) == shape.end() ? total / element_bytes : 0;
}

std::vector<std::int64_t> strides_of(std::span<const std::int64_t> shape, bool fortran_order) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t dimension = fortran_order ? i : shape.size() - 1 - i;
    strides[dimension] = stride;
    stride *= std::max<std::int64_t>(shape[dimension], 1);
  }
  return strides;
}

void reverse_elements(std::span<std::byte> data, std::size_t element_bytes) {
  for (std::size_t i = 0; i < data.size(); i += element_bytes) {
    std::ranges::reverse(data.subspan(i, element_bytes));
  }
}

// ---- the parts of a file

// The length of the part before the header's text, from the version; checks that it is all there.
std::size_t preamble_bytes(std::span<const std::byte> file_bytes, std::string_view file) {
  const std::string_view text(reinterpret_cast<const char *>(file_bytes.data()), file_bytes.size());
  if (text.starts_with("PK\x03\x04")) {
    fail(file, "this is a zip archive, perhaps .npz; accepted: a .npy file with one array");
  }
  if (!text.starts_with(kMagic)) {
    fail(file, "not a .npy file: it starts with {}, not with '\\x93NUMPY'",
         text.empty() ? "nothing" : quoted(text.substr(0, kMagic.size())));
  }
  if (text.size() < kVersionEnd) fail(file, "the file ends in its first {} bytes", kVersionEnd);
  const int major = std::to_integer<int>(file_bytes[6]);
  const int minor = std::to_integer<int>(file_bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    fail(file, "the .npy version is {}.{}; accepted: 1.0, 2.0 and 3.0", major, minor);
  }
  const std::size_t end = kVersionEnd + (major == 1 ? 2 : 4);
  if (text.size() < end) fail(file, "the file ends after {} bytes, before its header", text.size());
  return end;
}

std::string_view header_text(std::span<const std::byte> file_bytes, std::size_t begin, std::string_view file) {
  std::size_t length = 0;
  for (std::size_t i = begin; i-- > kVersionEnd;) length = length << 8 | std::to_integer<std::size_t>(file_bytes[i]);
  if (length > kNpyMaxHeaderBytes) {
    fail(file, "the .npy header is said to have {} bytes; at most {} are accepted", length, kNpyMaxHeaderBytes);
  }
  if (length > file_bytes.size() - begin) {
    fail(file, "the .npy header is truncated: it should have {} bytes, the file has {} for it", length,
         file_bytes.size() - begin);
  }
  return {reinterpret_cast<const char *>(file_bytes.data()) + begin, length};
}

// ---- files

class FileDescriptor {
 public:
  explicit FileDescriptor(int value) : value_(value) {}
  ~FileDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  FileDescriptor(const FileDescriptor &) = delete;
  FileDescriptor &operator=(const FileDescriptor &) = delete;

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] int close() { return ::close(std::exchange(value_, -1)); }  // NFS reports a full disk here

 private:
  int value_;
};

class Mapping {
 public:
  Mapping(int descriptor, std::size_t size, std::string_view file) : size_(size) {
    if (size == 0) return;
    address_ = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address_ == MAP_FAILED) fail(file, "the file cannot be mapped: {}", system_message(errno));
  }
  ~Mapping() {
    if (size_ != 0) ::munmap(address_, size_);
  }
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte *>(address_), size_}; }

 private:
  void *address_ = nullptr;
  std::size_t size_;
};

void require_regular(const struct stat &status, std::string_view file) {
  if (S_ISDIR(status.st_mode)) fail(file, "this is a directory; accepted: a .npy file");
  if (!S_ISREG(status.st_mode)) fail(file, "this is a device, pipe or socket; accepted: a regular .npy file");
}

// The file under its final name, or under none: removed unless published.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path target)
      : target_(std::move(target)), path_(unused_path(target_)), descriptor_(open_new(path_)) {
    if (descriptor_.get() < 0) refuse(errno);
  }
  ~TemporaryFile() {
    if (!published_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  void write(std::span<const std::byte> data) {
    while (!data.empty()) {
      const ssize_t written = ::write(descriptor_.get(), data.data(), data.size());
      if (written >= 0) {
        data = data.subspan(static_cast<std::size_t>(written));
      } else if (errno != EINTR) {
        refuse(errno);
      }
    }
  }

  void publish() {
    if (::fsync(descriptor_.get()) != 0 && errno != EINVAL) refuse(errno);  // EINVAL: a file system without fsync
    if (descriptor_.close() != 0) refuse(errno);
    if (::rename(path_.c_str(), target_.c_str()) != 0) refuse(errno);
    published_ = true;
  }

 private:
  static std::filesystem::path unused_path(const std::filesystem::path &target) {
    static std::atomic<unsigned> count{0};
    const auto name = fmt::format(".npy-{}-{}-{:08x}.tmp", ::getpid(), count++, std::random_device{}());
    return target.parent_path() / name;
  }

  static int open_new(const std::filesystem::path &path) {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }

  [[noreturn]] void refuse(int error) const {
    fail(target_.native(), "the file cannot be written: {}", system_message(error));
  }

  std::filesystem::path target_;
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  bool published_ = false;
};

// Where to write: the path itself, or what its symlinks lead to.
std::filesystem::path resolve_target(const std::filesystem::path &path) {
  if (!path.has_filename()) fail(path.native(), "the path to write has no file name");
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return path;
  require_regular(status, path.native());
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  return error ? path : resolved;
}

// Version 1.0, padded with spaces so that the data starts at a multiple of 64 bytes.
std::string preamble(NpyType type, std::span<const std::int64_t> shape) {
  constexpr std::size_t kBegin = kVersionEnd + 2;
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", info(type).descr, shape_text(shape));
  text.resize((kBegin + text.size() + 1 + 63) / 64 * 64 - kBegin - 1, ' ');
  text += '\n';
  std::string result(kMagic);
  result += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return result + text;
}

}  // namespace

std::string_view name(NpyType type) { return info(type).name; }

std::int64_t bytes(NpyType type) { return info(type).bytes; }

std::int64_t NpyArray::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

NpyArray parse_npy(std::span<const std::byte> file_bytes, std::string_view file) {
  const std::size_t begin = preamble_bytes(file_bytes, file);
  const std::string_view text = header_text(file_bytes, begin, file);
  Header header = HeaderParser(text, file).parse();
  const ElementType element = parse_type(header.descr, file);
  const std::int64_t elements = checked_elements(header.shape, bytes(element.type), file);
  const auto data = file_bytes.subspan(begin + text.size());
  const auto wanted = static_cast<std::size_t>(elements * bytes(element.type));
  if (data.size() < wanted) {
    fail(file, "the file is truncated: shape {} of {} needs {} bytes of data, it has {}", shape_text(header.shape),
         name(element.type), wanted, data.size());
  }
  NpyArray array{element.type, std::move(header.shape), {}, data.data(), nullptr};
  array.strides = strides_of(array.shape, header.fortran_order);
  if (element.swapped) {
    auto copy =
        std::make_shared<std::vector<std::byte>>(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(wanted));
    reverse_elements(*copy, static_cast<std::size_t>(bytes(element.type)));
    array.data = copy->data();
    array.owner = std::move(copy);
  }
  return array;
}

NpyArray read_npy(const std::filesystem::path &path) {
  const std::string &file = path.native();
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) fail(file, "the file cannot be opened: {}", system_message(errno));
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail(file, "the file cannot be read: {}", system_message(errno));
  require_regular(status, file);
  const auto mapping =
      std::make_shared<const Mapping>(descriptor.get(), static_cast<std::size_t>(status.st_size), file);
  NpyArray array = parse_npy(mapping->bytes(), file);
  if (!array.owner) array.owner = mapping;
  return array;
}

void write_npy(const std::filesystem::path &path, NpyType type, std::span<const std::int64_t> shape,
               std::span<const std::byte> data) {
  const std::string &file = path.native();
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; })) {
    fail(file, "the shape {} to write has a negative size", shape_text(shape));
  }
  const auto wanted = static_cast<std::size_t>(checked_elements(shape, bytes(type), file) * bytes(type));
  if (data.size() != wanted) {
    fail(file, "the array to write has {} bytes; shape {} of {} needs {}", data.size(), shape_text(shape), name(type),
         wanted);
  }
  TemporaryFile temporary(resolve_target(path));
  const std::string header = preamble(type, shape);
  temporary.write(std::as_bytes(std::span(header)));
  temporary.write(data);
  temporary.publish();
}

}  // namespace msj::cli
