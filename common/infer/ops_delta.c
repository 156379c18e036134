/* The gated delta rule: token by token, and a chunk of tokens at a time.
 *
 * For one value head with state M [k_dim, v_dim], decay exp(g) and write strength beta:
 *     M <- exp(g) M;   r = v - k^T M;   M <- M + k (beta r)^T;   o = q^T M
 */
#include "infer/ops.h"

#include <math.h>
#include <string.h>

/* Where one value head finds its inputs in a row of the convolution's output. */
typedef struct head_view {
	size_t width, q_at, k_at, v_at; /* of a row; offsets in it */
} head_view;

static head_view view_of(const rp_delta_shape *s, uint32_t head)
{
	size_t key_head = s->head_mod ? head % s->k_heads : head / (s->v_heads / s->k_heads);
	size_t keys = (size_t)s->k_heads * s->k_dim;

	return (head_view){
		.width = 2 * keys + (size_t)s->v_heads * s->v_dim,
		.q_at = key_head * s->k_dim,
		.k_at = keys + key_head * s->k_dim,
		.v_at = 2 * keys + (size_t)head * s->v_dim,
	};
}

static void l2_normalise(float *out, const float *in, size_t n, float eps, float scale)
{
	float factor = scale / sqrtf(rp_ref_dot(in, in, n) + eps);

	for (size_t i = 0; i < n; i++)
		out[i] = in[i] * factor;
}

/* Log of the decay: never positive. */
static float log_decay(const rp_delta_shape *s, float a, float A, float dt_bias)
{
	return (s->a_neg_exp ? A : -expf(A)) * rp_ref_softplus(a + dt_bias);
}

/* out [cols] = x^T M with M [rows, cols] */
static void vec_mat(float *out, const float *x, const float *m, size_t rows, size_t cols)
{
	memset(out, 0, cols * sizeof *out);
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < cols; j++)
			out[j] += x[i] * m[i * cols + j];
}

/* M += x y^T */
static void add_outer(float *m, const float *x, const float *y, size_t rows, size_t cols)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < cols; j++)
			m[i * cols + j] += x[i] * y[j];
}

static void scale_by(float *x, float factor, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] *= factor;
}

void rp_ref_delta_head(float *out, const float *qkv, const float *a, const float *b, const float *A, const float *dt_bias,
	float *state, size_t rows, const rp_delta_shape *s, uint32_t head, float *scratch)
{
	size_t dk = s->k_dim, dv = s->v_dim;
	head_view at = view_of(s, head);
	float *q = scratch, *k = q + dk, *r = k + dk;

	for (size_t t = 0; t < rows; t++) {
		const float *row = qkv + t * at.width, *v = row + at.v_at;
		float g = log_decay(s, a[t * s->v_heads + head], A[head], dt_bias[head]);
		float beta = rp_ref_sigmoid(b[t * s->v_heads + head]);

		l2_normalise(q, row + at.q_at, dk, s->eps, 1.0f / sqrtf((float)dk));
		l2_normalise(k, row + at.k_at, dk, s->eps, 1.0f);
		scale_by(state, expf(g), dk * dv);
		vec_mat(r, k, state, dk, dv);
		for (size_t j = 0; j < dv; j++)
			r[j] = beta * (v[j] - r[j]);
		add_outer(state, k, r, dk, dv);
		vec_mat(out + (t * s->v_heads + head) * dv, q, state, dk, dv);
	}
}

void rp_ref_delta(float *out, const float *qkv, const float *a, const float *b, const float *A, const float *dt_bias,
	float *state, size_t rows, const rp_delta_shape *s, float *scratch)
{
	for (uint32_t h = 0; h < s->v_heads; h++)
		rp_ref_delta_head(out, qkv, a, b, A, dt_bias, state + (size_t)h * s->k_dim * s->v_dim, rows, s, h, scratch);
}

/* One chunk of one head. With G the running sum of g, the chunk's corrected values R solve a unit lower triangular system:
 *     R_i = beta_i (v_i - exp(G_i) k_i^T M) - sum over j < i of  beta_i exp(G_i - G_j) (k_i . k_j) R_j
 *     o_i = exp(G_i) q_i^T M + sum over j <= i of  exp(G_i - G_j) (q_i . k_j) R_j
 *     M  <- exp(G_last) M + sum over j of  exp(G_last - G_j) k_j R_j^T
 * Every exponent is a sum of decays, never positive. */
