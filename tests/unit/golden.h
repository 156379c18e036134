/* golden: the recorded numbers of tests/golden/NAME/golden.json against a run of the same weights on any device.
 *
 * A recorded tensor is a summary: shape, sum, sum of squares, largest magnitude, a position-dependent sum, eight values of the
 * first and of the last row. If a run's error vector is at most rel times the tensor's norm, every one of these can differ by
 * only so much (Cauchy-Schwarz), and that is what is checked. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "infer/infer.h"

#include <cjson/cJSON.h>

typedef struct golden_limits {
	float logits;  /* most a logit may differ */
	double cosine; /* least cosine over the 32 recorded logits */
	double rel;    /* most a hidden tensor's error may be, relative to its norm */
} golden_limits;

typedef struct golden {
	rp_model *model;
	rp_graph *graph;
	cJSON *json;
	uint32_t *prompt, n_prompt;
} golden;

/* file: NULL for the folder itself (config.json, model.safetensors), "model.gguf" for the other layout. */
void golden_open(golden *g, const char *name, const char *file);
void golden_close(golden *g);

/* Prefill in one pass with every tap compared, caches by what went into them, logits at every position; then the 64 recorded
 * steps one by one: logits, taps, and the greedy id while the recorded margin exceeds ten times the limit. Prints the largest
 * difference seen. opts may set device, variant, validate. */
void golden_check(const golden *g, const rp_engine_opts *opts, const golden_limits *limits);

/* As golden_check's 64 steps, but each id is the run's own choice. */
void golden_check_free_running(const golden *g, const rp_engine_opts *opts);

/* cmocka failure with err's message unless code is RP_OK. */
void must(rp_code code, const rp_error *err);

#endif
