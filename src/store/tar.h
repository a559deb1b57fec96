// Plain tar archives: POSIX ustar with pax records (IEEE Std 1003.1), and on reading GNU's long names and numbers too.
//
// Only what the cache needs: small regular files. What else an archive may hold is told apart, not acted upon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace msj::store {

// The archive's bytes depend on the members alone: owner root, one fixed time, files 0644 and directories 0755.
class TarWriter {
 public:
  using Sink = std::function<void(std::string_view bytes)>;  // what it throws, the writer throws
  explicit TarWriter(Sink sink) : sink_(std::move(sink)) {}

  // A file of less than 8 GiB, after those of its directories that are not in the archive yet.
  void add(const std::string &path, std::string_view bytes);
  void finish();  // the mark at the end

 private:
  void add_directories(std::string_view path);
  void put_header(const std::string &path, char type, unsigned mode, std::size_t size);
  void put_padded(std::string_view bytes);

  Sink sink_;
  std::set<std::string, std::less<>> directories_;
};

struct TarMember {
  enum class Kind : std::uint8_t { file, directory, other };
  std::string path;  // without "./" before it and "/" behind it; else as it is, which may be absolute or hold ".."
  Kind kind = Kind::file;
  std::string what;               // "a symbolic link", of the others
  std::uint64_t size = 0;         // of its contents, all of which lie in the archive
  std::uint64_t contents_at = 0;  // where they begin
};

// Reads nothing beyond the archive's size, and keeps nothing but the member at hand. Throws Error(MSJ_ERROR_IO), one
// sentence that begins with the archive's name, for what is no tar, damaged or cut off.
class TarReader {
 public:
  using ReadAt = std::function<void(std::uint64_t offset, char *bytes, std::size_t count)>;  // all of them, or throws
  TarReader(std::string name, std::uint64_t size, ReadAt read_at);

  [[nodiscard]] std::optional<TarMember> next();  // nullopt at the mark at the end
  [[nodiscard]] std::string contents(const TarMember &member) const;

 private:
  struct Extension;  // what records before a member say of it

  [[nodiscard]] std::string read(std::uint64_t offset, std::uint64_t count) const;
  [[nodiscard]] std::string read_block() const;  // the header at at_, of right checksum, or zeros
  [[nodiscard]] std::uint64_t start_of_contents(const std::string &header) const;
  [[nodiscard]] std::uint64_t checked_size(const std::string &header, std::uint64_t contents_at,
                                           const Extension &extension) const;
  void read_pax(std::string_view records, Extension &extension) const;
  [[noreturn]] void refuse(const std::string &problem) const;
  void refuse_more() const;

  std::string name_;
  std::uint64_t size_;
  ReadAt read_at_;
  std::uint64_t at_ = 0;
  bool ended_ = false;
};

}  // namespace msj::store
