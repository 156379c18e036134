/* Canonical JSON, keys, identities, signatures of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "hash/hash.h"
#include "model/model.h"
#include "sign/sign.h"

static rp_error err;

static cJSON *parse(const char *text)
{
	cJSON *v = NULL;
	assert_int_equal(rp_json_parse("test", text, strlen(text), &v, &err), RP_OK);
	return v;
}

static void canonical_is(const char *text, rp_key_order order, const char *want)
{
	cJSON *v = parse(text);
	rp_buf out;
	rp_buf_init(&out, 0);
	assert_int_equal(rp_canonical(v, order, &out, &err), RP_OK);
	assert_string_equal(out.data, want);
	rp_buf_free(&out);
	cJSON_Delete(v);
}

static void numbers(void **state)
{
	(void)state;
	/* as ECMAScript prints them */
	static const char *const cases[][2] = {{"0", "0"}, {"-0", "0"}, {"-0.0", "0"}, {"1", "1"}, {"-1", "-1"}, {"1.0", "1"}, {"1e3", "1000"},
		{"123456789", "123456789"}, {"9007199254740991", "9007199254740991"}, {"9007199254740993", "9007199254740992"},
		{"1e20", "100000000000000000000"}, {"123456789012345678901", "123456789012345680000"}, {"1e21", "1e+21"},
		{"1.5e21", "1.5e+21"}, {"1e-6", "0.000001"}, {"1.5e-6", "0.0000015"}, {"1e-7", "1e-7"}, {"1.25e-7", "1.25e-7"},
		{"0.1", "0.1"}, {"0.30000000000000004", "0.30000000000000004"}, {"12.5", "12.5"}, {"5e-324", "5e-324"},
		{"1.7976931348623157e308", "1.7976931348623157e+308"}, {"5.684341886080802e-14", "5.684341886080802e-14"},
		{"2.2250738585072014e-308", "2.2250738585072014e-308"}, {"4.35", "4.35"}, {"1e23", "1e+23"}, {"0.000001234", "0.000001234"},
		{"9.5367431640625e-7", "9.5367431640625e-7"}, {"99999999999999980000", "99999999999999980000"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		canonical_is(cases[i][0], RP_KEYS_PLAIN, cases[i][1]);
}

static void strings_and_order(void **state)
{
	(void)state;
	canonical_is(" { \"b\" : [ 1 , true, null , \"x\" ] , \"a\" : { } } ", RP_KEYS_PLAIN, "{\"a\":{},\"b\":[1,true,null,\"x\"]}");
	canonical_is("\"\\u0001\\b\\t\\n\\u000b\\f\\r\\u001F\\\"\\\\\\/\\u007f\\u00e9\\ud83d\\ude00\\u2028\"", RP_KEYS_PLAIN,
		"\"\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f\\\"\\\\/\x7f\xc3\xa9\xf0\x9f\x98\x80\xe2\x80\xa8\"");
	/* U+1F600 is a surrogate pair, which sorts before U+FF5E by code units and after it by code points */
	canonical_is("{\"\xef\xbd\x9e\":1,\"\xf0\x9f\x98\x80\":2,\"\xc3\xa9\":3,\"z\":4}", RP_KEYS_PLAIN,
		"{\"z\":4,\"\xc3\xa9\":3,\"\xf0\x9f\x98\x80\":2,\"\xef\xbd\x9e\":1}");
	canonical_is("{\"B\":1,\"a\":2,\"b\":3,\"A\":4,\"1\":5,\"ab\":6}", RP_KEYS_PLAIN, "{\"1\":5,\"A\":4,\"B\":1,\"a\":2,\"ab\":6,\"b\":3}");
	canonical_is("{\"B\":1,\"a\":2,\"b\":3,\"A\":4,\"1\":5,\"ab\":6}", RP_KEYS_LOCALE, "{\"1\":5,\"a\":2,\"A\":4,\"ab\":6,\"b\":3,\"B\":1}");
	cJSON *v = parse("{\"a_b\":1}");
	rp_buf out;
	rp_buf_init(&out, 0);
	assert_int_equal(rp_canonical(v, RP_KEYS_LOCALE, &out, &err), RP_UNSUPPORTED);
	rp_buf_free(&out);
	cJSON_Delete(v);
}

static void digest_is(const char *text, rp_key_order order, const char *want)
{
	unsigned char sum[32];
	char digest[RP_DIGEST_TEXT];
	cJSON *v = parse(text);
	assert_int_equal(rp_canonical_sha256(v, order, sum, &err), RP_OK);
	assert_string_equal(rp_digest_text(digest, sum), want);
	cJSON_Delete(v);
}

static void two_orders_two_digests(void **state)
{
	(void)state;
#define ONES "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define TWOS "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	static const char index[] = "{\"schema\":\"reploid.pool.pack-custody-index/v2\",\"artifactSetIdentity\":\"" ONES
		"\",\"artifacts\":[{\"artifactId\":\"a.bin\",\"hash\":\"" TWOS
		"\",\"sizeBytes\":5,\"chunks\":[{\"index\":0,\"offset\":0,\"sizeBytes\":5,\"hash\":\"" TWOS "\"}]}]}";
	digest_is(index, RP_KEYS_LOCALE, "sha256:2d559758b4882198b54073a736bd6c775e0dda6a294da4fe43370247dd76a2df");
	digest_is(index, RP_KEYS_PLAIN, "sha256:c22a441535fda4cb846fa5913877079288dae885ab828e0765260cc7507e6d42");
	digest_is("[{\"role\":\"model-weights\",\"path\":\"a.bin\",\"artifactId\":\"a.bin\",\"sizeBytes\":5,\"hash\":"
		"\"sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\"}]", RP_KEYS_LOCALE,
		"sha256:5f92e3941b8a0126a939c3906fa135af7e4e125045b49c4cc1310b44664f2b01");
}

static void fingerprints(void **state)
{
	(void)state;
	unsigned char sum[32];
	char text[RP_DIGEST_TEXT];
	cJSON *v = parse("{\"b\":\"x\",\"a\":1}");
	assert_int_equal(rp_fingerprint(v, "\1\2\3", 3, sum, &err), RP_OK);
	assert_string_equal(rp_digest_text(text, sum), "sha256:170324488310454c049b84c4c1660673729a210c231a89dd5a365891eac967bf");
	cJSON_Delete(v);
	v = parse("{\"maxSeqLen\":8192,\"maxTokens\":16,\"presencePenalty\":0,\"repetitionPenalty\":1,\"repetitionPenaltyWindow\":0,\"stopSequences\":[],"
		"\"suppressTokenIds\":[],\"temperature\":0,\"topK\":1,\"topP\":1,\"useChatTemplate\":true}");
	assert_int_equal(rp_fingerprint(v, NULL, 0, sum, &err), RP_OK);
	assert_string_equal(rp_digest_text(text, sum), "sha256:20da4ccc4b7b89119dbef69378ae86e6d84df470b423c71a09fccb8218137150");
	cJSON_Delete(v);
}

static void utf16_lengths(void **state)
{
	(void)state;
	assert_int_equal(rp_utf16_length(""), 0);
	assert_int_equal(rp_utf16_length("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 5);
}

static void base64_is_strict(void **state)
{
	(void)state;
	unsigned char out[4];
	assert_true(rp_base64_exact(RP_BASE64, "AQI=", 4, out, 2));
	assert_true(rp_base64_exact(RP_BASE64URL, "AQI", 3, out, 2));
	assert_true(rp_base64_exact(RP_BASE64URL, "-_8", 3, out, 2));
	static const char *const bad[] = {"AQI", "AQJ=", "AQI==", "AQ I=", "AQI=\n", "-_8=", "====", "A"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(rp_base64_exact(RP_BASE64, bad[i], strlen(bad[i]), out, 2));
	assert_false(rp_base64_exact(RP_BASE64URL, "AQI=", 4, out, 2));
	assert_false(rp_base64_exact(RP_BASE64, "AQIDBAUG", 8, out, 4));
	for (size_t n = 0; n < 40; n++) {
		unsigned char bytes[40], back[40];
		rp_buf text;
		rp_buf_init(&text, 0);
		for (size_t i = 0; i < n; i++)
			bytes[i] = (unsigned char)(i * 7);
		for (int form = RP_BASE64; form <= RP_BASE64URL; form++) {
			rp_buf_clear(&text);
			assert_true(rp_base64_append((rp_base64)form, bytes, n, &text));
			assert_int_equal(strlen(n > 0 ? text.data : ""), text.len);
			assert_true(rp_base64_exact((rp_base64)form, text.data, text.len, back, n));
			assert_memory_equal(bytes, back, n);
		}
		rp_buf_free(&text);
	}
}

/* RFC 8032, test 1 */
#define X1 "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"

static void participants(void **state)
{
	(void)state;
	char id[RP_PARTICIPANT];
	cJSON *jwk = parse("{\"x\":\"" X1 "\",\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"key_ops\":[\"verify\"],\"ext\":true,\"y\":\"\"}");
	assert_int_equal(rp_participant_id(jwk, id, &err), RP_OK);
	assert_string_equal(id, "peer:43b79aea0bfc2a2f7443bb52");
	assert_true(rp_is_participant(id));
	assert_false(rp_is_participant("peer:43b79aea0bfc2a2f7443bb5"));
	assert_false(rp_is_participant("peer:43B79aea0bfc2a2f7443bb52"));
	rp_public_key key;
	assert_int_equal(rp_public_key_of_jwk("t", "key", jwk, &key, &err), RP_OK);
	static const char text[] = "[\"reploid.mesh-recipient/v1\",\"reploid-swarm-public\",\"11111111-1111-4111-8111-111111111111\",\"peer_req\",\"peer_prov\","
		"\"sha-256 aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa:aa\","
		"\"sha-256 bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb:bb\","
		"\"peer:43b79aea0bfc2a2f7443bb52\"]";
	static const char sig_text[] = "PKsP7WzxehOUB98_dzFoeYLNl1uQJJ7HIER5pITkOaX2oCWrUwuH2_kWUYol_oARqX400V_5RCVF6bkAqYzqCg";
	unsigned char sig[64];
	assert_true(rp_base64_exact(RP_BASE64URL, sig_text, strlen(sig_text), sig, 64));
	assert_true(rp_signature_ok(&key, RP_SIG_RAW, text, strlen(text), sig, 64));
	sig[5] ^= 1;
	assert_false(rp_signature_ok(&key, RP_SIG_RAW, text, strlen(text), sig, 64));
	cJSON_Delete(jwk);
}

static void jwk_fails(const char *text, rp_code want, const char *says)
{
	rp_public_key key;
	cJSON *jwk = parse(text);
	assert_int_equal(rp_public_key_of_jwk("file", "providerKey", jwk, &key, &err), want);
	assert_non_null(strstr(err.msg, says));
	cJSON_Delete(jwk);
}

static void bad_keys(void **state)
{
	(void)state;
	jwk_fails("{}", RP_FORMAT, "providerKey");
	jwk_fails("{\"kty\":\"OKP\",\"crv\":\"Ed25519\"}", RP_FORMAT, "providerKey.x");
	jwk_fails("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}", RP_FORMAT, "providerKey.x");
	jwk_fails("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"" X1 "=\"}", RP_FORMAT, "providerKey.x");
	jwk_fails("{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"" X1 "\"}", RP_UNSUPPORTED, "Ed25519");
	jwk_fails("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" X1 "\",\"y\":\"" X1 "\"}", RP_FORMAT, "no point");
}

static char *temporary(const char *name)
{
	static char folder[64];
	if (folder[0] == '\0') {
		snprintf(folder, sizeof folder, "/tmp/test_sign.XXXXXX");
		assert_non_null(mkdtemp(folder));
	}
	return rp_asprintf("%s/%s", folder, name);
}

static void identity_round_trip(rp_key_kind kind)
{
	rp_identity id, back;
	struct stat st;
	unsigned char sig[RP_SIG_BYTES];
	char *path = temporary(kind == RP_KEY_P256 ? "p256" : "ed");
	assert_int_equal(rp_identity_new(kind, &id, &err), RP_OK);
	assert_int_equal(rp_identity_save(&id, path, 1767225600000, &err), RP_OK);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(rp_identity_save(&id, path, 0, &err), RP_WRITE); /* never replaced */
	assert_int_equal(rp_identity_load(path, NULL, &back, &err), RP_OK);
	assert_string_equal(back.participant, id.participant);
	assert_memory_equal(back.secret, id.secret, id.n_secret);
	assert_int_equal(rp_identity_sign(&back, "message", 7, sig, &err), RP_OK);
	assert_true(rp_signature_ok(&id.key, RP_SIG_RAW, "message", 7, sig, sizeof sig));
	assert_false(rp_signature_ok(&id.key, RP_SIG_RAW, "messagf", 7, sig, sizeof sig));
	assert_false(rp_signature_ok(&id.key, RP_SIG_RAW, "message", 7, sig, sizeof sig - 1));
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(rp_identity_load(path, NULL, &back, &err), RP_READ);
	assert_non_null(strstr(err.msg, "chmod 600"));
	unlink(path);
	free(path);
	rp_identity_wipe(&id);
	rp_identity_wipe(&back);
}

static void identities(void **state)
{
	(void)state;
	identity_round_trip(RP_KEY_ED25519);
	identity_round_trip(RP_KEY_P256);
}

static void identity_fails(const char *text, const char *says)
{
	rp_identity id;
	char *path = temporary("bad");
	assert_int_equal(rp_write_file(path, text, strlen(text), 0600, &err), RP_OK);
	assert_int_not_equal(rp_identity_load(path, NULL, &id, &err), RP_OK);
	if (strstr(err.msg, says) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
	unlink(path);
	free(path);
}

static void bad_identities(void **state)
{
	(void)state;
	/* the secret of RFC 8032's test 1 */
#define D1 "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
#define PUB "\"publicJwk\":{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"" X1 "\"}"
	identity_fails("{\"version\":2}", "version");
	identity_fails("{\"version\":1,\"algorithm\":\"RSA\"}", "algorithm");
	identity_fails("{\"version\":1,\"algorithm\":\"Ed25519\"," PUB "}", "privateJwk.d");
	identity_fails("{\"version\":1,\"algorithm\":\"Ed25519\"," PUB ",\"privateJwk\":{\"d\":\"" X1 "\"}}", "not the secret of");
	identity_fails("{\"version\":1,\"algorithm\":\"Ed25519\",\"peerId\":\"peer:bbbbbbbbbbbbbbbbbbbbbbbb\"," PUB ",\"privateJwk\":{\"d\":\"" D1 "\"}}",
		"peerId");
	identity_fails("{\"version\":1,\"version\":1}", "twice");
	identity_fails("untrusted comment: x\nAAAA\n", "expected a secret key");
	identity_fails("", "expected a secret key");
}

static rp_code tell_passphrase(void *context, const char *path, char out[RP_PASSPHRASE_MAX], rp_error *e)
{
	const char *text = context;
	if (text == NULL)
		return rp_fail(e, RP_CANCELLED, "%s: nobody answers", path);
	snprintf(out, RP_PASSPHRASE_MAX, "%s", text);
	return RP_OK;
}

/* A key in minisign's form, encrypted with scrypt at its lowest cost, for the passphrase "pw". */
#define SEALED "untrusted comment: x\n" \
	"RWRTY0IyAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8AgAAAAAAAAAAAAAEAAAAAEcQuIta2rYg6l568fjdP86cdFmDhHDq+URrjAv" \
	"RTRpfO/d2yqRJuQdxUg0HY+jMoyZRCbeAWB5eOiBDBJwFvv34AIy5wvfIzJFp7abl5v0Y1U/CWh0VmV0biB4uRbYCrNkXikivM08Y=\n"

static void parse_gives(const char *text, size_t n, char *passphrase, rp_code code, const char *says)
{
	rp_identity id;
	const rp_passphrase asked = {tell_passphrase, passphrase};
	err.msg[0] = '\0';
	rp_code got = rp_identity_parse("key", text, n, strcmp(says, "no passphrase") == 0 ? NULL : &asked, &id, &err);
	if (got != code || (code != RP_OK && strstr(err.msg, says) == NULL))
		fail_msg("got %d \"%s\" for \"%s\"", (int)got, err.msg, says);
	if (got == RP_OK) {
		assert_int_equal(id.form, RP_SECRET_MINISIGN);
		assert_string_equal(id.participant, "peer:43b79aea0bfc2a2f7443bb52");
		rp_identity_wipe(&id);
	}
}

static void encrypted_keys(void **state)
{
	(void)state;
	char text[] = SEALED, right[] = "pw", wrong[] = "pW";
	size_t n = strlen(text);
	parse_gives(text, n, right, RP_OK, "");
	parse_gives(text, n, wrong, RP_FORMAT, "the passphrase is wrong");
	parse_gives(text, n, NULL, RP_CANCELLED, "nobody answers");
	parse_gives(text, n, NULL, RP_UNSUPPORTED, "no passphrase");
	for (size_t i = 0; i < n - 1; i++)
		parse_gives(text, i, right, RP_FORMAT, "expected a secret key");
	/* a byte of letters, limits, number, key and checksum each */
	static const struct {
		size_t at;
		rp_code code;
		const char *says;
	} changes[] = {{2, RP_UNSUPPORTED, "not minisign's"}, {4, RP_UNSUPPORTED, "not minisign's"}, {45, RP_UNSUPPORTED, "wants more work"},
		{53, RP_UNSUPPORTED, "wants more work"}, {10, RP_FORMAT, "passphrase is wrong"}, {56, RP_FORMAT, "passphrase is wrong"},
		{100, RP_FORMAT, "passphrase is wrong"}, {157, RP_FORMAT, "passphrase is wrong"}};
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		unsigned char raw[158];
		rp_buf changed;
		rp_buf_init(&changed, 0);
		const char *line = strchr(text, '\n') + 1;
		assert_true(rp_base64_exact(RP_BASE64, line, strlen(line) - 1, raw, sizeof raw));
		raw[changes[i].at] ^= 0x40;
		rp_buf_adds(&changed, "untrusted comment: x\n");
		rp_base64_append(RP_BASE64, raw, sizeof raw, &changed);
		parse_gives(changed.data, changed.len, right, changes[i].code, changes[i].says);
		rp_buf_free(&changed);
	}
}

static void own_minisign(void **state)
{
	(void)state;
	rp_identity id;
	rp_public_key key;
	rp_filesig sig;
	rp_buf pub, text;
	char *path = temporary("data");
	rp_buf_init(&pub, 0);
	rp_buf_init(&text, 0);
	assert_int_equal(rp_write_file(path, "some bytes", 10, 0600, &err), RP_OK);
	assert_int_equal(rp_identity_new(RP_KEY_ED25519, &id, &err), RP_OK);
	assert_int_equal(rp_identity_minisign_pub(&id, &pub, &err), RP_OK);
	assert_int_equal(rp_public_key_parse("pub", pub.data, pub.len, &key, &err), RP_OK);
	assert_int_equal(rp_minisign_sign(&id, path, "line\nbreak", 0, &text, &err), RP_OK);
	assert_int_equal(rp_filesig_parse("sig", text.data, text.len, &sig, &err), RP_OK);
	assert_int_equal(sig.kind, RP_FILESIG_MINISIGN);
	assert_memory_equal(sig.trusted, "line?break", sig.n_trusted);
	assert_int_equal(rp_filesig_verify(&sig, "sig", path, &key, &err), RP_OK);
	assert_int_equal(rp_filesig_verify_bytes(&sig, "sig", path, "some bytes", 10, &key, &err), RP_OK);
	assert_int_equal(rp_filesig_verify_bytes(&sig, "sig", path, "some bytez", 10, &key, &err), RP_SIGNATURE);
	/* the trusted comment is signed too */
	strstr(text.data, "line")[0] = 'L';
	assert_int_equal(rp_filesig_parse("sig", text.data, text.len, &sig, &err), RP_OK);
	assert_int_equal(rp_filesig_verify(&sig, "sig", path, &key, &err), RP_SIGNATURE);
	assert_non_null(strstr(err.msg, "trusted comment"));
	key.id[0] ^= 1;
	assert_int_equal(rp_filesig_verify(&sig, "sig", path, &key, &err), RP_SIGNATURE);
	assert_non_null(strstr(err.msg, "made with key"));
	unlink(path);
	free(path);
	rp_buf_free(&pub);
	rp_buf_free(&text);
	rp_identity_wipe(&id);
}

static void bad_filesigs(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "\n", "untrusted comment: x", "untrusted comment: x\n", "untrusted comment: x\nRWQ=\n", "comment: x\nRWQ=\n"};
	rp_filesig sig;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(rp_filesig_parse("sig", bad[i], strlen(bad[i]), &sig, &err), RP_FORMAT);
	/* every prefix of a good one is refused or is another kind */
	rp_identity id;
	rp_buf text;
	char *path = temporary("prefix");
	rp_buf_init(&text, 0);
	assert_int_equal(rp_write_file(path, "x", 1, 0600, &err), RP_OK);
	assert_int_equal(rp_identity_new(RP_KEY_ED25519, &id, &err), RP_OK);
	assert_int_equal(rp_minisign_sign(&id, path, NULL, 5, &text, &err), RP_OK);
	for (size_t n = 0; n < text.len - 1; n++)
		assert_int_equal(rp_filesig_parse("sig", text.data, n, &sig, &err), RP_FORMAT);
	rp_buf_addc(&text, 'x');
	assert_int_equal(rp_filesig_parse("sig", text.data, text.len, &sig, &err), RP_FORMAT);
	unlink(path);
	free(path);
	rp_buf_free(&text);
	rp_identity_wipe(&id);
}

static int remove_folder(void **state)
{
	(void)state;
	char *path = temporary("");
	rmdir(path);
	free(path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(strings_and_order), cmocka_unit_test(two_orders_two_digests),
		cmocka_unit_test(fingerprints), cmocka_unit_test(utf16_lengths), cmocka_unit_test(base64_is_strict), cmocka_unit_test(participants),
		cmocka_unit_test(bad_keys), cmocka_unit_test(identities), cmocka_unit_test(bad_identities), cmocka_unit_test(encrypted_keys), cmocka_unit_test(own_minisign),
		cmocka_unit_test(bad_filesigs)};
	return cmocka_run_group_tests(tests, NULL, remove_folder);
}
