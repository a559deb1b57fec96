#include "cli/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cli/failure.h"
#include "file/output_place.h"

namespace msj::cli {
namespace {

[[noreturn]] void refuse_writing(const std::filesystem::path &target, int error) {
  throw std::runtime_error(
      fmt::format("{}: the file cannot be written: {}", target.native(), std::generic_category().message(error)));
}

// The directory itself is read for nothing but its fsync: who may not read it may still make files in it.
FileDescriptor opened_folder(const std::filesystem::path &target) {
  const std::filesystem::path folder = folder_of(target);
  FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) opened = FileDescriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) refuse_writing(target, errno);
  return opened;
}

// Whom a file that is replaced was open to, the new one stays open to.
std::optional<mode_t> mode_of(const std::filesystem::path &target) {
  struct stat replaced {};
  if (::stat(target.c_str(), &replaced) != 0) return std::nullopt;
  return replaced.st_mode & 0777;
}

}  // namespace

std::filesystem::path output_target(const std::filesystem::path &path) {
  OutputPlace place = output_place(path);
  if (!place.problem.empty()) failure("{}: the output cannot be written: {}", path.native(), place.problem);
  return std::move(place.path);
}

void check_output_file(const std::string &file) {
  namespace fs = std::filesystem;
  const fs::path target = output_target(file);
  std::error_code error, ignored;
  const auto status = fs::status(target, error);
  if (!fs::status_known(status)) failure("{}: the output cannot be written: {}", file, error.message());
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    failure("{}: the output exists and is no regular file; a new or a regular file is accepted", file);
  }
  const fs::path parent = folder_of(target);
  if (!fs::is_directory(parent, ignored)) failure("{}: there is no directory {}", file, parent.native());
  if (::access(parent.c_str(), W_OK) != 0) {
    failure("{}: the directory {} cannot be written: {}", file, parent.native(),
            std::generic_category().message(errno));
  }
}

int NewFile::Calls::open(int directory, const std::string &name, int flags, mode_t made) const {
  const int descriptor = PosixCalls::open(directory, name, flags, made);
  if (descriptor >= 0 && mode) (void)::fchmod(descriptor, *mode);
  return descriptor;
}

NewFile::NewFile(std::filesystem::path target, Temporary kind)
    : target_(std::move(target)),
      folder_(opened_folder(target_)),
      staged_({{}, mode_of(target_)}, folder_.get(), 0666, kind) {
  refuse(staged_.failure());
}

void NewFile::write(std::span<const std::byte> data) {
  staged_.write({reinterpret_cast<const char *>(data.data()), data.size()});
  refuse(staged_.failure());
}

void NewFile::sync() {
  staged_.sync();
  refuse(staged_.failure());
}

void NewFile::publish() {
  refuse(staged_.publish(target_.filename().native()));
  (void)staged_.sync_directory();  // the file is in its place
}

void NewFile::refuse(const FileFailure &failure) const {
  if (failure.error != 0) refuse_writing(target_, failure.error);
}

}  // namespace msj::cli
