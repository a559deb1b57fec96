// Ways in which a file of the cache comes to be damaged.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/scratch.h"

namespace msj::testing {

enum class Damage : std::uint8_t {
  emptied,
  cut,
  flipped,
  extended,
  deleted,
  directory,
  dangling,
  linked,  // to a good copy elsewhere: who can write that one?
  fifo,
  writable,  // by others
  foreign    // of another user; only root can bring it about
};
inline constexpr std::array<const char *, 11> kDamageNames = {"emptied", "cut",       "flipped",  "extended",
                                                              "deleted", "directory", "dangling", "linked",
                                                              "fifo",    "writable",  "foreign"};
[[nodiscard]] inline std::string name(Damage damage) { return kDamageNames.at(static_cast<std::size_t>(damage)); }

[[nodiscard]] inline std::vector<Damage> all_damages() {
  std::vector<Damage> damages;
  for (std::size_t i = 0; i < kDamageNames.size(); ++i) {
    const auto damage = static_cast<Damage>(i);
    if (damage != Damage::foreign || ::geteuid() == 0) damages.push_back(damage);
  }
  return damages;
}

// A file of these bytes, of this user alone, whatever was there.
inline void put_file(const std::filesystem::path &path, const std::string &bytes) {
  std::filesystem::remove_all(path);
  write_text(path, bytes);
  std::filesystem::permissions(path, std::filesystem::perms{0600});
}

// `outside` is a directory for what a link leads to.
inline void damage_file(const std::filesystem::path &path, Damage damage, const std::string &outside) {
  const std::string good = read_text(path);
  const auto must = [&](int result) {
    if (result != 0) throw std::runtime_error("can't damage " + path.string() + ": " + name(damage));
  };
  if (damage >= Damage::deleted && damage <= Damage::fifo) std::filesystem::remove(path);
  const std::string copy = outside + "/" + path.filename().string();
  std::string flipped = good;
  flipped[good.size() / 2] = static_cast<char>(good[good.size() / 2] ^ 4);
  switch (damage) {
    case Damage::emptied:
      return put_file(path, "");
    case Damage::cut:
      return put_file(path, good.substr(0, good.size() / 2));
    case Damage::flipped:
      return put_file(path, flipped);
    case Damage::extended:
      return put_file(path, good + "x");
    case Damage::deleted:
      return;
    case Damage::directory:
      return must(::mkdir(path.c_str(), 0700));
    case Damage::dangling:
      return must(::symlink("nowhere", path.c_str()));
    case Damage::linked:
      put_file(copy, good);
      return must(::symlink(copy.c_str(), path.c_str()));
    case Damage::fifo:
      return must(::mkfifo(path.c_str(), 0600));
    case Damage::writable:
      return must(::chmod(path.c_str(), 0666));
    case Damage::foreign:
      return must(::chown(path.c_str(), 12345, 12345));
  }
}

}  // namespace msj::testing
