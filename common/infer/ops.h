/* ops: every graph operation as a plain C float32 function. This is the oracle: executors and kernels are compared with it,
 * so it prefers the obvious formula to speed, and does nothing in place that the formula does not.
 *
 * Matrices are row major, [rows, width], one row a token. Sizes are the caller's business: nothing here checks or allocates.
 * Rows are consecutive tokens of one sequence wherever a state or a position is involved.
 */
#ifndef RP_OPS_H
#define RP_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sum of a[i] * b[i]: sixteen running sums, then halves of them added until one is left, so that the result is the same
 * whatever vector instructions compute it. */
float rp_ref_dot(const float *a, const float *b, size_t n);

float rp_ref_sigmoid(float x);
float rp_ref_silu(float x);
float rp_ref_softplus(float x); /* log(1 + e^x); x itself above 20 */

/* out [rows, width] = table [vocab, width] at ids */
void rp_ref_embed(float *out, const float *table, const uint32_t *ids, size_t rows, size_t width);

/* out = rms(in) * w, or * (1 + w); every run of `group` columns is normalised alone, w [group] serves them all. out may be in. */
void rp_ref_norm(float *out, const float *in, const float *w, size_t rows, size_t width, size_t group, float eps, bool plus_one);

/* out = rms(in) * w * silu(gate), over runs of `group` columns. out may be in. */
void rp_ref_gated_norm(float *out, const float *in, const float *gate, const float *w, size_t rows, size_t width, size_t group,
	float eps);

/* out [rows, n_out] = in [rows, n_in] . w^T + residual; w [n_out, n_in]; residual may be NULL, and may be out. */
void rp_ref_matmul(float *out, const float *in, const float *w, const float *residual, size_t rows, size_t n_out, size_t n_in);
/* Columns [first, last) of the same; w points at the weight row of column `first`. */
void rp_ref_matmul_columns(float *out, const float *in, const float *w, const float *residual, size_t rows, size_t n_out,
	size_t n_in, size_t first, size_t last);

/* in [rows, heads, 2 * head_dim] -> first halves [rows, heads, head_dim], second halves likewise */
void rp_ref_split_heads(float *first, float *second, const float *in, size_t rows, size_t heads, size_t head_dim);

/* Rotate the first rotary_dim values of every head. Row r stands at position pos + r; pair i turns by (float)position *
 * freqs[i], freqs [rotary_dim / 2]. out may be in. */
void rp_ref_rope(float *out, const float *in, size_t rows, size_t heads, size_t head_dim, size_t rotary_dim, const float *freqs,
	bool interleaved, uint32_t pos);

/* One query head over one key head: q, out [rows, ...] with `q_stride` floats from row to row; keys and values
 * [pos + rows, ...] with `kv_stride`. Row r sees positions 0 .. pos + r. scores: scratch of pos + rows floats. */
void rp_ref_attention_head(float *out, const float *q, size_t q_stride, const float *keys, const float *values, size_t kv_stride,
	size_t rows, size_t head_dim, uint32_t pos, float scale, float *scores);
/* All heads. q, out [rows, heads, head_dim]; keys, values [pos + rows, kv_heads, head_dim], the rows' own ones included. */
void rp_ref_attention(float *out, const float *q, const float *keys, const float *values, size_t rows, size_t heads,
	size_t kv_heads, size_t head_dim, uint32_t pos, float scale, float *scores);

void rp_ref_sigmoid_mul(float *out, const float *in, const float *gate, size_t n); /* in * sigmoid(gate); out may be either */
void rp_ref_silu_mul(float *out, const float *gate, const float *in, size_t n);    /* silu(gate) * in; out may be either */
void rp_ref_add(float *out, const float *a, const float *b, size_t n);             /* out may be either */

/* out = silu(causal depthwise convolution). w [width, kernel], the last tap on the newest token; state [kernel - 1, width]:
 * the inputs before this run, oldest first (zeros at the start), replaced by those before the next run. out is not in. */
void rp_ref_conv(float *out, const float *in, const float *w, float *state, size_t rows, size_t width, size_t kernel);

/* ---- gated delta rule ---- */
typedef struct rp_delta_shape {
	uint32_t v_heads, k_heads, k_dim, v_dim;
	bool head_mod;  /* value head h reads key head h mod k_heads; else h / (v_heads / k_heads) */
	bool a_neg_exp; /* the A tensor holds -exp(A_log) already */
	float eps;      /* of the l2 norm */
} rp_delta_shape;

/* Value head `head` of a run: qkv [rows, 2 * k_heads * k_dim + v_heads * v_dim] is the convolution's output, a and b
 * [rows, v_heads], A and dt_bias [v_heads], out [rows, v_heads * v_dim]; state [k_dim, v_dim] is that head's. Token by token,
 * the definition. scratch: 2 * k_dim + v_dim floats. */
void rp_ref_delta_head(float *out, const float *qkv, const float *a, const float *b, const float *A, const float *dt_bias,
	float *state, size_t rows, const rp_delta_shape *shape, uint32_t head, float *scratch);
/* The same result, `chunk` tokens at a time, by a triangular solve a chunk (only the order of sums differs).
 * scratch: rp_ref_delta_chunk_scratch(shape, chunk) floats. */
void rp_ref_delta_head_chunked(float *out, const float *qkv, const float *a, const float *b, const float *A,
	const float *dt_bias, float *state, size_t rows, const rp_delta_shape *shape, uint32_t head, size_t chunk, float *scratch);
size_t rp_ref_delta_chunk_scratch(const rp_delta_shape *shape, size_t chunk);
/* All heads, token by token; state [v_heads, k_dim, v_dim]. */
void rp_ref_delta(float *out, const float *qkv, const float *a, const float *b, const float *A, const float *dt_bias,
	float *state, size_t rows, const rp_delta_shape *shape, float *scratch);

/* ---- choosing ids; NaN counts as less than everything ---- */
uint32_t rp_ref_argmax(const float *x, uint32_t n); /* the lowest index on a tie; n >= 1 */
/* The k largest (k <= n), best first, ties by lower index. */
void rp_ref_top_k(const float *x, uint32_t n, uint32_t k, uint32_t *ids);

#endif
