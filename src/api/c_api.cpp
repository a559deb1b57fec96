// The C ABI: checks handles and structs, calls the pipeline, and is the one place that turns exceptions into statuses.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "api/context.h"
#include "api/documents.h"
#include "base/error.h"
#include "base/float_environment.h"
#include "cuda/buffer.h"
#include "cuda/reach.h"
#include "maxsim_jit/maxsim_jit.h"
#include "ops/bind.h"
#include "ops/registry.h"
#include "text/path_limit.h"
#include "text/printable.h"

namespace {

using msj::throw_error;

// The sentence of this thread's last call: part of the ABI's contract, and the library's only per-thread state.
std::string &last_error() {
  thread_local std::string sentence;
  return sentence;
}

msj_status fail(msj_status status, const char *sentence) noexcept {
  try {
    last_error() = msj::printable(sentence);  // a caller's names, and a file system's, may hold any bytes
  } catch (...) {
    last_error().clear();  // no memory for the sentence: the status still tells
  }
  return status;
}

// Exceptions become statuses. The floating-point environment stays the caller's: for calls that count microseconds.
template <typename Body>
msj_status caught(const Body &body) noexcept {
  last_error().clear();
  try {
    body();
    return MSJ_OK;
  } catch (const msj::Error &error) {
    return fail(error.status(), error.what());
  } catch (const std::bad_alloc &) {
    return fail(MSJ_ERROR_OUT_OF_MEMORY, "host memory ran out");
  } catch (const std::exception &error) {
    return fail(MSJ_ERROR_INTERNAL, error.what());
  } catch (...) {
    return fail(MSJ_ERROR_INTERNAL, "an exception of unknown type: a defect of this library");
  }
}

template <typename Body>
msj_status guarded(const Body &body) noexcept {
  const msj::DefaultFloatEnvironment ours;
  return caught(body);
}

msj_context &checked(msj_context *context) {
  if (context == nullptr) throw_error(MSJ_ERROR_INVALID_ARGUMENT, "context is null; msj_context_create makes one");
  if (context->magic != msj::api::kContextMagic) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "context is no live msj_context: it was destroyed, or is another handle");
  }
  return *context;
}

const msj::ops::Ready *checked_plan(const msj_plan *plan, const msj_context &context) {
  if (plan == nullptr) return nullptr;
  if (plan->magic != msj::api::kPlanMagic) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "plan is no live msj_plan: it was destroyed, or is another handle");
  }
  if (plan->owner != &context)
    throw_error(MSJ_ERROR_PLAN_MISMATCH, "plan was made by another context than this call's");
  return plan->ready;
}

template <typename Pointer>
void need(Pointer *pointer, const char *name) {
  if (pointer == nullptr) throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} is null; a place for the result is needed", name);
}

void need_zero(std::int32_t field) {
  if (field != 0) throw_error(MSJ_ERROR_INVALID_ARGUMENT, "options.zero is {}; 0 is accepted", field);
}

// A negative size, converted, or a sum that went wrong.
void need_countable(std::size_t bytes) {
  if (std::in_range<std::ptrdiff_t>(bytes)) return;
  throw_error(MSJ_ERROR_INVALID_ARGUMENT, "bytes is {}, or {} as a signed number; at most {} is accepted", bytes,
              static_cast<std::ptrdiff_t>(bytes), std::numeric_limits<std::ptrdiff_t>::max());
}

[[noreturn]] void refuse_allocation(const msj::cuda::Driver &driver, std::int32_t device, std::size_t bytes) {
  std::size_t free = 0;
  std::size_t total = 0;
  driver.check(driver.MemGetInfo(&free, &total), "asking for the free memory");
  throw_error(MSJ_ERROR_OUT_OF_MEMORY, "bytes is {}; device {} has {} of its {} bytes free", bytes, device, free,
              total);
}

msj_call read_call(const msj_call *call) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): the size of a member that is a pointer
  return msj::ops::read_struct(call, MSJ_SIZE_UP_TO(msj_call, plan), "call");
}

bool is_cpu(const msj_call &call) {
  if (call.device < 0 && call.device != MSJ_DEVICE_CPU) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "device is {}; a CUDA ordinal from 0, or MSJ_DEVICE_CPU, is accepted",
                call.device);
  }
  return call.device == MSJ_DEVICE_CPU;
}

msj::ops::LaunchSite site_of(const msj_call &call, const msj::ops::Ready *plan) {
  return {call.device, call.stream, call.workspace, call.workspace_size, plan};
}

std::string_view text_or_empty(const char *text) { return text == nullptr ? std::string_view() : text; }

