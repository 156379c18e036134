#include "oms.h"

#include "hash/hash.h"
#include "model/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAYLOAD_TYPE "application/vnd.in-toto+json"

static const char *text_of(const cJSON *object, const char *member)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, member));
	return s != NULL ? s : "";
}

static rp_code need(const char *name, const cJSON *object, const char *where, const char *member, const char *want, rp_error *err)
{
	char shown[100];
	const char *found = text_of(object, member);
	if (strcmp(found, want) == 0)
		return RP_OK;
	return rp_fail(err, RP_UNSUPPORTED, "%s: %s%s: is \"%s\", expected \"%s\"", name, where, member,
		rp_show(shown, sizeof shown, found, strlen(found)), want);
}

/* ---- the bundle ---- */
static rp_code check_material(const char *name, const cJSON *bundle, const rp_public_key *key, rp_error *err)
{
	const cJSON *material = cJSON_GetObjectItemCaseSensitive(bundle, "verificationMaterial");
	const cJSON *public_key = cJSON_GetObjectItemCaseSensitive(material, "publicKey");
	char hex[65];
	if (!cJSON_IsObject(public_key))
		return rp_fail(err, RP_UNSUPPORTED, "%s: verificationMaterial: expected publicKey; signatures by certificate or sigstore are not read",
			name);
	rp_code code = rp_public_key_pem_sha256(key, hex, err);
	const char *hint = text_of(public_key, "hint");
	if (code == RP_OK && *hint != '\0' && strcmp(hint, hex) != 0)
		return rp_fail(err, RP_SIGNATURE, "%s: verificationMaterial.publicKey.hint: made with another key than the one given", name);
	return code;
}

/* What DSSE signs: the lengths and texts of type and payload. */
static rp_code check_envelope(const char *name, const cJSON *envelope, const rp_public_key *key, char **payload, size_t *n, rp_error *err)
{
	const cJSON *signatures = cJSON_GetObjectItemCaseSensitive(envelope, "signatures");
	const char *sig_text = text_of(signatures != NULL ? signatures->child : NULL, "sig"), *text = text_of(envelope, "payload");
	unsigned char sig[256];
	size_t sig_n = 0;
	rp_buf signed_text;
	rp_code code = need(name, envelope, "dsseEnvelope.", "payloadType", PAYLOAD_TYPE, err);
	if (code != RP_OK)
		return code;
	if (!cJSON_IsArray(signatures) || cJSON_GetArraySize(signatures) != 1)
		return rp_fail(err, RP_FORMAT, "%s: dsseEnvelope.signatures: expected one signature", name);
	if (!rp_base64_decode(RP_BASE64, sig_text, strlen(sig_text), sig, sizeof sig, &sig_n))
		return rp_fail(err, RP_FORMAT, "%s: dsseEnvelope.signatures[0].sig: expected base64 with padding", name);
	char *raw = rp_alloc(strlen(text) + 1);
	if (raw == NULL)
		return rp_no_memory(err, strlen(text), name);
	rp_buf_init(&signed_text, 0);
	if (!rp_base64_decode(RP_BASE64, text, strlen(text), raw, strlen(text), n)) {
		code = rp_fail(err, RP_FORMAT, "%s: dsseEnvelope.payload: expected base64 with padding", name);
	} else {
		rp_buf_addf(&signed_text, "DSSEv1 %zu %s %zu ", sizeof PAYLOAD_TYPE - 1, PAYLOAD_TYPE, *n);
		if (!rp_buf_add(&signed_text, raw, *n))
			code = rp_no_memory(err, *n, name);
		else if (!rp_signature_ok(key, RP_SIG_DER, signed_text.data, signed_text.len, sig, sig_n))
			code = rp_fail(err, RP_SIGNATURE, "%s: dsseEnvelope.signatures[0].sig: does not verify with the key given", name);
	}
	rp_buf_free(&signed_text);
	if (code == RP_OK)
		*payload = raw;
	else
		free(raw);
	return code;
}

