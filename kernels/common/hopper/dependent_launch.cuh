#pragma once
// Two launches of which the second may begin while the first ends (programmatic dependent launch): the first says when
// all its blocks have begun, the second waits before it reads what the first writes.

namespace msj::ptx {

__device__ __forceinline__ void let_next_launch_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
// Until the launch before this one has ended and its writes are seen; at once, if this one began after it. What it
// wrote is not to be read by ld.global.nc, which is for what nobody writes while this kernel lives.
__device__ __forceinline__ void wait_for_previous_launch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace msj::ptx
