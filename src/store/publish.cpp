#include "store/publish.h"

#include <fmt/format.h>

#include <cerrno>

namespace msj::store {

namespace {

constexpr mode_t kFileMode = 0600;

Published failed(const FileFailure &failure) {
  const std::string on = failure.step.empty() ? std::string() : fmt::format(" (on {})", failure.step);
  return {false, fmt::format("can't be written{}: {}", on, error_text(failure.error)), failure.error};
}

}  // namespace

Published NewFile::failure() const { return staged_.failure().error == 0 ? Published() : failed(staged_.failure()); }

// An empty directory is in the way of a rename, and holds nothing that anybody could miss; one that holds something
// stays.
Published NewFile::put_in_place(const std::string &name) {
  staged_.sync();
  FileFailure failure = staged_.publish(name);
  if (failure.error == EISDIR && files_.remove_directory(folder_.handle.get(), name) >= 0) {
    failure = staged_.publish(name);
  }
  if (failure.error != 0) return failed(failure);
  const int synced = staged_.sync_directory();
  Published result = synced < 0 ? failed({-synced, "fsync of its directory"}) : Published();
  result.done = true;
  return result;
}

Published publish_file(Files &files, const Opened &folder, const std::string &name, std::string_view bytes) {
  if (static_cast<std::int64_t>(bytes.size()) > kMaxFileBytes) return failed({EFBIG});
  NewFile file(files, folder, kFileMode, Temporary::named);
  file.write(bytes);
  return file.put_in_place(name);
}

bool is_temporary(std::string_view name) { return name.starts_with(kTemporaryPrefix); }

}  // namespace msj::store