/* ---- the statement ---- */
static bool is_safe_path(const char *path)
{
	const char *part = path;
	if (strcmp(path, ".") == 0)
		return true;
	for (;;) {
		size_t n = strcspn(part, "/");
		if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && memcmp(part, "..", 2) == 0))
			return false;
		if (part[n] == '\0')
			return true;
		part += n + 1;
	}
}

static rp_code read_serialization(const char *name, const cJSON *v, rp_oms *out, rp_error *err)
{
	const char *method = text_of(v, "method"), *hash = text_of(v, "hash_type");
	const cJSON *links = cJSON_GetObjectItemCaseSensitive(v, "allow_symlinks"), *ignored = cJSON_GetObjectItemCaseSensitive(v, "ignore_paths"), *e;
	out->sharded = strcmp(method, "shards") == 0;
	out->blake3 = strcmp(hash, "blake3") == 0;
	out->links = cJSON_IsTrue(links);
	if (!out->sharded && strcmp(method, "files") != 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: predicate.serialization.method: expected \"files\" or \"shards\"", name);
	if (strcmp(hash, "sha256") != 0 && (!out->blake3 || out->sharded))
		return rp_fail(err, RP_UNSUPPORTED, "%s: predicate.serialization.hash_type: expected \"sha256\"%s", name,
			out->sharded ? "" : " or \"blake3\"");
	if (!cJSON_IsBool(links))
		return rp_fail(err, RP_FORMAT, "%s: predicate.serialization.allow_symlinks: expected true or false", name);
	if (ignored != NULL && !cJSON_IsArray(ignored))
		return rp_fail(err, RP_FORMAT, "%s: predicate.serialization.ignore_paths: expected an array", name);
	out->ignored = rp_arena_array(&out->arena, (size_t)cJSON_GetArraySize(ignored) + 1, sizeof *out->ignored);
	if (out->ignored == NULL)
		return rp_no_memory(err, 1024, name);
	cJSON_ArrayForEach(e, ignored)
	{
		const char *path = cJSON_GetStringValue(e);
		if (path == NULL || *path == '\0')
			return rp_fail(err, RP_FORMAT, "%s: predicate.serialization.ignore_paths: expected paths", name);
		if ((out->ignored[out->n_ignored++] = rp_arena_strndup(&out->arena, path, strlen(path))) == NULL)
			return rp_no_memory(err, strlen(path), name);
	}
	return RP_OK;
}

static bool read_number(const char **at, char end, uint64_t *out)
{
	uint64_t v = 0;
	const char *s = *at;
	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++)
		if (!rp_mul_u64(v, 10, &v) || !rp_add_u64(v, (uint64_t)(*s - '0'), &v))
			return false;
	*at = s + 1;
	*out = v;
	return *s == end;
}

typedef struct statement {
	const char *name;
	rp_oms *out;
	rp_oms_shard *shards;
	size_t n_shards;
	rp_error *err;
} statement;

/* "path:start:end", in order. */
static rp_code add_shard(statement *s, const char *resource, const unsigned char digest[32])
{
	rp_oms *out = s->out;
	const char *colon = strchr(resource, ':'), *at = colon != NULL ? colon + 1 : resource;
	rp_oms_shard shard;
	if (colon == NULL || !read_number(&at, ':', &shard.start) || !read_number(&at, '\0', &shard.end) || shard.start >= shard.end)
		return rp_fail(s->err, RP_FORMAT, "%s: predicate.resources[].name: expected \"path:start:end\"", s->name);
	memcpy(shard.digest, digest, 32);
	size_t len = (size_t)(colon - resource);
	bool more = out->n_files > 0 && strlen(out->files[out->n_files - 1].path) == len &&
		memcmp(out->files[out->n_files - 1].path, resource, len) == 0;
	out->n_files += !more;
	rp_oms_file *f = &out->files[out->n_files - 1];
	if (!more) {
		*f = (rp_oms_file){.path = rp_arena_strndup(&out->arena, resource, len), .shards = &s->shards[s->n_shards]};
		if (f->path == NULL)
			return rp_no_memory(s->err, len, s->name);
	}
	if (shard.start != (f->n_shards > 0 ? f->shards[f->n_shards - 1].end : 0))
		return rp_fail(s->err, RP_FORMAT, "%s: predicate.resources[].name: the shards of a file do not follow each other", s->name);
	s->shards[s->n_shards++] = shard;
	f->n_shards++;
	return RP_OK;
}

