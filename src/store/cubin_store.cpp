#include "store/cubin_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/kind.h"
#include "store/path.h"

namespace msj::store {

namespace {

std::string relative_path(std::string_view hash) {
  return fmt::format("{}/{}/{}{}", kCubins, hash.substr(0, 2), hash, kCubinEnding);
}

// The hash that a path is for; "" if it is no cubin's.
std::string hash_of(std::string_view relative) {
  std::string_view name = name_of(relative);
  if (!name.ends_with(kCubinEnding)) return {};
  name.remove_suffix(kCubinEnding.size());
  return is_cubin_hash(name) && relative == relative_path(name) ? std::string(name) : std::string();
}

// Decodes, and makes sure that it is the cubin that was asked for: a file may have been renamed.
std::optional<CubinFile> decode_as(std::string_view hash, std::string_view bytes, const CubinCheck &check,
                                   std::string &why) {
  std::optional<CubinFile> file = decode_cubin(bytes, why);
  if (file && file->hash != hash) {
    why = fmt::format("holds the cubin {}", file->hash);
    file.reset();
  }
  if (file && check) why = check(*file);
  return file;
}

}  // namespace

std::string cubin_problem(std::string_view relative, std::string_view bytes, const CubinCheck &check) {
  const std::string hash = hash_of(relative);
  if (hash.empty()) return "is not where a cubin belongs";
  std::string why;
  (void)decode_as(hash, bytes, check, why);
  return why;
}

std::optional<CubinFile> CubinStore::read(const std::string &hash, const CubinCheck &check, bool is_use) {
  std::optional<CubinFile> file;
  const auto decoded = [&](std::string_view bytes) {
    std::string why;
    file = decode_as(hash, bytes, check, why);
    return why;
  };
  const bool found = root_.read(relative_path(hash), nullptr, {.check = decoded, .is_use = is_use}).has_value();
  return found ? std::move(file) : std::nullopt;
}

std::optional<CubinFile> CubinStore::load(const std::string &hash, std::string_view key) {
  if (!is_cubin_hash(hash)) return std::nullopt;
  const auto check = [&](const CubinFile &file) -> std::string {
    if (key.empty() || file.key == key) return {};
    return "was made from another specialization than its name says";
  };
  return read(hash, check, true);
}

void CubinStore::save(const CubinFile &file) {
  const std::string bytes = encode_cubin(file);
  const std::string relative = relative_path(file.hash);
  if (!root_.publish(relative, bytes)) return;
  log_.debug("cache: kept cubin " + relative);
  if ((room_ -= static_cast<std::int64_t>(bytes.size())) < 0) evict(relative);
}

// One thread at a time looks at the directory; the others rely on it. The room it leaves is a part of what is free, as
// other processes save too.
void CubinStore::evict(const std::string &relative) {
  const std::unique_lock evicting(evicting_, std::try_to_lock);
  if (!evicting) return;
  const std::int64_t total = root_.evict(std::string(kCubins), root_.limit_bytes(), relative);
  room_ = std::max<std::int64_t>(0, (root_.limit_bytes() - total) / 8);
}

void CubinStore::remove(const std::string &hash) {
  if (is_cubin_hash(hash) && root_.remove(relative_path(hash))) log_.debug("cache: removed cubin " + hash);
}

std::vector<CubinFile> CubinStore::list(const CubinCheck &check) {
  std::vector<CubinFile> files;
  for (const std::string &relative : root_.list(std::string(kCubins))) {
    const std::string hash = hash_of(relative);
    std::optional<CubinFile> file = hash.empty() ? std::nullopt : read(hash, check, false);
    if (!file) continue;
    file->cubin.clear();
    file->cubin.shrink_to_fit();
    files.push_back(std::move(*file));
  }
  return files;
}

}  // namespace msj::store
