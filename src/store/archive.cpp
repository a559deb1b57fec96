#include "store/archive.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "file/output_place.h"
#include "store/kind.h"
#include "store/path.h"
#include "store/publish.h"
#include "store/tar.h"
#include "text/path_limit.h"
#include "text/printable.h"

namespace msj::store {

namespace {

constexpr mode_t kArchiveMode = 0666;  // less the umask: its owner says who may read it

bool is_entry(std::string_view relative) { return relative.ends_with(kEntryEnding); }

// ---- export --------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse_writing(const std::string &file, const std::string &problem) {
  throw_error(MSJ_ERROR_IO, "{} can't be written: {}", file, problem);
}

// What links lead to: `Files` follows none in the last place.
std::string target_of(const std::string &file) {
  const OutputPlace place = output_place(file);
  if (!place.problem.empty()) refuse_writing(file, place.problem);
  return place.path.native();
}

// A place within the cache would be one where no file of it belongs, and the next `cache clear` would say so.
void refuse_within(CacheRoot &root, const std::string &file, const std::string &folder) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  for (fs::path at = fs::canonical(folder, unknown); at.has_relative_path(); at = at.parent_path()) {
    for (const std::string &layer : root.layers()) {
      const std::string within = join(layer, kFormat);
      if (!fs::equivalent(at, within, unknown)) continue;
      refuse_writing(file, fmt::format("it would lie within the cache, in {}; a place outside it is accepted", within));
    }
  }
}

// The directory that the archive is to lie in. It is the caller's choice: none of the cache's rules hold for it.
Opened open_parent(Files &files, const std::string &file, const std::string &target) {
  struct stat there {};
  if (files.status_at(AT_FDCWD, target, there) == 0 && !S_ISREG(there.st_mode)) {
    refuse_writing(file, "it is there, and no regular file");
  }
  const std::string parent =
      target.starts_with('/') && parent_of(target).empty() ? "/" : std::string(parent_of(target));
  Opened folder;
  folder.path = parent.empty() ? "." : parent;
  const int descriptor = files.open(AT_FDCWD, join(folder.path, "."), O_RDONLY | O_DIRECTORY, 0);
  if (descriptor == -ENOENT || descriptor == -ENOTDIR)
    refuse_writing(file, fmt::format("there is no directory {}", folder.path));
  if (descriptor < 0) refuse_writing(file, fmt::format("{} can't be opened: {}", folder.path, error_text(descriptor)));
  folder.handle = Handle(files, descriptor);
  return folder;
}

// ---- import --------------------------------------------------------------------------------------------------------

// What links lead to; to read, an open file's name will do.
std::string resolved(const std::string &file) {
  std::error_code dangling;
  const std::filesystem::path target = std::filesystem::canonical(file, dangling);
  return dangling ? file : target.string();
}

// An open archive, and how to read it.
class ArchiveFile {
 public:
  ArchiveFile(Files &files, std::string file) : files_(files), file_(std::move(file)) {
    std::error_code unknown;
    const std::filesystem::file_status there = std::filesystem::status(file_, unknown);
    if (there.type() == std::filesystem::file_type::not_found) refuse("can't be opened: " + error_text(-ENOENT));
    if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) refuse_other();
    const int descriptor = files.open(AT_FDCWD, resolved(file_), O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (descriptor < 0) refuse("can't be opened: " + error_text(descriptor));
    handle_ = Handle(files, descriptor);
    struct stat status {};
    if (const int error = files.status(descriptor, status); error < 0) {
      refuse("can't be examined: " + error_text(error));
    }
    if (!S_ISREG(status.st_mode)) refuse_other();
    size_ = static_cast<std::uint64_t>(status.st_size);
    refuse_compressed();
  }

  [[nodiscard]] TarReader reader() const {
    return {file_, size_, [this](std::uint64_t offset, char *bytes, std::size_t count) { read(offset, bytes, count); }};
  }

 private:
  [[noreturn]] void refuse(const std::string &problem) const { throw_error(MSJ_ERROR_IO, "{} {}", file_, problem); }
  [[noreturn]] void refuse_other() const { refuse("is no regular file; a tar archive is accepted"); }

  void read(std::uint64_t offset, char *bytes, std::size_t count) const {
    while (count > 0) {
      const ssize_t got = files_.read_at(handle_.get(), bytes, count, offset);
      if (got < 0) refuse("can't be read: " + error_text(static_cast<int>(got)));
      if (got == 0) refuse(fmt::format("became shorter than its {} bytes while it was read", size_));
      bytes += got;
      count -= static_cast<std::size_t>(got);
      offset += static_cast<std::uint64_t>(got);
    }
  }

  void refuse_compressed() const {
    using namespace std::string_view_literals;
    struct Compression {
      std::string_view magic;
      std::string_view name;
      std::string_view command;
    };
    constexpr std::array kCompressions = {Compression{"\x1f\x8b"sv, "gzip", "gzip -d"},
                                          Compression{"\x28\xb5\x2f\xfd"sv, "zstd", "zstd -d"},
                                          Compression{"\xfd"
                                                      "7zXZ\0"sv,
                                                      "xz", "xz -d"},
                                          Compression{"BZh"sv, "bzip2", "bzip2 -d"}};
    std::array<char, 6> start{};
    if (size_ < start.size()) return;
    read(0, start.data(), start.size());
    for (const Compression &known : kCompressions) {
      if (!std::string_view(start.data(), start.size()).starts_with(known.magic)) continue;
      refuse(fmt::format("is compressed with {}; decompress it first ({})", known.name, known.command));
    }
  }

