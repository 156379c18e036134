/* Products on matrix units: how fast half_matmul is with each shape of tile, and is it right.
 * usage: build/bench/matrices DEVICE MODEL ROWS LAYERS [SHAPE...]
 *   DEVICE  as --device takes it        MODEL   0.8b or 2b: the matrices of a layer, Q4_K       ROWS  of x: 512
 *   LAYERS  copies of each matrix that take turns, so that weights come from memory: 24
 *   SHAPE   sub_m,sub_n,tile_m,tile_n,units,buffers (rp_half_shape), or "x,WG" for half_rows alone; without any: a list to choose from
 * A line a matrix and shape: microseconds a product, TFLOP/s, normalised mean squared error of 64 sums against double. */
#include "infer/kernel_args.h"
#include "infer/repack.h"
#include "vk/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rp_error err;
static rp_vk *vk;

static void must(rp_code code)
{
	if (code == RP_OK)
		return;
	fprintf(stderr, "matrices: %s\n", err.msg);
	exit(code);
}

static uint32_t random_word(void)
{
	static uint64_t s = 88172645463325252u;
	s ^= s << 13, s ^= s >> 7, s ^= s << 17;
	return (uint32_t)(s >> 16);
}

static void *room(size_t n, size_t size)
{
	void *p = rp_alloc_array(n, size);
	if (p == NULL)
		exit(RP_NO_MEMORY);
	return p;
}

/* ---- one matrix ---- */
typedef struct matrix {
	const char *name;
	uint32_t n, k;
	bool glu;
} matrix;

typedef struct data {
	uint64_t row, stride; /* bytes in the file's form, repacked */
	unsigned char *file;
	float *x;
	rp_vk_buf *w, *up, *f32, *rows, *scale, *y;
} data;

#define TYPE RP_Q4_K
enum { BLOCK = 144 };

static rp_vk_buf *buffer(uint64_t bytes, const char *name)
{
	rp_vk_buf *b = NULL;
	must(rp_vk_buf_new(vk, RP_VK_LOCAL, bytes, name, &b, &err));
	return b;
}

/* Random blocks with scales of the size that weights have. */
static void make_weights(const matrix *m, data *d)
{
	if (!rp_dtype_row_bytes(TYPE, m->k, &d->row) || !rp_repack_stride(TYPE, m->k, &d->stride))
		exit(RP_USAGE);
	d->file = room(m->n, d->row);
	for (uint64_t i = 0; i < m->n * d->row; i++)
		d->file[i] = (unsigned char)random_word();
	for (uint64_t i = 0; i < m->n * d->row; i += BLOCK)
		memcpy(d->file + i, (unsigned char[]){ 0x00, 0x04, 0x00, 0x18 }, 4); /* 2^-14, 2^-9 */
}

static data make_data(const matrix *m, uint32_t rows, uint32_t layers)
{
	data d = { 0 };
	make_weights(m, &d);
	uint64_t bytes = m->n * d.stride;
	unsigned char *repacked = room(m->n, d.stride);
	rp_repack_rows(TYPE, d.file, m->n, m->k, repacked);
	d.w = buffer(bytes * layers, "weights");
	d.up = m->glu ? buffer(bytes * layers, "weights") : d.w;
	for (uint32_t l = 0; l < layers; l++) {
		must(rp_vk_write(vk, d.w, l * bytes, repacked, bytes, &err));
		if (m->glu)
			must(rp_vk_write(vk, d.up, l * bytes, repacked, bytes, &err));
	}
	free(repacked);
	d.x = room((size_t)rows * m->k, sizeof *d.x);
	for (size_t i = 0; i < (size_t)rows * m->k; i++)
		d.x[i] = (float)random_word() / 2147483648.0f - 1.0f;
	d.f32 = buffer((uint64_t)rows * m->k * 4, "x");
	must(rp_vk_write(vk, d.f32, 0, d.x, (uint64_t)rows * m->k * 4, &err));
	d.rows = buffer((uint64_t)rows * rp_units(TYPE, m->k) * 64, "halves");
	d.scale = buffer(rows * sizeof(float), "scales");
	d.y = buffer((uint64_t)rows * m->n * 4, "y");
	return d;
}

static void free_data(const matrix *m, data *d)
{
	if (m->glu)
		rp_vk_buf_free(d->up);
	rp_vk_buf *all[] = { d->w, d->f32, d->rows, d->scale, d->y };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		rp_vk_buf_free(all[i]);
	free(d->file);
	free(d->x);
}

/* ---- recording ---- */
static const rp_kernel *half_matmul(uint32_t *side)
{
	for (*side = 16; *side >= 8; *side /= 2)
		if (rp_vk_has_matrix(rp_vk_describe(vk), &(rp_kernel_matrix){ 'h', 'f', *side, *side, *side }))
			return rp_kernel_find(*side == 16 ? "half_matmul_m16" : "half_matmul_m8");
	fprintf(stderr, "matrices: %s multiplies no matrices of halves\n", rp_vk_describe(vk)->name);
	exit(RP_UNSUPPORTED);
}