static rp_code add_resource(statement *s, const cJSON *resource, rp_sha256 *root)
{
	rp_oms *out = s->out;
	const char *path = text_of(resource, "name"), *digest_text = text_of(resource, "digest"), *algorithm = text_of(resource, "algorithm");
	unsigned char digest[32];
	const char *hash = out->blake3 ? "blake3" : "sha256";
	if (strncmp(algorithm, hash, 6) != 0 || (algorithm[6] != '\0' && !(out->sharded && algorithm[6] == '-')))
		return rp_fail(s->err, RP_FORMAT, "%s: predicate.resources[].algorithm: is not the hash_type", s->name);
	if (!rp_unhex(digest, sizeof digest, digest_text, strlen(digest_text)))
		return rp_fail(s->err, RP_FORMAT, "%s: predicate.resources[].digest: expected 64 hexadecimal digits", s->name);
	rp_sha256_update(root, digest, sizeof digest);
	rp_code code = RP_OK;
	if (out->sharded) {
		code = add_shard(s, path, digest);
	} else {
		rp_oms_file *f = &out->files[out->n_files++];
		f->path = rp_arena_strndup(&out->arena, path, strlen(path));
		memcpy(f->digest, digest, sizeof digest);
		code = f->path == NULL ? rp_no_memory(s->err, strlen(path), s->name) : RP_OK;
	}
	if (code == RP_OK && !is_safe_path(out->files[out->n_files - 1].path)) {
		char shown[100];
		code = rp_fail(s->err, RP_FORMAT, "%s: predicate.resources[].name: \"%s\" does not stay in the model's folder", s->name,
			rp_show(shown, sizeof shown, path, strlen(path)));
	}
	return code;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const rp_oms_file *)a)->path, ((const rp_oms_file *)b)->path);
}

static rp_code check_paths(const statement *s)
{
	rp_oms *out = s->out;
	if (out->n_files > 1)
		qsort(out->files, out->n_files, sizeof *out->files, by_path);
	for (size_t i = 0; out->n_files > 1 && i < out->n_files; i++) {
		if (strcmp(out->files[i].path, ".") == 0)
			return rp_fail(s->err, RP_FORMAT, "%s: predicate.resources[].name: \".\", the model as one file, among others", s->name);
		if (i > 0 && strcmp(out->files[i - 1].path, out->files[i].path) == 0)
			return rp_fail(s->err, RP_FORMAT, "%s: predicate.resources[].name: a file is there twice", s->name);
	}
	return RP_OK;
}

static rp_code read_resources(statement *s, const cJSON *list, const char *root_text)
{
	rp_oms *out = s->out;
	unsigned char want[32], found[32];
	rp_sha256 *root = NULL;
	const cJSON *e;
	size_t n = (size_t)cJSON_GetArraySize(list);
	if (!cJSON_IsArray(list))
		return rp_fail(s->err, RP_FORMAT, "%s: predicate.resources: expected an array", s->name);
	if (!rp_unhex(want, sizeof want, root_text, strlen(root_text)))
		return rp_fail(s->err, RP_FORMAT, "%s: subject[0].digest.sha256: expected 64 hexadecimal digits", s->name);
	out->files = rp_arena_array(&out->arena, n + 1, sizeof *out->files);
	s->shards = rp_arena_array(&out->arena, n + 1, sizeof *s->shards);
	if (out->files == NULL || s->shards == NULL)
		return rp_no_memory(s->err, n * sizeof *out->files, s->name);
	rp_code code = rp_sha256_new(&root, s->err);
	for (e = list->child; e != NULL && code == RP_OK; e = e->next)
		code = add_resource(s, e, root);
	if (code == RP_OK) {
		rp_sha256_final(root, found);
		if (memcmp(found, want, sizeof want) != 0)
			code = rp_fail(s->err, RP_SIGNATURE, "%s: subject[0].digest.sha256: is not the hash of the resources' digests", s->name);
	}
	rp_sha256_free(root);
	return code == RP_OK ? check_paths(s) : code;
}