typedef struct chunk_rows {
	float *q, *k, *r; /* [n, k_dim], [n, k_dim], [n, v_dim] */
	float *g, *tmp;   /* [n], [v_dim] */
} chunk_rows;

static void chunk_solve(const chunk_rows *c, const float *qkv, const float *b, const float *state, size_t n,
	const rp_delta_shape *s, uint32_t head, head_view at)
{
	size_t dk = s->k_dim, dv = s->v_dim;

	for (size_t i = 0; i < n; i++) {
		float beta = rp_ref_sigmoid(b[i * s->v_heads + head]);
		const float *k = c->k + i * dk, *v = qkv + i * at.width + at.v_at;
		float *r = c->r + i * dv;

		vec_mat(c->tmp, k, state, dk, dv);
		for (size_t x = 0; x < dv; x++)
			r[x] = beta * (v[x] - expf(c->g[i]) * c->tmp[x]);
		for (size_t j = 0; j < i; j++) {
			float m = beta * expf(c->g[i] - c->g[j]) * rp_ref_dot(k, c->k + j * dk, dk);
			for (size_t x = 0; x < dv; x++)
				r[x] -= m * c->r[j * dv + x];
		}
	}
}

static void chunk_read(const chunk_rows *c, float *out, const float *state, size_t n, const rp_delta_shape *s, uint32_t head)
{
	size_t dk = s->k_dim, dv = s->v_dim;

	for (size_t i = 0; i < n; i++) {
		float *o = out + (i * s->v_heads + head) * dv;

		vec_mat(o, c->q + i * dk, state, dk, dv);
		scale_by(o, expf(c->g[i]), dv);
		for (size_t j = 0; j <= i; j++) {
			float m = expf(c->g[i] - c->g[j]) * rp_ref_dot(c->q + i * dk, c->k + j * dk, dk);
			for (size_t x = 0; x < dv; x++)
				o[x] += m * c->r[j * dv + x];
		}
	}
}

static void chunk_write(const chunk_rows *c, float *state, size_t n, const rp_delta_shape *s)
{
	size_t dk = s->k_dim, dv = s->v_dim;
	float last = c->g[n - 1];

	scale_by(state, expf(last), dk * dv);
	for (size_t j = 0; j < n; j++) {
		scale_by(c->k + j * dk, expf(last - c->g[j]), dk);
		add_outer(state, c->k + j * dk, c->r + j * dv, dk, dv);
	}
}

size_t rp_ref_delta_chunk_scratch(const rp_delta_shape *s, size_t chunk)
{
	return chunk * (2 * (size_t)s->k_dim + s->v_dim + 1) + s->v_dim;
}

void rp_ref_delta_head_chunked(float *out, const float *qkv, const float *a, const float *b, const float *A,
	const float *dt_bias, float *state, size_t rows, const rp_delta_shape *s, uint32_t head, size_t chunk, float *scratch)
{
	head_view at = view_of(s, head);
	chunk_rows c = {.q = scratch};
	c.k = c.q + chunk * s->k_dim;
	c.r = c.k + chunk * s->k_dim;
	c.g = c.r + chunk * s->v_dim;
	c.tmp = c.g + chunk;

	for (size_t first = 0; first < rows; first += chunk) {
		size_t n = rows - first < chunk ? rows - first : chunk;
		const float *x = qkv + first * at.width;
		float sum = 0;

		for (size_t i = 0; i < n; i++) {
			sum += log_decay(s, a[(first + i) * s->v_heads + head], A[head], dt_bias[head]);
			c.g[i] = sum;
			l2_normalise(c.q + i * s->k_dim, x + i * at.width + at.q_at, s->k_dim, s->eps, 1.0f / sqrtf((float)s->k_dim));
			l2_normalise(c.k + i * s->k_dim, x + i * at.width + at.k_at, s->k_dim, s->eps, 1.0f);
		}
		chunk_solve(&c, x, b + first * s->v_heads, state, n, s, head, at);
		chunk_read(&c, out + first * s->v_heads * s->v_dim, state, n, s, head);
		chunk_write(&c, state, n, s);
	}
}
