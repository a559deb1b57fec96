#include "store/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/error.h"
#include "store/path.h"

namespace msj::store {

namespace {

constexpr std::size_t kBlock = 512;

// Fields of a header: offset and length.
struct Field {
  std::size_t at;
  std::size_t length;
};
constexpr Field kName{0, 100};
constexpr Field kMode{100, 8};
constexpr Field kUid{108, 8};
constexpr Field kGid{116, 8};
constexpr Field kSize{124, 12};
constexpr Field kTime{136, 12};
constexpr Field kChecksum{148, 8};
constexpr std::size_t kTypeAt = 156;
constexpr Field kMagic{257, 8};
constexpr Field kOwner{265, 32};
constexpr Field kGroup{297, 32};
constexpr Field kDeviceMajor{329, 8};
constexpr Field kDeviceMinor{337, 8};
constexpr Field kPrefix{345, 155};
// Of GNU's sparse files: whether another block of their map follows, said by the header and by each of those blocks.
constexpr std::size_t kMoreOfMapAt = 482;
constexpr std::size_t kStillMoreOfMapAt = 504;

constexpr std::string_view kUstar("ustar\00000", 8);
constexpr std::uint64_t kFixedTime = 315'532'800;  // 1980-01-01: GNU tar warns of 1970
constexpr std::uint64_t kMaxExtension = std::uint64_t{1} << 20;

enum Type : char {
  kFile = '0',
  kOldFile = '\0',
  kHardLink = '1',
  kSymbolicLink = '2',
  kCharacterDevice = '3',
  kBlockDevice = '4',
  kDirectory = '5',
  kFifo = '6',
  kContiguousFile = '7',
  kPax = 'x',
  kGlobalPax = 'g',
  kGnuName = 'L',
  kGnuLink = 'K',
  kGnuSparse = 'S',
  kGnuListing = 'D',
  kGnuRest = 'M',
  kGnuLabel = 'V',
};

constexpr std::size_t padding(std::uint64_t size) {
  return static_cast<std::size_t>((kBlock - size % kBlock) % kBlock);
}

// ---- writing -------------------------------------------------------------------------------------------------------

void put(std::string &header, Field field, std::string_view text) { header.replace(field.at, text.size(), text); }

void put_number(std::string &header, Field field, std::uint64_t number) {
  put(header, field, fmt::format("{:0{}o}", number, field.length - 1));  // the last byte stays NUL
}

// The sum of all bytes, those of the checksum itself taken as spaces.
std::uint64_t checksum(std::string_view header) {
  std::uint64_t sum = kChecksum.length * static_cast<unsigned char>(' ');
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (i < kChecksum.at || i >= kChecksum.at + kChecksum.length) sum += static_cast<unsigned char>(header[i]);
  }
  return sum;
}

struct SplitName {
  std::string_view prefix;
  std::string_view name;
};

// Where a header has room for the path: in one field, or in two with a slash between them.
std::optional<SplitName> split_name(std::string_view path) {
  if (path.size() <= kName.length) return SplitName{{}, path};
  const std::size_t slash = path.rfind('/', std::min(kPrefix.length, path.size() - 2));
  if (slash == std::string_view::npos || slash == 0 || path.size() - slash - 1 > kName.length) return std::nullopt;
  return SplitName{path.substr(0, slash), path.substr(slash + 1)};
}

// "LENGTH path=…\n", where the length counts its own digits.
std::string pax_record(std::string_view path) {
  const std::string rest = fmt::format(" path={}\n", path);
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

// ---- reading -------------------------------------------------------------------------------------------------------

std::string_view field_of(std::string_view header, Field field) { return header.substr(field.at, field.length); }

std::string_view text_of(std::string_view field) { return field.substr(0, field.find('\0')); }

// Octal text, or big-endian binary with the first bit set. nullopt for anything else and from 2^63 up.
std::optional<std::uint64_t> number_of(std::string_view field) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::uint64_t number = 0;
  if (static_cast<unsigned char>(field.front()) >= 0x80) {
    if (static_cast<unsigned char>(field.front()) != 0x80) return std::nullopt;  // negative, or past any file
    for (const char byte : field.substr(1)) {
      if (number > kMax >> 8) return std::nullopt;
      number = number << 8 | static_cast<unsigned char>(byte);
    }
    return number;
  }
  field = text_of(field);
  field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
  field = field.substr(0, field.find(' '));
  for (const char digit : field) {
    if (digit < '0' || digit > '7') return std::nullopt;
    number = number << 3 | static_cast<std::uint64_t>(digit - '0');  // 12 digits at most
  }
  return number;
}

std::string path_of(std::string_view header) {
  const std::string name(text_of(field_of(header, kName)));
  const bool has_prefix = field_of(header, kMagic).starts_with(kUstar.substr(0, 6));  // GNU's own has times there
  const std::string_view prefix = has_prefix ? text_of(field_of(header, kPrefix)) : std::string_view();
  return prefix.empty() ? name : fmt::format("{}/{}", prefix, name);
}

std::string what_is(char type) {
  switch (type) {
    case kHardLink:
      return "a hard link";
    case kSymbolicLink:
      return "a symbolic link";
    case kCharacterDevice:
    case kBlockDevice:
      return "a device";
    case kFifo:
      return "a FIFO";
    case kGnuSparse:
      return "a sparse file";
    case kGnuListing:
      return "the listing of a directory";
    case kGnuRest:
      return "the rest of a file that another volume begins";
    case kGnuLabel:
      return "the label of a volume";
    default:
      return fmt::format("of the unknown type {:#04x}", static_cast<unsigned char>(type));
  }
}

bool is_file(char type) { return type == kFile || type == kOldFile || type == kContiguousFile; }

// About the member that follows.
bool is_extension(char type) { return type == kPax || type == kGlobalPax || type == kGnuName || type == kGnuLink; }

// Whose size, if there is one, says nothing of bytes in the archive.
bool has_no_contents(char type) { return type >= kHardLink && type <= kFifo; }

std::string plain_path(std::string_view path) {
  while (path.starts_with("./")) path.remove_prefix(std::min(path.find_first_not_of('/', 1), path.size()));
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path);
}

