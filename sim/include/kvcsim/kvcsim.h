/*===- kvcsim.h - What the simulated CUDA driver has besides the driver API ===*
 *
 * libkvcsim_cuda.so has the soname of the real driver and exports a subset of its API. These functions are its own:
 * find them with dlsym. The library reads these environment variables when cuInit is first called:
 *
 *   KVCSIM_TARGET    chips of the devices, a list such as sm_80,sm_90a,gfx942, of which each driver has those of its
 *                    vendor (default: sm_80, gfx942)
 *   KVCSIM_CHECKS    what is looked for in shared memory: races,uninitialised (default), one of them, or none
 *   KVCSIM_SEED      warps run in an order drawn from this seed (default: 0, in turn)
 *   KVCSIM_ORDER     "reverse" starts the CTAs from the last to the first
 *   KVCSIM_THREADS   threads of the host (default: one per CPU)
 *   KVCSIM_LIMIT     warp instructions of one thread of the host in a launch at most (default: 0, no limit)
 *   KVCSIM_REPORT    a file to which the counters of every launch are appended, one JSON object a line
 *   KVCSIM_INSTRUCTIONS  "on": the counters of every instruction are in the report
 *   KVCSIM_LOG       "off": errors of kernels are not printed on the standard error stream
 *
 *===----------------------------------------------------------------------===*/
#ifndef KVCSIM_KVCSIM_H
#define KVCSIM_KVCSIM_H

#ifdef __cplusplus
extern "C" {
#endif

/** The ordinal of a device with this chip (`sm_90a`); adds one when there is none. -1: the chip is not known. */
int kvcsim_device(const char *target);

/** What the last error of this process was, in words; empty when there was none. Valid until the next error. */
const char *kvcsim_last_error(void);

/** Sets what an environment variable would: name without KVCSIM_ in lower case. 0, or -1 for an unknown name or value.
 */
int kvcsim_set_option(const char *name, const char *value);

/** Counters of the launches since the last call, a JSON array. Kept only after kvcsim_set_option("collect", "on"). The
 *  text is valid until the next call. */
const char *kvcsim_take_report(void);

#ifdef __cplusplus
}
#endif

#endif /* KVCSIM_KVCSIM_H */