static void record_rows(rp_vk_cmd *c, const matrix *m, const data *d, uint32_t rows, uint32_t wg)
{
	rp_vk_const consts[] = { { "WG", wg }, { "OP", RP_HALF_COPY } };
	rp_args_half_rows a = { .k = m->k, .stride = 32 * rp_units(TYPE, m->k), .group = m->k };
	rp_vk_bind binds[] = { { 0 }, { d->f32, 0, 0 }, { d->f32, 0, 0 }, { d->f32, 0, 0 }, { d->rows, 0, 0 }, { d->scale, 0, 0 } };
	rp_vk_pipeline *p = NULL;
	must(rp_vk_pipeline_get(vk, rp_kernel_find("half_rows_subgroup"), consts, 2, NULL, rp_vk_describe(vk)->subgroup_size, &p, &err));
	must(rp_vk_cmd_dispatch(c, p, binds, 6, &a, sizeof a, rows, 1, 1, &err));
}

static void record_product(rp_vk_cmd *c, const matrix *m, const data *d, uint32_t rows, uint32_t layer, const rp_half_shape *s)
{
	uint32_t side = 0, sg = rp_vk_describe(vk)->subgroup_size;
	const rp_kernel *kernel = half_matmul(&side);
	rp_vk_const consts[] = { { "QUANT", TYPE }, { "RESIDUAL", 0 }, { "GLU", m->glu }, { "SG", sg }, { "WG", s->sub_m * s->sub_n * sg },
		{ "SUB_M", s->sub_m }, { "SUB_N", s->sub_n }, { "TILE_M", s->tile_m }, { "TILE_N", s->tile_n }, { "UNITS", s->units },
		{ "BUFFERS", s->buffers } };
	rp_args_half_matmul a = { .n = m->n, .n_rows = rows, .units = rp_units(TYPE, m->k), .blocks = rp_blocks(TYPE, m->k),
		.w_base = (uint32_t)(layer * (m->n * d->stride) / 16), .w_stride = (uint32_t)(d->stride / 16), .y_stride = m->n };
	rp_vk_bind binds[] = { { 0 }, { d->rows, 0, 0 }, { d->scale, 0, 0 }, { d->w, 0, 0 }, { d->up, 0, 0 }, { d->y, 0, 0 },
		{ d->scale, 0, 0 } };
	rp_grid g = rp_grid_half_matmul(&a, s, side, m->glu);
	rp_vk_pipeline *p = NULL;
	must(rp_vk_pipeline_get(vk, kernel, consts, sizeof consts / sizeof *consts, NULL, sg, &p, &err));
	must(rp_vk_cmd_dispatch(c, p, binds, 7, &a, sizeof a, g.x, g.y, g.z, &err));
}

/* Nanoseconds of the recording's dispatches, the best of five. */
static double best_ns(rp_vk_cmd *c)
{
	double best = 1e18;
	for (int i = 0; i < 5; i++) {
		const rp_vk_mark *marks;
		size_t n = 0;
		must(rp_vk_run(vk, c, &err));
		must(rp_vk_cmd_marks(c, &marks, &n, &err));
		if (n == 2 && (double)marks[1].ns < best)
			best = (double)marks[1].ns;
	}
	return best;
}

/* ---- a line ---- */
static double silu(double v)
{
	return v / (1 + __builtin_exp(-v));
}

static double error_of(const matrix *m, const data *d, uint32_t rows)
{
	float *y = room((size_t)rows * m->n, sizeof *y), *w = room(m->k, sizeof *w);
	double diff = 0, power = 0;
	must(rp_vk_read(vk, d->y, 0, y, (uint64_t)rows * m->n * 4, &err));
	for (uint32_t i = 0; i < 64; i++) {
		uint32_t r = i * 37 % rows, j = i * 9973u % m->n;
		double sum = 0;
		rp_dequant(TYPE, d->file + j * d->row, m->k, w);
		for (uint32_t k = 0; k < m->k; k++)
			sum += (double)w[k] * (double)d->x[(size_t)r * m->k + k];
		double want = m->glu ? silu(sum) * sum : sum, e = (double)y[(size_t)r * m->n + j] - want;
		diff += e * e;
		power += want * want;
	}
	free(y);
	free(w);
	return diff / power;
}