TarMember member_of(char type, const std::string &path, bool is_sparse) {
  TarMember member;
  const bool is_directory = type == kDirectory || (is_file(type) && path.ends_with('/'));
  member.path = plain_path(path);
  if (is_directory) {
    member.kind = TarMember::Kind::directory;
  } else if (!is_file(type) || is_sparse) {
    member.kind = TarMember::Kind::other;
    member.what = is_sparse ? "a sparse file" : what_is(type);
  }
  return member;
}

}  // namespace

// ---- TarWriter -----------------------------------------------------------------------------------------------------

void TarWriter::add(const std::string &path, std::string_view bytes) {
  add_directories(parent_of(path));
  put_header(path, kFile, 0644, bytes.size());
  put_padded(bytes);
}

void TarWriter::add_directories(std::string_view path) {
  if (path.empty() || directories_.contains(path)) return;
  add_directories(parent_of(path));
  put_header(std::string(path) + "/", kDirectory, 0755, 0);
  directories_.emplace(path);
}

void TarWriter::put_header(const std::string &path, char type, unsigned mode, std::size_t size) {
  auto split = split_name(path);
  if (!split) {
    const std::string record = pax_record(path);
    put_header("PaxHeader", kPax, mode, record.size());
    put_padded(record);
    split = SplitName{{}, std::string_view(path).substr(0, kName.length)};  // for readers without pax
  }
  std::string header(kBlock, '\0');
  put(header, kName, split->name);
  put_number(header, kMode, mode);
  put_number(header, kUid, 0);
  put_number(header, kGid, 0);
  put_number(header, kSize, size);
  put_number(header, kTime, kFixedTime);
  header[kTypeAt] = type;
  put(header, kMagic, kUstar);
  put(header, kOwner, "root");
  put(header, kGroup, "root");
  put_number(header, kDeviceMajor, 0);
  put_number(header, kDeviceMinor, 0);
  put(header, kPrefix, split->prefix);
  put(header, kChecksum, fmt::format("{:06o}", checksum(header)) + std::string("\0 ", 2));
  sink_(header);
}

void TarWriter::put_padded(std::string_view bytes) {
  sink_(bytes);
  sink_(std::string(padding(bytes.size()), '\0'));
}

void TarWriter::finish() { sink_(std::string(2 * kBlock, '\0')); }

// ---- TarReader -----------------------------------------------------------------------------------------------------

struct TarReader::Extension {
  std::optional<std::string> path;      // of a pax record
  std::optional<std::string> gnu_path;  // which a pax record overrules
  std::optional<std::uint64_t> size;
  bool is_sparse = false;
};

TarReader::TarReader(std::string name, std::uint64_t size, ReadAt read_at)
    : name_(std::move(name)), size_(size), read_at_(std::move(read_at)) {}

void TarReader::refuse(const std::string &problem) const { throw_error(MSJ_ERROR_IO, "{} {}", name_, problem); }

std::string TarReader::read(std::uint64_t offset, std::uint64_t count) const {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  if (count > 0) read_at_(offset, bytes.data(), bytes.size());
  return bytes;
}

