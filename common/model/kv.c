/* Typed access to GGUF keys: the type is looked at before any byte is read. */
#include "internal.h"

#include <math.h>
#include <string.h>

static int compare_key(const char *key, size_t n, rp_str other)
{
	int c = memcmp(key, other.s, n < other.n ? n : other.n);
	return c != 0 ? c : n < other.n ? -1 : n > other.n;
}

static const rp_kv *find(const rp_model *m, const char *key)
{
	size_t low = 0, high = m->n_kvs, n = strlen(key);
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const rp_kv *kv = &m->kvs[m->kv_by_key[mid]];
		int c = compare_key(key, n, kv->key);
		if (c == 0)
			return kv;
		if (c < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

static const char *const type_names[] = { "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64",
	"f64" };

static rp_code wrong_type(const rp_model *m, const char *key, const char *expected, rp_kv_type found, rp_error *err)
{
	return rp_fail(err, RP_FORMAT, "%s: key '%s' is of type %s, expected %s", m->path, key, type_names[found], expected);
}

/* An integer or bool as sign and magnitude. */
typedef struct whole {
	bool negative;
	uint64_t magnitude;
} whole;

static whole from_signed(int64_t v)
{
	return (whole){ v < 0, v < 0 ? (uint64_t)0 - (uint64_t)v : (uint64_t)v };
}

static bool read_whole(rp_kv_type type, const uint8_t *p, whole *out)
{
	switch (type) {
	case RP_KV_U8:
	case RP_KV_BOOL:
		*out = (whole){ false, p[0] };
		return true;
	case RP_KV_I8:
		*out = from_signed((int8_t)p[0]);
		return true;
	case RP_KV_U16:
		*out = (whole){ false, rp_le16(p) };
		return true;
	case RP_KV_I16:
		*out = from_signed((int16_t)rp_le16(p));
		return true;
	case RP_KV_U32:
		*out = (whole){ false, rp_le32(p) };
		return true;
	case RP_KV_I32:
		*out = from_signed((int32_t)rp_le32(p));
		return true;
	case RP_KV_U64:
		*out = (whole){ false, rp_le64(p) };
		return true;
	case RP_KV_I64:
		*out = from_signed((int64_t)rp_le64(p));
		return true;
	default:
		return false;
	}
}

static bool read_float(rp_kv_type type, const uint8_t *p, double *out)
{
	if (type == RP_KV_F32) {
		float f;
		uint32_t bits = rp_le32(p);
		memcpy(&f, &bits, sizeof f);
		*out = (double)f;
	} else if (type == RP_KV_F64) {
		uint64_t bits = rp_le64(p);
		memcpy(out, &bits, sizeof *out);
	} else {
		return false;
	}
	return true;
}

static size_t width(rp_kv_type type)
{
	static const uint8_t bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
	return bytes[type];
}

rp_code rp_kv_u64(const rp_model *m, const char *key, uint64_t *out, rp_error *err)
{
	const rp_kv *kv = find(m, key);
	whole v;
	if (kv == NULL)
		return RP_NOT_FOUND;
	if (kv->type == RP_KV_BOOL || !read_whole(kv->type, kv->data, &v))
		return wrong_type(m, key, "an integer", kv->type, err);
	if (v.negative)
		return rp_fail(err, RP_FORMAT, "%s: key '%s' is -%llu, expected 0 or more", m->path, key,
			(unsigned long long)v.magnitude);
	*out = v.magnitude;
	return RP_OK;
}

static rp_code number(const rp_model *m, const char *key, rp_kv_type type, const uint8_t *p, double *out, rp_error *err)
{
	whole v;
	double d;
	if (type != RP_KV_BOOL && read_whole(type, p, &v))
		d = v.negative ? -(double)v.magnitude : (double)v.magnitude;
	else if (!read_float(type, p, &d))
		return wrong_type(m, key, "a number", type, err);
	if (!isfinite(d))
		return rp_fail(err, RP_FORMAT, "%s: key '%s' holds a value that is not finite", m->path, key);
	*out = d;
	return RP_OK;
}

rp_code rp_kv_f64(const rp_model *m, const char *key, double *out, rp_error *err)
{
	const rp_kv *kv = find(m, key);
	return kv == NULL ? RP_NOT_FOUND : number(m, key, kv->type, kv->data, out, err);
}

rp_code rp_kv_bool(const rp_model *m, const char *key, bool *out, rp_error *err)
{
	const rp_kv *kv = find(m, key);
	if (kv == NULL)
		return RP_NOT_FOUND;
	if (kv->type != RP_KV_BOOL)
		return wrong_type(m, key, "bool", kv->type, err);
	*out = kv->data[0] != 0;
	return RP_OK;
}

rp_code rp_kv_str(const rp_model *m, const char *key, rp_str *out, rp_error *err)
{
	const rp_kv *kv = find(m, key);
	if (kv == NULL)
		return RP_NOT_FOUND;
	if (kv->type != RP_KV_STRING)
		return wrong_type(m, key, "string", kv->type, err);
	*out = kv->strings[0];
	return RP_OK;
}

/* NULL: see *rc. */
static const rp_kv *find_array(const rp_model *m, const char *key, rp_code *rc, rp_error *err)
{
	const rp_kv *kv = find(m, key);
	if (kv == NULL) {
		*rc = RP_NOT_FOUND;
	} else if (kv->type != RP_KV_ARRAY) {
		*rc = wrong_type(m, key, "array", kv->type, err);
		kv = NULL;
	}
	return kv;
}

rp_code rp_kv_array(const rp_model *m, const char *key, rp_kv_type *elem, uint64_t *n, rp_error *err)
{
	rp_code rc = RP_OK;
	const rp_kv *kv = find_array(m, key, &rc, err);
	if (kv == NULL)
		return rc;
	*elem = kv->elem;
	*n = kv->n;
	return RP_OK;
}

static rp_code wrong_element(const rp_model *m, const char *key, const char *expected, rp_kv_type found, rp_error *err)
{
	return rp_fail(err, RP_FORMAT, "%s: key '%s' is an array of %s, expected an array of %s", m->path, key, type_names[found],
		expected);
}

rp_code rp_kv_array_str(const rp_model *m, const char *key, const rp_str **out, uint64_t *n, rp_error *err)
{
	rp_code rc = RP_OK;
	const rp_kv *kv = find_array(m, key, &rc, err);
	if (kv == NULL)
		return rc;
	if (kv->elem != RP_KV_STRING)
		return wrong_element(m, key, "string", kv->elem, err);
	*out = kv->strings;
	*n = kv->n;
	return RP_OK;
}

/* Element i of an array of numbers, and its type; NULL: see *rc. */
static const uint8_t *element(const rp_model *m, const char *key, uint64_t i, rp_kv_type *type, rp_code *rc, rp_error *err)
{
	const rp_kv *kv = find_array(m, key, rc, err);
	if (kv == NULL)
		return NULL;
	if (kv->elem == RP_KV_STRING) {
		*rc = wrong_element(m, key, "numbers", RP_KV_STRING, err);
		return NULL;
	}
	if (i >= kv->n) {
		*rc = rp_fail(err, RP_FORMAT, "%s: key '%s' has %llu elements, element %llu is needed", m->path, key,
			(unsigned long long)kv->n, (unsigned long long)i);
		return NULL;
	}
	*type = kv->elem;
	return kv->data + i * width(kv->elem);
}

rp_code rp_kv_array_i64(const rp_model *m, const char *key, uint64_t i, int64_t *out, rp_error *err)
{
	rp_code rc = RP_OK;
	rp_kv_type type;
	const uint8_t *p = element(m, key, i, &type, &rc, err);
	whole v;
	if (p == NULL)
		return rc;
	if (!read_whole(type, p, &v))
		return wrong_element(m, key, "integers", type, err);
	if (v.magnitude > (uint64_t)INT64_MAX + (v.negative ? 1 : 0))
		return rp_fail(err, RP_FORMAT, "%s: key '%s': element %llu does not fit 63 bits", m->path, key, (unsigned long long)i);
	*out = v.negative ? -(int64_t)(v.magnitude - 1) - 1 : (int64_t)v.magnitude;
	return RP_OK;
}

rp_code rp_kv_array_f64(const rp_model *m, const char *key, uint64_t i, double *out, rp_error *err)
{
	rp_code rc = RP_OK;
	rp_kv_type type;
	const uint8_t *p = element(m, key, i, &type, &rc, err);
	return p == NULL ? rc : number(m, key, type, p, out, err);
}
