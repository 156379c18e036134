/* Writing model signatures: statement, envelope, bundle, as oms.c reads them. */
#include "oms.h"

#include "base/jsonw.h"
#include "hash/hash.h"

#include <string.h>

#define PAYLOAD_TYPE "application/vnd.in-toto+json"

static rp_code root_digest(const rp_oms *model, char hex[RP_HASH_HEX], rp_error *err)
{
	unsigned char sum[RP_HASH_BYTES];
	rp_sha256 *h = NULL;
	rp_code code = rp_sha256_new(&h, err);
	if (code != RP_OK)
		return code;
	for (size_t i = 0; i < model->n_files; i++)
		rp_sha256_update(h, model->files[i].digest, sizeof model->files[i].digest);
	rp_sha256_final(h, sum);
	rp_sha256_free(h);
	rp_hex(hex, sum, sizeof sum);
	return RP_OK;
}

static void predicate(const rp_oms *model, rp_jsonw *w)
{
	const char *hash = model->blake3 ? "blake3" : "sha256";
	char hex[RP_HASH_HEX];
	rp_jsonw_key(w, "serialization");
	rp_jsonw_object(w);
	rp_jsonw_pair_str(w, "method", "files");
	rp_jsonw_pair_str(w, "hash_type", hash);
	rp_jsonw_pair_bool(w, "allow_symlinks", model->links);
	rp_jsonw_key(w, "ignore_paths");
	rp_jsonw_array(w);
	for (size_t i = 0; i < model->n_ignored; i++)
		rp_jsonw_str(w, model->ignored[i]);
	rp_jsonw_end(w);
	rp_jsonw_end(w);
	rp_jsonw_key(w, "resources");
	rp_jsonw_array(w);
	for (size_t i = 0; i < model->n_files; i++) {
		rp_jsonw_object(w);
		rp_jsonw_pair_str(w, "name", model->files[i].path);
		rp_jsonw_pair_str(w, "algorithm", hash);
		rp_jsonw_pair_str(w, "digest", rp_hex(hex, model->files[i].digest, RP_HASH_BYTES));
		rp_jsonw_end(w);
	}
	rp_jsonw_end(w);
}

static rp_code statement(const rp_oms *model, rp_buf *out, rp_error *err)
{
	char root[RP_HASH_HEX];
	rp_jsonw w;
	rp_code code = root_digest(model, root, err);
	if (code != RP_OK)
		return code;
	rp_jsonw_init(&w, out);
	rp_jsonw_object(&w);
	rp_jsonw_pair_str(&w, "_type", "https://in-toto.io/Statement/v1");
	rp_jsonw_key(&w, "subject");
	rp_jsonw_array(&w);
	rp_jsonw_object(&w);
	rp_jsonw_pair_str(&w, "name", model->model);
	rp_jsonw_key(&w, "digest");
	rp_jsonw_object(&w);
	rp_jsonw_pair_str(&w, "sha256", root);
	rp_jsonw_end(&w);
	rp_jsonw_end(&w);
	rp_jsonw_end(&w);
	rp_jsonw_pair_str(&w, "predicateType", "https://model_signing/signature/v1.0");
	rp_jsonw_key(&w, "predicate");
	rp_jsonw_object(&w);
	predicate(model, &w);
	rp_jsonw_end(&w);
	rp_jsonw_end(&w);
	return rp_jsonw_ok(&w) ? RP_OK : rp_no_memory(err, out->len, "a statement");
}

static rp_code bundle(const rp_buf *payload, const rp_buf *sig, const char *hint, rp_buf *out, rp_error *err)
{
	rp_jsonw w;
	rp_buf text;
	rp_buf_init(&text, 0);
	rp_jsonw_init(&w, out);
	rp_jsonw_object(&w);
	rp_jsonw_pair_str(&w, "mediaType", "application/vnd.dev.sigstore.bundle.v0.3+json");
	rp_jsonw_key(&w, "verificationMaterial");
	rp_jsonw_object(&w);
	rp_jsonw_key(&w, "publicKey");
	rp_jsonw_object(&w);
	rp_jsonw_pair_str(&w, "hint", hint);
	rp_jsonw_end(&w);
	rp_jsonw_key(&w, "tlogEntries");
	rp_jsonw_array(&w);
	rp_jsonw_end(&w);
	rp_jsonw_end(&w);
	rp_jsonw_key(&w, "dsseEnvelope");
	rp_jsonw_object(&w);
	bool ok = rp_base64_append(RP_BASE64, payload->data, payload->len, &text);
	rp_jsonw_key(&w, "payload");
	rp_jsonw_strn(&w, text.data, text.len);
	rp_jsonw_pair_str(&w, "payloadType", PAYLOAD_TYPE);
	rp_buf_clear(&text);
	ok = ok && rp_base64_append(RP_BASE64, sig->data, sig->len, &text);
	rp_jsonw_key(&w, "signatures");
	rp_jsonw_array(&w);
	rp_jsonw_object(&w);
	rp_jsonw_key(&w, "sig");
	rp_jsonw_strn(&w, text.data, text.len);
	rp_jsonw_pair_str(&w, "keyid", "");
	rp_jsonw_end(&w);
	rp_jsonw_end(&w);
	rp_jsonw_end(&w);
	rp_jsonw_end(&w);
	rp_jsonw_line(&w);
	rp_buf_free(&text);
	return ok && rp_jsonw_ok(&w) ? RP_OK : rp_no_memory(err, out->len, "a model signature");
}

rp_code rp_oms_sign(const rp_oms *model, const rp_identity *id, rp_buf *out, rp_error *err)
{
	char hint[RP_HASH_HEX];
	rp_buf payload, signed_text, sig;
	rp_buf_init(&payload, 0);
	rp_buf_init(&signed_text, 0);
	rp_buf_init(&sig, 0);
	rp_code code = rp_public_key_pem_sha256(&id->key, hint, err);
	if (code == RP_OK)
		code = statement(model, &payload, err);
	if (code == RP_OK) {
		rp_buf_addf(&signed_text, "DSSEv1 %zu %s %zu ", sizeof PAYLOAD_TYPE - 1, PAYLOAD_TYPE, payload.len);
		code = rp_buf_add(&signed_text, payload.data, payload.len) ?
			rp_identity_sign_der(id, signed_text.data, signed_text.len, &sig, err) : rp_no_memory(err, payload.len, "a statement");
	}
	if (code == RP_OK)
		code = bundle(&payload, &sig, hint, out, err);
	rp_buf_free(&payload);
	rp_buf_free(&signed_text);
	rp_buf_free(&sig);
	return code;
}