  Files &files_;
  std::string file_;
  Handle handle_;
  std::uint64_t size_ = 0;
};

class Importer {
 public:
  Importer(CacheRoot &root, const ArchiveFile &archive, const std::string &file, const Importing &importing)
      : root_(root), archive_(archive), file_(file), importing_(importing) {}

  Imported run() {
    // To its end before anything is kept: of an archive that is cut off or damaged, nothing is imported.
    for (TarReader whole = archive_.reader(); whole.next().has_value();) {
    }
    TarReader reader = archive_.reader();
    while (const auto member = again([&] { return reader.next(); })) {
      if (std::string problem = take(reader, *member); !problem.empty()) {
        imported_.refused.push_back(
            {fits_path(member->path) ? member->path : shortened(member->path), std::move(problem)});
      }
    }
    return std::move(imported_);
  }

 private:
  [[nodiscard]] std::int64_t taken() const { return imported_.entries + imported_.cubins; }

  // What was read to its end a moment ago may be cut, changed or unreadable by now: then some files are in the cache.
  template <typename Read>
  [[nodiscard]] std::invoke_result_t<Read> again(const Read &read) const {
    try {
      return read();
    } catch (const Error &error) {
      throw_error(error.status(), "{}; {} of its files were imported before", error.what(), taken());
    }
  }

  // Why it is refused; "" if it is not.
  std::string take(const TarReader &reader, const TarMember &member) {
    const std::string &relative = member.path;
    if (member.kind == TarMember::Kind::directory) return {};  // made where files need them
    if (member.kind == TarMember::Kind::other) return fmt::format("is {}, not a file", member.what);
    if (!stays_below(relative) || !fits_path(relative)) return "is no name for a cache file";
    if (is_lock(relative)) return {};  // of a cache that was packed as it lay there
    if (!is_kept_file(relative)) return std::string(kNoSuchName);
    if (member.size > static_cast<std::uint64_t>(kMaxFileBytes)) {
      return fmt::format("has {} bytes; at most {} are accepted", member.size, kMaxFileBytes);
    }
    const std::string bytes = again([&] { return reader.contents(member); });
    std::string problem = importing_.check(relative, bytes).problem;
    if (problem.empty() && !is_there(relative, bytes)) keep(relative, bytes);
    return problem;
  }

  // Whether the writable layer holds a file of that name that stays: whoever measured it, measured it there.
  bool is_there(const std::string &relative, const std::string &bytes) {
    const auto check = [&](std::string_view own) { return importing_.check(relative, own); };
    const auto own = root_.read(relative, nullptr, {.check = check, .only_writable = true});
    if (!own) return false;
    if (*own == bytes) {
      ++imported_.identical;
      return true;
    }
    const auto is_obsolete = [&](std::string_view text) {
      return !importing_.obsolete(relative, text).problem.empty();
    };
    if (is_obsolete(*own) && !is_obsolete(bytes)) return false;
    ++imported_.kept;
    return true;
  }

  void keep(const std::string &relative, const std::string &bytes) {
    std::string why;
    if (!root_.publish(relative, bytes, &why)) {
      throw_error(MSJ_ERROR_IO, "{} can't be imported further, after {} of its files: {}", file_, taken(), why);
    }
    ++(is_entry(relative) ? imported_.entries : imported_.cubins);
    imported_.bytes += static_cast<std::int64_t>(bytes.size());
  }

  CacheRoot &root_;
  const ArchiveFile &archive_;
  const std::string &file_;
  const Importing &importing_;
  Imported imported_;
};

}  // namespace

Exported export_archive(CacheRoot &root, const std::string &file, const Exporting &exporting) {
  // First: what can't be read must not look like a cache that holds nothing, over an archive that did.
  std::string unread;
  const std::vector<std::string> there = root.list(std::string(kFormat), &unread);
  if (!unread.empty()) throw_error(MSJ_ERROR_IO, "{} is not written: {}", file, unread);
  const std::string target = target_of(file);
  Files &files = root.files();
  const Opened folder = open_parent(files, file, target);
  refuse_within(root, file, folder.path);
  NewFile archive(files, folder, kArchiveMode, Temporary::nameless);
  const auto written = [&](const Published &result) {
    if (!result.done && !result.problem.empty()) throw_error(MSJ_ERROR_IO, "{} {}", file, result.problem);
  };
  written(archive.failure());
  TarWriter tar([&](std::string_view bytes) {
    archive.write(bytes);
    written(archive.failure());
  });
  Exported exported;
  for (const std::string &relative : there) {
    if (!is_kept_file(relative)) continue;
    const auto check = [&](std::string_view bytes) { return exporting.check(relative, bytes); };
    const auto bytes = root.read(relative, nullptr, {.check = check, .or_passed_over = true});
    if (!bytes || !exporting.is_wanted(relative, *bytes)) continue;
    tar.add(relative, *bytes);
    ++(is_entry(relative) ? exported.entries : exported.cubins);
    exported.bytes += static_cast<std::int64_t>(bytes->size());
  }
  if (!exporting.wanted.empty() && exported.entries + exported.cubins == 0) {
    throw_error(MSJ_ERROR_IO, "{} is not written: no entry or cubin {} is cached", file, exporting.wanted);
  }
  tar.finish();
  written(archive.put_in_place(std::string(name_of(target))));
  return exported;
}

Imported import_archive(CacheRoot &root, const std::string &file, const Importing &importing) {
  const ArchiveFile archive(root.files(), file);
  return Importer(root, archive, file, importing).run();
}

}  // namespace msj::store
