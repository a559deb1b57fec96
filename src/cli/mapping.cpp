#include "cli/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <utility>

#include "cli/failure.h"
#include "cli/npy.h"
#include "cli/words.h"

namespace msj::cli {
namespace {

std::atomic<MappedPlace *> places{nullptr};  // all that were ever made: the handler may be on its way through them
std::mutex free_places_mutex;
MappedPlace *free_places = nullptr;

}  // namespace

// What the handler may read of a mapping; nothing is mapped there while `end` is 0.
struct MappedPlace {
  std::atomic<const std::string *> sentence{nullptr};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  MappedPlace *next = nullptr;       // fixed before others see the place
  MappedPlace *next_free = nullptr;  // the handler takes no lock, so it does not look at it
};

namespace {

MappedPlace *take_place() {
  {
    const std::lock_guard lock(free_places_mutex);
    if (free_places != nullptr) return std::exchange(free_places, free_places->next_free);
  }
  auto *const place = new MappedPlace;  // NOLINT(cppcoreguidelines-owning-memory): the list's, for good
  place->next = places;
  while (!places.compare_exchange_weak(place->next, place)) {
  }
  return place;
}

MappedPlace *add_place(const void *address, std::size_t size, const std::string &sentence) {
  MappedPlace *const place = take_place();
  place->sentence = &sentence;
  place->begin = reinterpret_cast<std::uintptr_t>(address);
  place->end = place->begin + size;
  return place;
}

void remove_place(MappedPlace *place) {
  place->end = 0;
  place->begin = 0;
  place->sentence = nullptr;
  const std::lock_guard lock(free_places_mutex);
  place->next_free = std::exchange(free_places, place);
}

void on_bus_error(int signal, siginfo_t *info, void *) {
  if (info->si_code <= 0) {  // sent by someone: no address is meant
    ::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const MappedPlace *place = places; place != nullptr; place = place->next) {
    if (address < place->begin || address >= place->end) continue;
    static std::atomic_flag is_said;  // other threads may fault as well, in this file or another
    while (is_said.test_and_set()) ::pause();
    const std::string &sentence = *place->sentence;
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
  place_ = add_place(address_, size, sentence_);
}

Mapping::~Mapping() {
  if (size_ == 0) return;
  remove_place(place_);
  ::munmap(address_, size_);
}

void explain_truncated_files() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace msj::cli
