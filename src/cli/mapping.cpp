#include "cli/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>

#include "cli/failure.h"
#include "cli/npy.h"
#include "cli/words.h"

namespace msj::cli {
namespace {

// What the handler may read: a place for each mapping, free while `sentence` is null. More mappings than places are
// mapped all the same, and not explained.
struct Place {
  std::atomic<const std::string *> sentence{nullptr};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
};
std::array<Place, 32> places;

void add_place(const void *address, std::size_t size, const std::string &sentence) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (Place &place : places) {
    const std::string *free = nullptr;
    if (!place.sentence.compare_exchange_strong(free, &sentence)) continue;
    place.begin = begin;
    place.end = begin + size;
    return;
  }
}

void remove_place(const std::string &sentence) {
  for (Place &place : places) {
    if (place.sentence != &sentence) continue;
    place.end = 0;
    place.begin = 0;
    place.sentence = nullptr;
  }
}

void on_bus_error(int signal, siginfo_t *info, void *) {
  if (info->si_code <= 0) {  // sent by someone: no address is meant
    ::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Place &place : places) {
    if (address < place.begin || address >= place.end) continue;
    static std::atomic_flag is_said;  // other threads may fault as well, in this file or another
    while (is_said.test_and_set()) ::pause();
    const std::string &sentence = *place.sentence;
    (void)!::write(STDERR_FILENO, sentence.data(), sentence.size());
    ::_exit(kExitFailed);
  }
  ::signal(signal, SIG_DFL);  // the same access faults again
}

}  // namespace

Mapping::Mapping(int descriptor, std::size_t size, std::string_view file)
    : size_(size),
      sentence_(
          fmt::format("maxsim-jit: {}\n",
                      printable(fmt::format("{}: the file became shorter while it was read, or its disk failed; a "
                                            "file that nobody changes is accepted",
                                            file)))) {
  if (size == 0) return;
  address_ = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address_ == MAP_FAILED) {
    npy_failure(file, "the file cannot be mapped: {}", std::generic_category().message(errno));
  }
  add_place(address_, size, sentence_);
}

Mapping::~Mapping() {
  if (size_ == 0) return;
  remove_place(sentence_);
  ::munmap(address_, size_);
}

void explain_truncated_files() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace msj::cli