std::string TarReader::read_block() const {
  if (at_ > size_ || size_ - at_ < kBlock) {
    if (at_ == 0) refuse(fmt::format("is no tar archive: it has {} bytes", size_));
    refuse(fmt::format("is cut off: a tar archive of {} bytes has no end mark", size_));
  }
  std::string block = read(at_, kBlock);
  if (block.find_first_not_of('\0') == std::string::npos) return block;
  if (number_of(field_of(block, kChecksum)) != checksum(block)) {
    refuse(at_ == 0 ? "is no tar archive: its first 512 bytes are no header"
                    : fmt::format("is damaged: the tar header at byte {} has another checksum than it says", at_));
  }
  return block;
}

// Behind the header, and of a sparse file behind its map, which no size counts.
std::uint64_t TarReader::start_of_contents(const std::string &header) const {
  std::uint64_t start = at_ + kBlock;  // read_block has seen that much
  bool more = header[kTypeAt] == kGnuSparse && header[kMoreOfMapAt] != 0;
  while (more) {
    if (size_ - start < kBlock) refuse(fmt::format("is cut off: the sparse file at byte {} lacks its map", at_));
    more = read(start, kBlock)[kStillMoreOfMapAt] != 0;
    start += kBlock;
  }
  return start;
}

std::uint64_t TarReader::checked_size(const std::string &header, std::uint64_t contents_at,
                                      const Extension &extension) const {
  const char type = header[kTypeAt];
  if (has_no_contents(type)) return 0;
  const std::optional<std::uint64_t> said = number_of(field_of(header, kSize));
  const std::uint64_t left = size_ - contents_at;
  const std::optional<std::uint64_t> size = extension.size && !is_extension(type) ? extension.size : said;
  if (!size) refuse(fmt::format("is damaged: the tar header at byte {} has a size that is no number", at_));
  if (*size > left) {
    refuse(fmt::format("is cut off or damaged: the tar member at byte {} has {} bytes, and {} are left", at_, *size,
                       left));
  }
  if (is_extension(type) && *size > kMaxExtension) {
    refuse(fmt::format("is damaged: the tar header at byte {} has {} bytes of names; at most {} are accepted", at_,
                       *size, kMaxExtension));
  }
  return *size;
}

void TarReader::read_pax(std::string_view records, Extension &extension) const {
  const auto refuse_record = [&] { refuse(fmt::format("is damaged: the pax record at byte {} is none", at_)); };
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc() || length > records.size() || length < digits + 2 || records[digits] != ' ' ||
        records[length - 1] != '\n') {
      refuse_record();
    }
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) refuse_record();
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") extension.path = value;
    if (key.starts_with("GNU.sparse.")) extension.is_sparse = true;
    if (key == "size") {
      std::uint64_t size = 0;
      const char *last = value.data() + value.size();
      if (std::from_chars(value.data(), last, size) != std::from_chars_result{last, std::errc()}) refuse_record();
      extension.size = size;
    }
    records.remove_prefix(length);
  }
}

// An archive ends with two blocks of zeros, in a pinch with one: with something behind it, it is a header that was
// lost.
void TarReader::refuse_more() const {
  if (size_ - at_ < 2 * kBlock) return;
  if (read(at_ + kBlock, kBlock).find_first_not_of('\0') == std::string::npos) return;
  refuse(fmt::format("is damaged: zeros at byte {}, where the header of a tar member belongs", at_));
}

std::optional<TarMember> TarReader::next() {
  Extension extension;
  std::optional<std::uint64_t> extension_at;  // the first header that says something of a member to come
  while (!ended_) {
    const std::string header = read_block();
    if (header.find_first_not_of('\0') == std::string::npos) {
      refuse_more();
      if (extension_at) refuse(fmt::format("is cut off: no member follows the tar header at byte {}", *extension_at));
      ended_ = true;
      break;
    }
    const char type = header[kTypeAt];
    const std::uint64_t contents_at = start_of_contents(header);
    const std::uint64_t size = checked_size(header, contents_at, extension);
    if (type == kPax) {
      read_pax(read(contents_at, size), extension);
    } else if (type == kGnuName) {
      extension.gnu_path = read(contents_at, size).c_str();  // up to its NUL
    }
    if (is_extension(type) && !extension_at) extension_at = at_;
    at_ = contents_at + size + padding(size);
    if (is_extension(type)) continue;
    const std::string path = extension.path       ? *extension.path
                             : extension.gnu_path ? *extension.gnu_path
                                                  : path_of(header);
    TarMember member = member_of(type, path, extension.is_sparse);
    member.size = size;
    member.contents_at = contents_at;
    return member;
  }
  return std::nullopt;
}

std::string TarReader::contents(const TarMember &member) const { return read(member.contents_at, member.size); }

}  // namespace msj::store