static rp_code read_statement(const char *name, const cJSON *v, rp_oms *out, rp_error *err)
{
	statement s = {.name = name, .out = out, .err = err};
	const cJSON *subject = cJSON_GetObjectItemCaseSensitive(v, "subject"), *predicate = cJSON_GetObjectItemCaseSensitive(v, "predicate");
	rp_code code = need(name, v, "", "_type", "https://in-toto.io/Statement/v1", err);
	if (code == RP_OK)
		code = need(name, v, "", "predicateType", "https://model_signing/signature/v1.0", err);
	if (code == RP_OK && (!cJSON_IsArray(subject) || cJSON_GetArraySize(subject) != 1))
		code = rp_fail(err, RP_FORMAT, "%s: subject: expected one", name);
	if (code != RP_OK)
		return code;
	const char *model = text_of(subject->child, "name");
	if ((out->model = rp_arena_strndup(&out->arena, model, strlen(model))) == NULL)
		return rp_no_memory(err, strlen(model), name);
	code = read_serialization(name, cJSON_GetObjectItemCaseSensitive(predicate, "serialization"), out, err);
	return code == RP_OK ? read_resources(&s, cJSON_GetObjectItemCaseSensitive(predicate, "resources"),
		text_of(cJSON_GetObjectItemCaseSensitive(subject->child, "digest"), "sha256")) : code;
}

rp_code rp_oms_statement(const char *name, const char *text, size_t n, rp_oms *out, rp_error *err)
{
	cJSON *v = NULL;
	*out = (rp_oms){.n_files = 0};
	rp_arena_init(&out->arena, 0);
	rp_code code = rp_json_parse(name, text, n, &v, err);
	if (code == RP_OK)
		code = read_statement(name, v, out, err);
	cJSON_Delete(v);
	return code;
}

rp_code rp_oms_verify(const char *name, const char *text, size_t n, const rp_public_key *key, rp_oms *out, rp_error *err)
{
	cJSON *bundle = NULL;
	char *payload = NULL;
	size_t n_payload = 0;
	*out = (rp_oms){.n_files = 0};
	rp_arena_init(&out->arena, 0);
	if (key->kind == RP_KEY_ED25519)
		return rp_fail(err, RP_USAGE, "%s: model signatures are made with keys of P-256, P-384 or P-521, the key given is Ed25519", name);
	rp_code code = rp_json_parse(name, text, n, &bundle, err);
	if (code == RP_OK)
		code = need(name, bundle, "", "mediaType", "application/vnd.dev.sigstore.bundle.v0.3+json", err);
	if (code == RP_OK)
		code = check_material(name, bundle, key, err);
	if (code == RP_OK)
		code = check_envelope(name, cJSON_GetObjectItemCaseSensitive(bundle, "dsseEnvelope"), key, &payload, &n_payload, err);
	cJSON_Delete(bundle);
	if (code == RP_OK)
		code = rp_oms_statement(name, payload, n_payload, out, err);
	free(payload);
	return code;
}

void rp_oms_free(rp_oms *oms)
{
	rp_arena_free(&oms->arena);
	*oms = (rp_oms){.n_files = 0};
}

bool rp_oms_ignores(const rp_oms *oms, const char *path)
{
	for (size_t i = 0; i < oms->n_ignored; i++) {
		size_t n = strlen(oms->ignored[i]);
		if (strncmp(path, oms->ignored[i], n) == 0 && (path[n] == '\0' || path[n] == '/'))
			return true;
	}
	return false;
}