std::string_view op_filter(const char *op) {
  const std::string_view wanted = text_or_empty(op);
  if (wanted.empty() || msj::ops::find_op(wanted) != nullptr) return wanted;
  throw_error(MSJ_ERROR_INVALID_ARGUMENT, "options.op is {}, which is no op", msj::in_quotes(wanted));
}

std::string architecture_filter(const char *arch) {
  return arch == nullptr ? std::string() : msj::cuda::parse_architecture(arch).name;
}

std::string file_name(const char *file) {
  const std::string_view name = text_or_empty(file);
  if (name.empty()) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "file is {}; the path of a file is accepted",
                file == nullptr ? "null" : "empty");
  }
  if (name.size() > msj::kMostPathBytes) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "file is {}; a path of at most {} bytes is accepted", msj::in_quotes(name),
                msj::kMostPathBytes);
  }
  return std::string(name);
}

void give_string(const std::string &text, char **out) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the caller's, until msj_string_free
  auto *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  *out = copy;
}

// The layout classes that a prepare asks for.
std::vector<msj::Layout> layouts_of(std::int32_t option, msj::Layout of_call) {
  switch (option) {
    case MSJ_LAYOUT_OF_CALL:
      return {of_call};
    case MSJ_LAYOUT_ALIGNED16:
      return {msj::Layout::aligned16};
    case MSJ_LAYOUT_ANY:
      return {msj::Layout::any};
    case MSJ_LAYOUT_BOTH:
      return {msj::Layout::aligned16, msj::Layout::any};
    default:
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "options.layout is {}; an MSJ_LAYOUT_* is accepted", option);
  }
}

void prepare(msj_context &context, const msj_call &call, const msj_prepare_options &options, msj_plan **plan) {
  msj::BoundCall bound = msj::ops::bind(call, msj::ops::DataRule::ignored);
  const auto layouts = layouts_of(options.layout, bound.layout);
  if (options.gpu != nullptr && options.arch == nullptr) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "options.gpu is {} without options.arch; both are needed",
                msj::in_quotes(options.gpu));
  }
  if (plan != nullptr && (options.arch != nullptr || layouts.size() != 1 || is_cpu(call))) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT,
                "plan is wanted from a call that loads no single specialization: it needs a CUDA device, no "
                "options.arch, and one layout class");
  }
  for (const msj::Layout layout : layouts) {
    bound.layout = layout;
    if (options.arch != nullptr) {
      context.pipeline.prepare_ahead(bound, msj::cuda::parse_architecture(options.arch), text_or_empty(options.gpu));
    } else if (!is_cpu(call)) {
      const auto *ready = context.pipeline.prepare(bound, site_of(call, nullptr));
      if (plan != nullptr)
        *plan = std::make_unique<msj_plan>(msj_plan{msj::api::kPlanMagic, &context, ready}).release();
    }
  }
}

msj::ops::Pipeline::MeasureWish measure_wish(const msj_measure_options *options) {
  constexpr std::int32_t kMostRounds = 10'000;
  if (options == nullptr) return {};
  const auto wanted = msj::ops::read_struct(options, MSJ_SIZE_UP_TO(msj_measure_options, rounds), "options");
  if (wanted.rounds < 0 || wanted.rounds > kMostRounds) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "options.rounds is {}; 0 to {} is accepted", wanted.rounds, kMostRounds);
  }
  return {.ceilings = wanted.ceilings != 0, .least_rounds = wanted.rounds};
}

}  // namespace

