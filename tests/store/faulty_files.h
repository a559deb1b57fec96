// The real file system, but the n-th call of one kind fails with a given errno. Also counts what is left open, does
// short reads and writes, and can pretend to be another user.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "store/files.h"

namespace msj::store {

enum class FileCall : int {
  open,
  close,
  read,
  write,
  sync,
  status,
  status_at,
  read_link,
  list,
  make_directory,
  rename,
  remove,
  remove_directory,
  touch,
  may_write,
  lock,
  link,  // the last: of archives alone
};
inline constexpr int kFileCalls = 17;
inline constexpr int kCacheCalls = kFileCalls - 1;
inline constexpr std::array<std::string_view, kFileCalls> kFileCallNames = {"open",
                                                                            "close",
                                                                            "read",
                                                                            "write",
                                                                            "sync",
                                                                            "status",
                                                                            "status_at",
                                                                            "read_link",
                                                                            "list",
                                                                            "make_directory",
                                                                            "rename",
                                                                            "remove",
                                                                            "remove_directory",
                                                                            "touch",
                                                                            "may_write",
                                                                            "lock",
                                                                            "link"};

class FaultyFiles : public Files {
 public:
  // Fails the n-th call of this kind from now on (n = 1: the next one), and with `forever` all later ones.
  void fail(FileCall call, int nth, int error, bool forever = false) {
    call_ = call;
    nth_ = nth;
    error_ = error;
    forever_ = forever;
    for (auto &count : counts_) count = 0;
    hits_ = 0;
  }
  void heal() { nth_ = 0; }

  [[nodiscard]] int hits() const { return hits_; }
  [[nodiscard]] int count(FileCall call) const { return counts_[static_cast<std::size_t>(call)]; }
  [[nodiscard]] int left_open() const { return open_; }
  void set_user(uid_t user) { user_ = user; }
  void set_short_transfers(bool on) { short_ = on; }

  int open(int directory, const std::string &name, int flags, mode_t mode) override {
    if (const int error = fault(FileCall::open)) return error;
    const int descriptor = real_->open(directory, name, flags, mode);
    if (descriptor >= 0) ++open_;
    return descriptor;
  }
  int close(int descriptor) override {
    --open_;
    const int closed = real_->close(descriptor);  // as Linux: closed even where it reports an error
    const int error = fault(FileCall::close);
    return error != 0 ? error : closed;
  }
  ssize_t read(int descriptor, char *bytes, std::size_t count) override {
    if (const int error = fault(FileCall::read)) return error;
    return real_->read(descriptor, bytes, cut(count));
  }
  ssize_t read_at(int descriptor, char *bytes, std::size_t count, std::uint64_t offset) override {
    if (const int error = fault(FileCall::read)) return error;
    return real_->read_at(descriptor, bytes, cut(count), offset);
  }
  ssize_t write(int descriptor, const char *bytes, std::size_t count) override {
    if (const int error = fault(FileCall::write)) {
      (void)real_->write(descriptor, bytes, count / 2);  // a disk fills up in the middle
      return error;
    }
    return real_->write(descriptor, bytes, cut(count));
  }
  int sync(int) override { return fault(FileCall::sync); }  // no test can see what it does, but all would wait for it
  int status(int descriptor, struct stat &status) override {
    const int error = fault(FileCall::status);
    return error != 0 ? error : real_->status(descriptor, status);
  }
  int status_at(int directory, const std::string &name, struct stat &status) override {
    const int error = fault(FileCall::status_at);
    return error != 0 ? error : real_->status_at(directory, name, status);
  }
  int read_link(int link, std::string &target) override {
    const int error = fault(FileCall::read_link);
    return error != 0 ? error : real_->read_link(link, target);
  }
  int list(int directory, std::vector<std::string> &names) override {
    const int error = fault(FileCall::list);
    return error != 0 ? error : real_->list(directory, names);
  }
  int make_directory(int directory, const std::string &name, mode_t mode) override {
    const int error = fault(FileCall::make_directory);
    return error != 0 ? error : real_->make_directory(directory, name, mode);
  }
  int rename(int directory, const std::string &from, const std::string &to) override {
    const int error = fault(FileCall::rename);
    return error != 0 ? error : real_->rename(directory, from, to);
  }
  int link(int descriptor, int directory, const std::string &name) override {
    const int error = fault(FileCall::link);
    return error != 0 ? error : real_->link(descriptor, directory, name);
  }
  int remove(int directory, const std::string &name) override {
    const int error = fault(FileCall::remove);
    return error != 0 ? error : real_->remove(directory, name);
  }
  int remove_directory(int directory, const std::string &name) override {
    const int error = fault(FileCall::remove_directory);
    return error != 0 ? error : real_->remove_directory(directory, name);
  }
  int touch(int descriptor) override {
    const int error = fault(FileCall::touch);
    return error != 0 ? error : real_->touch(descriptor);
  }
  int may_write(int directory) override {
    const int error = fault(FileCall::may_write);
    return error != 0 ? error : real_->may_write(directory);
  }
  int may_make(int directory, const std::string &name) override {
    const int error = fault(FileCall::may_write);
    return error != 0 ? error : real_->may_make(directory, name);
  }
  int lock(int descriptor, int operation) override {
    const int error = fault(FileCall::lock);
    return error != 0 ? error : real_->lock(descriptor, operation);
  }
  uid_t user() override { return user_ == static_cast<uid_t>(-1) ? real_->user() : user_; }

 private:
  int fault(FileCall call) {
    const int count = ++counts_[static_cast<std::size_t>(call)];
    if (nth_ == 0 || call != call_ || !(count == nth_ || (forever_ && count > nth_))) return 0;
    ++hits_;
    return -error_;
  }
  [[nodiscard]] std::size_t cut(std::size_t count) const { return short_ && count > 7 ? 7 : count; }

  std::shared_ptr<Files> real_ = real_files();
  FileCall call_ = FileCall::open;
  int nth_ = 0;
  int error_ = 0;
  bool forever_ = false;
  bool short_ = false;
  uid_t user_ = static_cast<uid_t>(-1);
  std::array<std::atomic<int>, kFileCalls> counts_{};
  std::atomic<int> hits_{0};
  std::atomic<int> open_{0};
};

}  // namespace msj::store
