/* kernel_rig: run one kernel on a Vulkan device with host arrays, and compare with what it should give. */
#ifndef KERNEL_RIG_H
#define KERNEL_RIG_H

#include "infer/kernel_args.h"
#include "vk/vk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cmocka group setup and teardown: opens the device, with validation where the layers are installed. Without a Vulkan driver
 * every test that calls rig_ready() is skipped. */
int rig_setup(void **state);
int rig_teardown(void **state);
void rig_ready(void); /* skips the test when there is no device */

typedef struct rig_arg {
	void *data; /* written back when out */
	size_t bytes;
	bool out;
} rig_arg;

#define RIG_IN(p, n) ((rig_arg){ .data = (void *)(uintptr_t)(p), .bytes = (size_t)(n) * sizeof *(p) })
#define RIG_OUT(p, n) ((rig_arg){ .data = (p), .bytes = (size_t)(n) * sizeof *(p), .out = true })

typedef struct rig_call {
	const char *kernel;
	const rp_vk_const *consts;
	size_t n_consts;
	const void *push;
	size_t push_bytes;
	rp_grid grid;
	const rig_arg *args; /* of bindings 1, 2, ...; two with the same data share a buffer */
	size_t n_args;
} rig_call;

/* Fails the test when the call fails or writes outside an output. */
void rig_run(const rig_call *c);
/* The same with the device's subgroup size required. */
void rig_run_subgroup(const rig_call *c);

/* Does the device run this kernel (features, and that it is built in)? A portable kernel that is missing fails the test. */
bool rig_has(const char *kernel);

/* Repeatable random numbers: one stream a test program, started anew by rig_seed. */
void rig_seed(uint64_t seed);
uint32_t rig_u32(void);
uint32_t rig_below(uint32_t n);
float rig_normal(void);
float *rig_floats(size_t n, float scale); /* normal; free() it */

/* Random weights of n rows of k values, every bit pattern of the quants, scales of either sign, some of them subnormal. */
void *rig_weights(rp_dtype t, size_t n, size_t k);

/* A matrix as kernels read it, and its values. It starts RIG_GAP units of 16 bytes into `repacked`, as ranges may. */
enum { RIG_GAP = 5 };
typedef struct rig_matrix {
	rp_dtype type;
	uint32_t n, k;
	char *repacked;
	size_t bytes;    /* of repacked */
	uint32_t stride; /* units of 16 bytes */
	float *values;   /* [n, k] */
} rig_matrix;
rig_matrix rig_matrix_new(rp_dtype t, uint32_t n, uint32_t k);
void rig_matrix_free(rig_matrix *w);

const rp_vk_info *rig_device(void); /* after rig_ready() */

/* Sum of squared differences over sum of squares; infinite when y has what is not a number and want has not. */
double rig_nmse(const float *y, const double *want, size_t n);
double rig_nmse_f32(const float *y, const float *want, size_t n);
/* Fail unless nmse < bound; the message says what. */
void rig_close(const char *what, double nmse, double bound);

#endif