extern "C" {

msj_status msj_run(msj_context *context, const msj_call *call) {
  return caught([&] {  // of all that follows only the reference and what a cold call does have numbers to round
    msj_context &live = checked(context);
    const msj_call given = read_call(call);
    const msj::BoundCall bound = msj::ops::bind(given, msj::ops::DataRule::needed);
    if (given.plan == nullptr) msj::ops::check_results_apart(bound);
    if (is_cpu(given)) {
      if (given.plan != nullptr) throw_error(MSJ_ERROR_PLAN_MISMATCH, "plan is given; MSJ_DEVICE_CPU runs without one");
      const msj::DefaultFloatEnvironment ours;
      if (!msj::ops::has_no_result(bound)) msj::ops::find_op(given.op)->reference(bound);
      return;
    }
    live.pipeline.run(bound, site_of(given, checked_plan(given.plan, live)));
  });
}

msj_status msj_workspace_size(msj_context *context, const msj_call *call, size_t *bytes) {
  return guarded([&] {
    msj_context &live = checked(context);
    need(bytes, "bytes");
    *bytes = 0;
    const msj_call given = read_call(call);
    const msj::BoundCall bound = msj::ops::bind(given, msj::ops::DataRule::ignored);
    if (!is_cpu(given)) *bytes = live.pipeline.workspace_size(bound, given.device);
  });
}

msj_status msj_prepare(msj_context *context, const msj_call *call, const msj_prepare_options *options,
                       msj_plan **plan) {
  return guarded([&] {
    if (plan != nullptr) *plan = nullptr;
    msj_context &live = checked(context);
    msj_prepare_options wanted{};
    if (options != nullptr) {
      wanted = msj::ops::read_struct(options, MSJ_SIZE_UP_TO(msj_prepare_options, zero), "options");
    }
    need_zero(wanted.zero);
    prepare(live, read_call(call), wanted, plan);
  });
}

msj_status msj_plan_destroy(msj_plan *plan) {
  return guarded([&] {
    if (plan == nullptr) return;
    if (plan->magic != msj::api::kPlanMagic) throw_error(MSJ_ERROR_INVALID_ARGUMENT, "plan is no live msj_plan");
    static_cast<volatile std::uint64_t &>(plan->magic) = 0;  // so that a second destroy is seen, where it can be
    const std::unique_ptr<msj_plan> owned(plan);
  });
}

msj_status msj_context_create(const msj_context_options *options, msj_context **context) {
  return guarded([&] {
    need(context, "context");
    *context = nullptr;
    msj_context_options wanted{};
    if (options != nullptr) {
      wanted = msj::ops::read_struct(options, MSJ_SIZE_UP_TO(msj_context_options, progress_user), "options");
    }
    *context = std::make_unique<msj_context>(wanted).release();  // msj_context_destroy owns it
  });
}

msj_status msj_context_destroy(msj_context *context) {
  return guarded([&] {
    if (context == nullptr) return;
    const std::unique_ptr<msj_context> owned(&checked(context));
  });
}

msj_status msj_freeze(msj_context *context, int32_t frozen) {
  return guarded([&] { checked(context).pipeline.freeze(frozen != 0); });
}

msj_status msj_stats(msj_context *context, msj_counters *counters) {
  return guarded([&] {
    msj_context &live = checked(context);
    msj::ops::check_struct(counters, sizeof(msj_counters), MSJ_SIZE_UP_TO(msj_counters, launches), "counters");
    msj_counters now{};
    now.struct_size = counters->struct_size;
    live.pipeline.counters().snapshot(now);
    std::memcpy(counters, &now, std::min(counters->struct_size, sizeof now));
  });
}

msj_status msj_measure(msj_context *context, const msj_call *call, const msj_measure_options *options, char **json) {
  return guarded([&] {
    msj_context &live = checked(context);
    need(json, "json");
    *json = nullptr;
    const msj::ops::Pipeline::MeasureWish wish = measure_wish(options);
    const msj_call given = read_call(call);
    const msj::BoundCall bound = msj::ops::bind(given, msj::ops::DataRule::ignored);
    if (is_cpu(given)) throw_error(MSJ_ERROR_INVALID_ARGUMENT, "device is MSJ_DEVICE_CPU; a CUDA device is accepted");
    if (msj::ops::has_no_result(bound)) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "the results of this call have no element; there is nothing to time");
    }
    give_string(msj::api::measure(live.pipeline, bound, site_of(given, nullptr), wish), json);
  });
}

msj_status msj_inspect(msj_context *context, const msj_inspect_options *options, char **json) {
  return guarded([&] {
    msj_context &live = checked(context);
    need(json, "json");
    *json = nullptr;
    msj_inspect_options wanted{};
    if (options != nullptr) {
      wanted = msj::ops::read_struct(options, MSJ_SIZE_UP_TO(msj_inspect_options, zero), "options");
    }
    need_zero(wanted.zero);
    const auto op = op_filter(wanted.op);
    const std::string arch = architecture_filter(wanted.arch);
    give_string(wanted.cubins != 0 ? msj::api::inspect_cubins(live.pipeline, op, arch)
                                   : msj::api::inspect_entries(live.pipeline, op, arch),
                json);
  });
}

msj_status msj_describe(char **json) {
  return guarded([&] {
    need(json, "json");
    *json = nullptr;
    give_string(msj::api::describe(), json);
  });
}

msj_status msj_doctor(msj_context *context, char **json) {
  return guarded([&] {
    msj_context &live = checked(context);
    need(json, "json");
    *json = nullptr;
    give_string(msj::api::doctor(live.pipeline), json);
  });
}

