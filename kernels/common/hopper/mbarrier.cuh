#pragma once
// Barriers in shared memory that count arrivals and bytes of bulk copies, and the ring of stages between a warp that
// loads and warps that use. A phase ends when all expected arrivals and bytes are in; waiting is by the phase's parity.

namespace msj::ptx {

__device__ __forceinline__ void barrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// After the inits of one thread, before the block's barrier: copies see them too.
__device__ __forceinline__ void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// A warp's arrival, when all its lanes have done their part: one lane's, after all have met. racecheck follows a barrier by
// who arrives at it, not by whom that lane has met: tests/gpu_check.sh has it look at a copy in which every lane arrives.
constexpr int arriving_lanes = 1;
__device__ __forceinline__ void barrier_arrive_warp(unsigned barrier, int lane) {
  __syncwarp();
  if (lane < arriving_lanes) barrier_arrive(barrier);
}
// The same of lane 0, that has announced its bytes with its arrival; it needs no other lane.
__device__ __forceinline__ void barrier_arrive_with_expecting_lane(unsigned barrier, int lane) {
  if (lane > 0 && lane < arriving_lanes) barrier_arrive(barrier);
}

// Of each lane, when its cp.async copies so far are in: an arrival like another, that nobody waits for here.
__device__ __forceinline__ void barrier_arrive_after_copies(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Announces `bytes` of copies to this phase, without and with an arrival.
__device__ __forceinline__ void barrier_expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive_expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ bool barrier_try_wait(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; selp.u32 %0, 1, 0, done; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
  while (!barrier_try_wait(barrier, parity)) {
  }
}

// A warpgroup's registers per thread from here on.
template <int count>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace msj::ptx

namespace msj {

// Where one role is in a ring. Who fills waits for the stage to be free with `parity ^ 1`, which holds at once in the
// first round; who uses waits for it to be full with `parity`.
template <int stages>
struct RingPlace {
  int slot = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == stages) slot = 0, parity ^= 1;
  }
};

}  // namespace msj
