#include "ops/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "base/float_environment.h"
#include "cuda/launch.h"
#include "cuda/reach.h"
#include "jit/arguments.h"
#include "jit/tensor_maps.h"
#include "ops/bind.h"
#include "ops/registry.h"
#include "tune/event_timer.h"

namespace msj::ops {

namespace {

World with_defaults(World world) {
  if (!world.files) world.files = store::real_files();
  if (!world.now) world.now = utc_now;
  if (!world.make_timer) {
    world.make_timer = [](std::shared_ptr<const cuda::Driver> driver, Log &log) -> std::unique_ptr<tune::Timer> {
      return std::make_unique<tune::EventTimer>(std::move(driver), log);
    };
  }
  return world;
}

// In what a call differs from the one a plan was made for; "" if in nothing.
std::string plan_difference(const LaunchKey &plan, const LaunchKey &call) {
  if (plan.op != call.op) return fmt::format("op {}, the call is {}", plan.op->name, call.op->name);
  const OpSpec &op = *call.op;
  if (plan.device != call.device) return fmt::format("device {}, the call has {}", plan.device, call.device);
  if (plan.context_id != call.context_id) return "another CUDA context than the call's";
  if (plan.features != call.features) {
    return fmt::format("features [{}], the call has [{}]", fmt::join(feature_names(op, plan.features), ", "),
                       fmt::join(feature_names(op, call.features), ", "));
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (plan.dtypes[i] == call.dtypes[i]) continue;
    return fmt::format("{} of {}, the call has {}", op.operands[i].name, msj::name(plan.dtypes[i]),
                       msj::name(call.dtypes[i]));
  }
  if (plan.layout != call.layout) {
    return fmt::format("layout class {}, the call's is {}", name(plan.layout), name(call.layout));
  }
  const auto edge_text = [](std::int64_t edge) { return edge == tune::kMore ? "more" : fmt::format("{}", edge); };
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    if (plan.edges[i] == call.edges[i]) continue;
    return fmt::format("{} {} {}, the call's is {}", op.sizes[i].is_static ? "static size" : "bucket", op.sizes[i].name,
                       edge_text(plan.edges[i]), edge_text(call.edges[i]));
  }
  return {};
}

void require_key(const Ready &plan, const LaunchKey &call) {
  if (plan.key == call) return;
  throw_error(MSJ_ERROR_PLAN_MISMATCH, "plan was made for {}", plan_difference(plan.key, call));
}

void require_in_reach(const cuda::Driver &driver, const BoundCall &call, int device) {
  for (std::size_t i = 0; i < call.op->operands.size(); ++i) {
    const TensorView &tensor = call.operands[i];
    if (!tensor.present || !has_elements(tensor)) continue;
    cuda::require_in_reach(driver, device, tensor.data, call.op->operands[i].name);
  }
}

}  // namespace

Pipeline::Pipeline(Settings settings, Log &log, tune::Progress progress, World world)
    : settings_(std::move(settings)),
      log_(log),
      world_(with_defaults(std::move(world))),
      root_(settings_, world_.files, log),
      nvrtc_([this] { return cuda::Nvrtc::load(settings_); }),
      specializer_(settings_, root_, nvrtc_, counters_, log),
      tuner_({settings_, root_, specializer_, nvrtc_, counters_, log, std::move(progress), world_.now}) {
  for (const Op &op : all_ops()) buckets_.emplace_back(op.spec, tuner_.buckets().of(*op.spec));
}

Pipeline::~Pipeline() = default;

Pipeline::Gpu &Pipeline::gpu() {
  if (Gpu *ready = gpu_.load(std::memory_order_acquire)) return *ready;
  const DefaultFloatEnvironment ours;  // msj_run comes here, and to warm_up, in the caller's
  const std::scoped_lock lock(gpu_mutex_);
  if (!gpu_owner_) {
    gpu_owner_ = std::make_unique<Gpu>(cuda::Driver::load(settings_));
    gpu_.store(gpu_owner_.get(), std::memory_order_release);
  }
  return *gpu_owner_;
}