msj_status msj_cache(msj_context *context, int32_t action, char **json) {
  return guarded([&] {
    msj_context &live = checked(context);
    need(json, "json");
    *json = nullptr;
    switch (action) {
      case MSJ_CACHE_PATH:
        return give_string(msj::api::cache_path(live.pipeline), json);
      case MSJ_CACHE_VERIFY:
        return give_string(msj::api::cache_verify(live.pipeline), json);
      case MSJ_CACHE_CLEAR:
        return give_string(msj::api::cache_clear(live.pipeline), json);
      case MSJ_CACHE_PRUNE:
        return give_string(msj::api::cache_prune(live.pipeline), json);
      default:
        throw_error(MSJ_ERROR_INVALID_ARGUMENT, "action is {}; an MSJ_CACHE_* is accepted", action);
    }
  });
}

msj_status msj_cache_export(msj_context *context, const msj_export_options *options, const char *file, char **json) {
  return guarded([&] {
    msj_context &live = checked(context);
    need(json, "json");
    *json = nullptr;
    msj_export_options wanted{};
    if (options != nullptr) {
      wanted = msj::ops::read_struct(options, MSJ_SIZE_UP_TO(msj_export_options, arch), "options");
    }
    const auto op = op_filter(wanted.op);
    const std::string arch = architecture_filter(wanted.arch);
    give_string(msj::api::cache_export(live.pipeline, file_name(file), op, arch), json);
  });
}

msj_status msj_cache_import(msj_context *context, const char *file, char **json) {
  return guarded([&] {
    msj_context &live = checked(context);
    need(json, "json");
    *json = nullptr;
    give_string(msj::api::cache_import(live.pipeline, file_name(file)), json);
  });
}

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory)
void msj_string_free(char *string) { std::free(string); }

msj_status msj_device_alloc(msj_context *context, int32_t device, size_t bytes, void **memory) {
  return guarded([&] {
    msj_context &live = checked(context);
    need(memory, "memory");
    *memory = nullptr;
    need_countable(bytes);
    if (bytes == 0) return;
    const auto driver = live.pipeline.driver();
    const msj::cuda::ContextGuard current(*driver, live.pipeline.primary_context(live.pipeline.device(device).ordinal));
    const msj::cuda::RelaxedCapture relaxed(*driver);
    CUdeviceptr pointer = 0;
    const CUresult result = driver->MemAlloc(&pointer, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) refuse_allocation(*driver, device, bytes);
    driver->check(result, fmt::format("allocating {} bytes", bytes));
    *memory = reinterpret_cast<void *>(pointer);
  });
}

msj_status msj_device_free(msj_context *context, int32_t device, void *memory) {
  return guarded([&] {
    msj_context &live = checked(context);
    if (memory == nullptr) return;
    const auto driver = live.pipeline.driver();
    const msj::cuda::ContextGuard current(*driver, live.pipeline.primary_context(live.pipeline.device(device).ordinal));
    const msj::cuda::RelaxedCapture relaxed(*driver);
    msj::cuda::require_in_reach(*driver, device, memory, "memory");
    driver->check(driver->MemFree(reinterpret_cast<CUdeviceptr>(memory)), "freeing device memory");
  });
}

msj_status msj_device_copy(msj_context *context, int32_t device, void *to, const void *from, size_t bytes,
                           int32_t direction) {
  return guarded([&] {
    msj_context &live = checked(context);
    if (direction != MSJ_COPY_TO_DEVICE && direction != MSJ_COPY_TO_HOST) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "direction is {}; an MSJ_COPY_* is accepted", direction);
    }
    need_countable(bytes);
    if (bytes == 0) return;
    need(to, "to");
    if (from == nullptr) throw_error(MSJ_ERROR_INVALID_ARGUMENT, "from is null; {} bytes are to be copied", bytes);
    const auto driver = live.pipeline.driver();
    const msj::cuda::ContextGuard current(*driver, live.pipeline.primary_context(live.pipeline.device(device).ordinal));
    const msj::cuda::RelaxedCapture relaxed(*driver);
    const bool up = direction == MSJ_COPY_TO_DEVICE;
    msj::cuda::require_in_reach(*driver, device, up ? to : from, up ? "to" : "from");
    if (up) {
      driver->check(driver->MemcpyHtoD(reinterpret_cast<CUdeviceptr>(to), from, bytes), "copying to the device");
    } else {
      driver->check(driver->MemcpyDtoH(to, reinterpret_cast<CUdeviceptr>(from), bytes), "copying to the host");
    }
  });
}

const char *msj_last_error(void) { return last_error().c_str(); }

#define MSJ_TEXT_OF(value) #value
#define MSJ_TEXT(value) MSJ_TEXT_OF(value)
const char *msj_version(void) {
  return MSJ_TEXT(MSJ_VERSION_MAJOR) "." MSJ_TEXT(MSJ_VERSION_MINOR) "." MSJ_TEXT(MSJ_VERSION_PATCH);
}

}  // extern "C"