static void one_shape(const matrix *m, const data *d, uint32_t rows, uint32_t layers, const rp_half_shape *s)
{
	const rp_vk_info *info = rp_vk_describe(vk);
	uint32_t side = 0;
	rp_vk_cmd *c = NULL;
	half_matmul(&side);
	printf("%-8s %5u x %4u  %u x %u of %u x %u, %u units, %u buffers: ", m->name, m->n, m->k, s->sub_m, s->sub_n, s->tile_m, s->tile_n,
		s->units, s->buffers);
	if (!rp_half_possible(s, side, info->subgroup_size) || rp_half_memory(s, side) > info->max_shared || (m->glu && s->tile_n % 2 != 0) ||
		s->sub_m * s->sub_n * info->subgroup_size > info->max_workgroup) {
		printf("not possible here\n");
		return;
	}
	must(rp_vk_cmd_new(vk, "products", &c, &err));
	must(rp_vk_cmd_begin(c, RP_VK_REPLAY, &err));
	record_rows(c, m, d, rows, 64);
	must(rp_vk_cmd_mark(c, "start", &err));
	for (uint32_t l = 0; l < layers; l++)
		record_product(c, m, d, rows, l, s);
	must(rp_vk_cmd_mark(c, "end", &err));
	must(rp_vk_cmd_end(c, &err));
	double us = best_ns(c) / 1e3 / layers, flop = 2.0 * rows * m->n * m->k * (m->glu ? 2 : 1);
	printf("%.1f us, %.1f TFLOP/s, error %.2g\n", us, flop / us / 1e6, error_of(m, d, rows));
	fflush(stdout);
	rp_vk_cmd_free(c);
}

static void only_rows(const matrix *m, const data *d, uint32_t rows, uint32_t wg)
{
	enum { TIMES = 100 };
	rp_vk_cmd *c = NULL;
	must(rp_vk_cmd_new(vk, "rows", &c, &err));
	must(rp_vk_cmd_begin(c, RP_VK_REPLAY, &err));
	must(rp_vk_cmd_mark(c, "start", &err));
	for (int i = 0; i < TIMES; i++)
		record_rows(c, m, d, rows, wg);
	must(rp_vk_cmd_mark(c, "end", &err));
	must(rp_vk_cmd_end(c, &err));
	printf("%-8s rows of %u as halves, workgroups of %u: %.1f us\n", m->name, m->k, wg, best_ns(c) / 1e3 / TIMES);
	rp_vk_cmd_free(c);
}

static const char *const usual[] = { "2,2,4,4,1,1", "2,2,4,4,1,2", "2,4,4,4,1,1", "2,4,4,4,1,2", "2,4,4,2,1,2", "4,2,2,4,1,2", "2,2,4,2,1,2",
	"2,2,2,4,1,2", "2,2,2,4,2,1", "2,2,2,2,1,2", "2,2,2,2,2,1", "2,2,2,2,2,2", "1,4,4,2,1,2", "1,4,2,2,1,2", "1,4,1,2,1,2", "x,64", "x,256" };

/* Numbers with commas between them; how many there were, at most `most`. */
static int numbers(const char *s, uint32_t *out, int most)
{
	int n = 0;
	for (char *end; n < most; s = end + 1) {
		out[n] = (uint32_t)strtoul(s, &end, 10);
		if (end == s)
			return n;
		n++;
		if (*end != ',')
			return *end == '\0' ? n : 0;
	}
	return 0;
}

static void each_shape(const matrix *m, uint32_t rows, uint32_t layers, const char *const *shapes, int n)
{
	data d = make_data(m, rows, layers);
	for (int i = 0; i < n; i++) {
		uint32_t v[7];
		if (strncmp(shapes[i], "x,", 2) == 0 && numbers(shapes[i] + 2, v, 7) == 1)
			only_rows(m, &d, rows, v[0]);
		else if (numbers(shapes[i], v, 7) == 6)
			one_shape(m, &d, rows, layers, &(rp_half_shape){ v[0], v[1], v[2], v[3], v[4], v[5] });
		else
			fprintf(stderr, "matrices: %s is no shape\n", shapes[i]);
	}
	free_data(m, &d);
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fputs("usage: matrices DEVICE 0.8b|2b ROWS LAYERS [SHAPE...]\n", stderr);
		return RP_USAGE;
	}
	bool two = strcmp(argv[2], "2b") == 0;
	uint32_t h = two ? 2048 : 1024, f = two ? 6144 : 3584, rows = (uint32_t)strtoul(argv[3], NULL, 10);
	const matrix list[] = { { "qkv", 6144, h, false }, { "z", 2048, h, false }, { "out", h, 2048, false }, { "gate-up", f, h, true },
		{ "down", h, f, false } };
	must(rp_vk_open(&(rp_vk_opts){ .device = argv[1] }, &vk, &err));
	printf("%s, %u rows\n", rp_vk_describe(vk)->name, rows);
	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		each_shape(&list[i], rows, (uint32_t)strtoul(argv[4], NULL, 10), argc > 5 ? (const char *const *)(argv + 5) : usual,
			argc > 5 ? argc - 5 : (int)(sizeof usual / sizeof *usual));
	rp_vk_close(vk);
	return 0;
}