const cuda::DeviceInfo &Pipeline::device(int ordinal) {
  const auto driver = gpu().driver;
  const std::scoped_lock lock(devices_mutex_);
  auto &info = devices_[ordinal];
  if (!info) info = std::make_unique<const cuda::DeviceInfo>(cuda::query_device(*driver, ordinal));
  return *info;
}

// ---- keys ----------------------------------------------------------------------------------------------------------

tune::ShapeBucket Pipeline::bucket(const BoundCall &call) const {
  const auto of_op = std::find_if(buckets_.begin(), buckets_.end(), [&](const auto &b) { return b.first == call.op; });
  return of_op->second.bucket(call.sizes);
}

tune::AutotuneKey Pipeline::autotune_key(const BoundCall &call) const {
  std::array<DType, kMaxOperands> own{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < call.op->operands.size(); ++i) {
    if (call.op->operands[i].dtype.kind == DtypeRule::Kind::own) own[count++] = call.operands[i].dtype;
  }
  return {*call.op, bucket(call), tune::DtypeTuple(*call.op, {own.data(), count})};
}

LaunchKey Pipeline::launch_key(const BoundCall &call, std::uint64_t context_id, int device) const {
  LaunchKey key;
  key.op = call.op;
  key.context_id = context_id;
  key.device = device;
  key.features = call.features;
  key.layout = call.layout;
  key.dtypes = call.dtypes;
  key.edges = bucket(call).edges;
  return key;
}

jit::Specialization Pipeline::specialize(const BoundCall &call, const TileConfig &config,
                                         const cuda::Architecture &architecture) const {
  jit::Specialization specialization;
  specialization.op = call.op;
  specialization.config = config;
  specialization.features = call.features;
  specialization.dtypes = call.dtypes;
  specialization.static_sizes = bucket(call).static_sizes();
  specialization.layout = call.layout;
  specialization.architecture = architecture;
  return specialization;
}

// ---- cold: compile, tune, load -------------------------------------------------------------------------------------

// Drivers load lazily: only resolving the functions shows whether a cubin is good.
void Pipeline::load_from(Ready &ready, const jit::Cubin &cubin, const LaunchList &list) {
  ready.module = modules_.get_or_make(cubin.hash, [&] {
    ++counters_.module_loads;
    return std::make_shared<const cuda::Module>(gpu().driver, cubin.bytes);
  });
  for (std::size_t entry = 0; entry < ready.path->entries.size(); ++entry) {
    int shared_bytes = 0;
    for (int i = 0; i < list.count; ++i) {
      const KernelLaunch &launch = list.launches[static_cast<std::size_t>(i)];
      if (launch.entry == static_cast<int>(entry)) shared_bytes = std::max(shared_bytes, launch.shared_bytes);
    }
    ready.functions[entry] = ready.module->function(ready.path->entries[entry], shared_bytes);
  }
}

void Pipeline::load(Ready &ready, const jit::Specialization &specialization, const LaunchList &list) {
  const auto cubin = specializer_.cubin(specialization);
  try {
    return load_from(ready, *cubin, list);
  } catch (const Error &error) {
    if (error.status() != MSJ_ERROR_CUDA) throw;
    // What the cache held may be damaged in a way that no checksum shows.
    log_.warn(fmt::format("cubin {} did not load ({}); it is built again", cubin->hash, error.what()));
  }
  modules_.erase(cubin->hash);
  load_from(ready, *specializer_.rebuild(specialization), list);
}

std::shared_ptr<const Ready> Pipeline::make_ready(const BoundCall &call, const LaunchKey &key) {
  const cuda::DeviceInfo &info = device(key.device);
  const auto timer = world_.make_timer(gpu().driver, log_);
  const auto resolution = tuner_.resolve(autotune_key(call), info, *timer, true);
  const auto specialization = specialize(call, resolution->configs.of(call.layout), info.architecture);

  auto ready = std::make_shared<Ready>();
  ready->key = key;
  ready->config = specialization.config;
  ready->path = &path_of(*call.op, ready->config);
  ready->static_sizes = specialization.static_sizes;
  ready->sm_count = info.limits.sm_count;
  Sizes sizes = call.sizes;  // a call without results can be prepared: its like with results will launch
  for (std::int64_t &size : sizes) size = std::max<std::int64_t>(size, 1);
  load(*ready, specialization,
       ready->path->geometry({ready->config, sizes, ready->static_sizes, call.dtypes, ready->sm_count, call.features}));
  return ready;
}

