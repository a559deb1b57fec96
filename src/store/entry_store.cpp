#include "store/entry_store.h"

#include <fmt/format.h>

#include "store/kind.h"
#include "store/path.h"

namespace msj::store {

namespace {

constexpr std::string_view kAutotune = "autotune";

std::string relative_path(const std::string &environment, const std::string &op, const std::string &key) {
  return fmt::format("{}/{}/{}/{}/{}{}", kFormat, environment, kAutotune, op, key, kEntryEnding);
}

// The entry that a path is for, without its text; nullopt if it is none's.
std::optional<EntryFile> parse_path(const std::string &relative) {
  const std::vector<std::string> names = split(relative);
  if (names.size() != 5 || names[2] != kAutotune || !names[4].ends_with(kEntryEnding)) return std::nullopt;
  EntryFile file;
  file.environment = names[1];
  file.op = names[3];
  file.key = names[4].substr(0, names[4].size() - kEntryEnding.size());
  return file;
}

}  // namespace

std::optional<EntryFile> EntryStore::load(const std::string &environment, const std::string &op, const std::string &key,
                                          const Check &check) {
  EntryFile file{environment, op, key, {}, {}};
  std::optional<std::string> text =
      root_.read(relative_path(environment, op, key), &file.path, {.check = check, .is_use = true});
  if (!text) return std::nullopt;
  file.text = std::move(*text);
  return file;
}

void EntryStore::save(const EntryFile &file) {
  const std::string relative = relative_path(file.environment, file.op, file.key);
  if (root_.publish(relative, file.text)) log_.debug("cache: kept entry " + relative);
}

std::vector<EntryFile> EntryStore::list(const PlacedCheck &check) {
  std::vector<EntryFile> files;
  for (const std::string &relative : root_.list(std::string(kFormat))) {
    std::optional<EntryFile> file = parse_path(relative);
    if (!file) continue;
    const auto placed = [&](std::string_view bytes) { return check ? check(relative, bytes) : Verdict(); };
    std::optional<std::string> text = root_.read(relative, &file->path, {.check = placed, .or_passed_over = true});
    if (!text) continue;
    file->text = std::move(*text);
    files.push_back(std::move(*file));
  }
  return files;
}

}  // namespace msj::store