const Ready *Pipeline::warm_up(const BoundCall &call, const LaunchKey &key, const cuda::CallContext &context,
                               const LaunchSite &site) {
  const DefaultFloatEnvironment ours;
  const auto refuse = [&](std::string_view why) {
    throw_error(MSJ_ERROR_COLD,
                "this call of {} (bucket {}, {}, features [{}]) is not ready and {}; msj_prepare a call like it before that",
                call.op->name, autotune_key(call).bucket().text(), name(call.layout),
                fmt::join(feature_names(*call.op, call.features), ", "), why);
  };
  const cuda::Driver &driver = *gpu().driver;
  cuda::require_device(driver, context.context, site.stream, site.device);
  if (frozen_.load()) refuse("the context is frozen");
  const cuda::ContextGuard current(driver, context.context);
  if (cuda::is_capturing(driver, site.stream)) refuse("its stream is capturing");
  const cuda::RelaxedCapture relaxed(driver);
  return ready_.insert(warming_.get_or_make(key.text(), [&] { return make_ready(call, key); }));
}

// ---- entry points --------------------------------------------------------------------------------------------------

const Ready *Pipeline::prepare(const BoundCall &call, const LaunchSite &site) {
  Gpu &gpu = this->gpu();
  const auto context = cuda::context_of_call(*gpu.driver, gpu.primaries, site.stream, site.device);
  const LaunchKey key = launch_key(call, context.id, site.device);
  const Ready *known = ready_.find(key);
  return known != nullptr ? known : warm_up(call, key, context, site);
}

// Nothing runs, so its context and layout class are not asked, nor the buckets of sizes that are 0: those come in every
// series of calls. What the call says itself must be the plan's.
void Pipeline::check_plan_of_empty(const BoundCall &call, const LaunchSite &site) const {
  const LaunchKey &plan = site.plan->key;
  LaunchKey key = launch_key(call, plan.context_id, site.device);
  key.layout = plan.layout;
  if (plan.op == key.op) {
    for (std::size_t i = 0; i < key.edges.size(); ++i) {
      if (call.sizes[i] == 0) key.edges[i] = plan.edges[i];
    }
  }
  require_key(*site.plan, key);
}

void Pipeline::run(const BoundCall &call, const LaunchSite &site) {
  if (has_no_result(call)) {
    if (site.plan != nullptr) check_plan_of_empty(call, site);
    return;
  }
  Gpu &gpu = this->gpu();
  const auto context = cuda::context_of_call(*gpu.driver, gpu.primaries, site.stream, site.device);
  const LaunchKey key = launch_key(call, context.id, site.device);
  const Ready *ready = site.plan;
  if (ready == nullptr) {
    ready = ready_.find(key);
    if (ready == nullptr) ready = warm_up(call, key, context, site);
  } else {
    require_key(*ready, key);
  }
  launch(call, *ready, site, context.context);
}

void Pipeline::launch(const BoundCall &call, const Ready &ready, const LaunchSite &site, CUcontext context) {
  const GeometryQuery query{ready.config, call.sizes, ready.static_sizes, call.dtypes, ready.sm_count, call.features};
  if (ready.path->workspace != nullptr) {
    const std::size_t needed = ready.path->workspace(query);
    if (needed != 0 && (site.workspace == nullptr || site.workspace_size < needed ||
                        reinterpret_cast<std::uintptr_t>(site.workspace) % 256 != 0)) {
      throw_error(MSJ_ERROR_WORKSPACE, "workspace is {} with {} bytes; {} bytes, 256-byte aligned, are needed",
                  site.workspace, site.workspace_size, workspace_size(call, site.device));
    }
  }
  const cuda::Driver &driver = *gpu().driver;
  const cuda::ContextGuard current(driver, context);
  if (site.plan == nullptr) require_in_reach(driver, call, site.device);
  jit::Arguments arguments(call, site.workspace);
  jit::add_tensor_maps(*ready.path, ready.config, ready.static_sizes, call, gpu().tensor_maps, arguments);
  const LaunchList list = ready.path->geometry(query);
  for (std::int64_t round = 0; round < list.rounds; ++round) {
    arguments.set_round(round);
    for (int i = 0; i < list.count; ++i) {
      const KernelLaunch &launch = list.launches[static_cast<std::size_t>(i)];
      const auto entry = static_cast<std::size_t>(launch.entry);
      driver.check(cuda::launch(driver, ready.functions[entry],
                                {launch.grid, launch.threads, launch.shared_bytes, launch.overlaps_previous},
                                static_cast<CUstream>(site.stream), arguments.kernel_params()),
                   ready.path->entries[entry]);
    }
  }
  ++counters_.launches;
}

Pipeline::Measurement Pipeline::measure(const BoundCall &call, const LaunchSite &site, const MeasureWish &wish) {
  if (frozen_.load()) {
    throw_error(MSJ_ERROR_COLD, "the context is frozen; nothing is measured in it (msj_freeze with 0 ends that)");
  }
  Gpu &gpu = this->gpu();
  const cuda::Driver &driver = *gpu.driver;
  const auto context = cuda::context_of_call(driver, gpu.primaries, site.stream, site.device);
  cuda::require_device(driver, context.context, site.stream, site.device);
  const cuda::ContextGuard current(driver, context.context);
  if (cuda::is_capturing(driver, site.stream)) {
    throw_error(MSJ_ERROR_COLD, "the stream is capturing; measure before its capture begins");
  }
  const cuda::DeviceInfo &info = device(site.device);
  const auto timer = world_.make_timer(gpu.driver, log_);
  const tune::AutotuneKey key = autotune_key(call);
  const auto resolution = tuner_.resolve(key, info, *timer, true);
  const TileConfig &launched = resolution->configs.of(call.layout);
  const tune::Tuner::MeasuredCall measured = {
      call.sizes, call.features, call.layout, {wish.least_rounds, launched}, wish.ceilings};
  return {key, launched, resolution->source, info.environment(), tuner_.measure(key, measured, info, *timer)};
}

void Pipeline::prepare_ahead(const BoundCall &call, const cuda::Architecture &architecture, std::string_view gpu) {
  if (frozen_.load()) throw_error(MSJ_ERROR_COLD, "the context is frozen; nothing is compiled ahead of time in it");
  for (const tune::ConfigPair &configs : tuner_.ahead_of_time(autotune_key(call), architecture, gpu)) {
    (void)specializer_.cubin(specialize(call, configs.of(call.layout), architecture));
  }
}

std::size_t Pipeline::workspace_size(const BoundCall &call, int device_ordinal) {
  // First: a device that there is not is refused, whatever the op needs.
  const cuda::DeviceInfo &info = device(device_ordinal);
  const auto needs_none = [](const PathSpec &path) { return path.workspace == nullptr; };
  if (std::all_of(call.op->paths.begin(), call.op->paths.end(), needs_none)) return 0;
  const tune::AutotuneKey key = autotune_key(call);
  const auto static_sizes = specialize(call, {}, info.architecture).static_sizes;
  std::size_t most = 0;
  for (const tune::Admitted &admitted : tune::admit(tuner_.space(*call.op), key, info.limits).admitted) {
    const PathSpec &path = path_of(*call.op, admitted.config);
    if (path.workspace == nullptr) continue;
    most = std::max(most, path.workspace({admitted.config, call.sizes, static_sizes, call.dtypes, info.limits.sm_count,
                                          call.features}));
  }
  return most;
}

}  // namespace msj::ops
