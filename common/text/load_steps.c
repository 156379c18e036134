/* The parts of a tokenizer.json around the model: normalizer, pre-tokenizer, added tokens, post-processor, decoder. */
#include "internal.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char GPT2_PATTERN[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* The Digits step knows two blocks of Unicode 17; the regular expressions of the same library do not. */
const char DIGITS_PATTERN[] = "[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]";

/* What a message says about where it is: file and part. */
typedef struct place {
	rp_tokenizer *t;
	const char *file, *part;
	rp_error *err;
	unsigned depth;
} place;

static rp_code unsupported(const place *p, const char *what, const char *value)
{
	char shown[120];
	return rp_fail(p->err, RP_UNSUPPORTED, "%s: %s: %s \"%s\" is not known to this build", p->file, p->part, what,
		rp_show(shown, sizeof shown, value, strlen(value)));
}

static rp_code wrong(const place *p, const char *type, const char *field, const char *want)
{
	return rp_fail(p->err, RP_FORMAT, "%s: %s: %s.%s must be %s", p->file, p->part, type, field, want);
}

/* Every field of v is in the list "type|pattern|...". */
static rp_code only_fields(const place *p, const cJSON *v, const char *list)
{
	for (const cJSON *e = v->child; e != NULL; e = e->next) {
		const char *at = strstr(list, e->string);
		size_t n = strlen(e->string);
		while (at != NULL && ((at != list && at[-1] != '|') || (at[n] != '|' && at[n] != '\0')))
			at = strstr(at + 1, e->string);
		if (at == NULL || n == 0)
			return unsupported(p, "field", e->string);
	}
	return RP_OK;
}

static const char *type_of(const cJSON *v)
{
	const cJSON *type = cJSON_GetObjectItemCaseSensitive(v, "type");
	return cJSON_IsString(type) ? type->valuestring : NULL;
}

static const cJSON *field(const cJSON *v, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(v, name);
}

static rp_str text_of(const cJSON *v)
{
	const char *s = cJSON_GetStringValue(v);
	return (rp_str){ s != NULL ? s : "", s != NULL ? strlen(s) : 0 };
}

/* A whole number from 0 to 2^32 - 1. */
static bool whole(const cJSON *v, uint64_t *out)
{
	if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || v->valuedouble > UINT32_MAX)
		return false;
	if (v->valuedouble != (double)(uint64_t)v->valuedouble)
		return false;
	*out = (uint64_t)v->valuedouble;
	return true;
}

/* A true or false; missing when it is absent. */
static rp_code flag(const place *p, const cJSON *v, const char *name, bool missing, bool *out)
{
	const cJSON *f = field(v, name);
	if (f != NULL && !cJSON_IsBool(f))
		return wrong(p, type_of(v) != NULL ? type_of(v) : "object", name, "true or false");
	*out = f != NULL ? cJSON_IsTrue(f) : missing;
	return RP_OK;
}

/* Run fn over v, or over each of the list of a Sequence. */
typedef rp_code part_fn(place *p, const cJSON *v, void *user);

static rp_code each(place *p, const cJSON *v, const char *list_name, part_fn *fn, void *user)
{
	if (v == NULL || cJSON_IsNull(v))
		return RP_OK;
	if (!cJSON_IsObject(v) || type_of(v) == NULL)
		return rp_fail(p->err, RP_FORMAT, "%s: %s must be an object with a type", p->file, p->part);
	if (strcmp(type_of(v), "Sequence") != 0)
		return fn(p, v, user);
	char fields[64];
	snprintf(fields, sizeof fields, "type|%s", list_name);
	rp_code code = only_fields(p, v, fields);
	const cJSON *list = field(v, list_name);
	if (code == RP_OK && !cJSON_IsArray(list))
		return wrong(p, "Sequence", list_name, "a list");
	if (code == RP_OK && ++p->depth > 4)
		return rp_fail(p->err, RP_UNSUPPORTED, "%s: %s: sequences inside of sequences", p->file, p->part);
	for (const cJSON *e = code == RP_OK ? list->child : NULL; e != NULL && code == RP_OK; e = e->next)
		code = each(p, e, list_name, fn, user);
	p->depth--;
	return code;
}

/* {"String": "..."} or {"Regex": "..."} */
static rp_code pattern_of(const place *p, const cJSON *v, rp_str *out, bool *regex)
{
	const cJSON *pattern = field(v, "pattern"), *one = cJSON_IsObject(pattern) ? pattern->child : NULL;
	const char *kind = one != NULL && one->next == NULL && cJSON_IsString(one) && one->string != NULL ? one->string : "";
	*regex = strcmp(kind, "Regex") == 0;
	if (!*regex && strcmp(kind, "String") != 0)
		return wrong(p, type_of(v), "pattern", "{\"String\": text} or {\"Regex\": text}");
	*out = text_of(one);
	return RP_OK;
}

/* ---- steps, for both loaders ---- */
rp_code add_norm(rp_tokenizer *t, const char *name, norm_kind kind, rp_str text, norm_step **out, rp_error *err)
{
	if (t->n_norm == MAX_STEPS)
		return rp_fail(err, RP_UNSUPPORTED, "%s: more than %d normalizer steps", name, MAX_STEPS);
	norm_step *s = &t->norm[t->n_norm++];
	*s = (norm_step){ .kind = kind, .len = text.n };
	s->text = rp_strndup(text.s, text.n);
	if (out != NULL)
		*out = s;
	return s->text != NULL ? RP_OK : rp_no_memory(err, text.n, "a normalizer");
}

rp_code add_split(rp_tokenizer *t, const char *name, const char *pattern, size_t n, bool regex, split_behavior behavior, bool invert,
	rp_error *err)
{
	if (t->n_pre == MAX_STEPS)
		return rp_fail(err, RP_UNSUPPORTED, "%s: more than %d pre-tokenizer steps", name, MAX_STEPS);
	pre_step *s = &t->pre[t->n_pre++];
	*s = (pre_step){ .kind = PRE_SPLIT, .behavior = behavior, .invert = invert };
	return regex ? matcher_regex(&s->match, name, pattern, n, err) : matcher_literal(&s->match, name, pattern, n, err);
}

rp_code add_replace_rule(decode_rules *rules, const char *name, rp_str from, rp_str to, rp_error *err)
{
	if (rules->n_replace == MAX_STEPS || from.n == 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: decoder: %s", name, from.n == 0 ? "an empty pattern" : "too many steps");
	replace_rule *r = &rules->replace[rules->n_replace++];
	*r = (replace_rule){ rp_strndup(from.s, from.n), rp_strndup(to.s, to.n), from.n, to.n };
	return r->from != NULL && r->to != NULL ? RP_OK : rp_no_memory(err, from.n + to.n, "a decoder");
}

/* ---- normalizer ---- */
static rp_code norm_part(place *p, const cJSON *v, void *user)
{
	const char *type = type_of(v);
	rp_code code;
	(void)user;
	if (strcmp(type, "NFC") == 0 || strcmp(type, "NFD") == 0) {
		code = only_fields(p, v, "type");
		return code == RP_OK ? add_norm(p->t, p->file, type[2] == 'C' ? NORM_NFC : NORM_NFD, (rp_str){ "", 0 }, NULL, p->err) : code;
	}
	if (strcmp(type, "Prepend") == 0) {
		const cJSON *prefix = field(v, "prepend");
		code = only_fields(p, v, "type|prepend");
		if (code == RP_OK && !cJSON_IsString(prefix))
			code = wrong(p, type, "prepend", "a string");
		return code == RP_OK ? add_norm(p->t, p->file, NORM_PREPEND, text_of(prefix), NULL, p->err) : code;
	}
	if (strcmp(type, "Replace") != 0)
		return unsupported(p, "type", type);
	const cJSON *content = field(v, "content");
	rp_str pattern;
	bool regex;
	norm_step *step;
	code = only_fields(p, v, "type|pattern|content");
	if (code == RP_OK)
		code = pattern_of(p, v, &pattern, &regex);
	if (code == RP_OK && !cJSON_IsString(content))
		code = wrong(p, type, "content", "a string");
	if (code == RP_OK)
		code = add_norm(p->t, p->file, NORM_REPLACE, text_of(content), &step, p->err);
	if (code != RP_OK)
		return code;
	return regex ? matcher_regex(&step->match, p->file, pattern.s, pattern.n, p->err)
	             : matcher_literal(&step->match, p->file, pattern.s, pattern.n, p->err);
}

rp_code load_normalizer(rp_tokenizer *t, const char *name, const struct cJSON *v, rp_error *err)
{
	place p = { t, name, "normalizer", err, 0 };
	return each(&p, v, "normalizers", norm_part, NULL);
}

/* ---- pre-tokenizer ---- */
static rp_code behavior_of(const place *p, const cJSON *v, split_behavior *out)
{
	static const char *const names[] = { "Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext" };
	const cJSON *b = field(v, "behavior");
	for (int i = 0; i < 5 && cJSON_IsString(b); i++)
		if (strcmp(b->valuestring, names[i]) == 0) {
			*out = (split_behavior)i;
			return RP_OK;
		}
	return cJSON_IsString(b) ? unsupported(p, "behavior", b->valuestring) : wrong(p, type_of(v), "behavior", "a string");
}

static rp_code pre_split(place *p, const cJSON *v)
{
	rp_str pattern = { "", 0 };
	bool regex = false, invert = false;
	split_behavior behavior = SPLIT_ISOLATED;
	rp_code code = only_fields(p, v, "type|pattern|behavior|invert");
	if (code == RP_OK)
		code = pattern_of(p, v, &pattern, &regex);
	if (code == RP_OK)
		code = behavior_of(p, v, &behavior);
	if (code == RP_OK)
		code = flag(p, v, "invert", false, &invert);
	return code == RP_OK ? add_split(p->t, p->file, pattern.s, pattern.n, regex, behavior, invert, p->err) : code;
}

static rp_code pre_bytelevel(place *p, const cJSON *v)
{
	bool prefix = true, regex = true, trim;
	rp_code code = only_fields(p, v, "type|add_prefix_space|trim_offsets|use_regex");
	if (code == RP_OK)
		code = flag(p, v, "add_prefix_space", true, &prefix);
	if (code == RP_OK)
		code = flag(p, v, "use_regex", true, &regex);
	if (code == RP_OK)
		code = flag(p, v, "trim_offsets", true, &trim); /* about offsets into the text: nobody asks for them here */
	if (code == RP_OK && prefix) {
		if (p->t->n_pre == MAX_STEPS)
			return rp_fail(p->err, RP_UNSUPPORTED, "%s: more than %d pre-tokenizer steps", p->file, MAX_STEPS);
		p->t->pre[p->t->n_pre++] = (pre_step){ .kind = PRE_PREFIX, .text = " ", .len = 1 };
	}
	if (code == RP_OK && regex)
		code = add_split(p->t, p->file, GPT2_PATTERN, strlen(GPT2_PATTERN), true, SPLIT_ISOLATED, false, p->err);
	p->t->bpe.byte_level = true;
	return code;
}

static rp_code pre_digits(place *p, const cJSON *v)
{
	bool individual = false;
	rp_code code = only_fields(p, v, "type|individual_digits");
	if (code == RP_OK)
		code = flag(p, v, "individual_digits", false, &individual);
	if (code != RP_OK)
		return code;
	split_behavior behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
	return add_split(p->t, p->file, DIGITS_PATTERN, strlen(DIGITS_PATTERN), true, behavior, false, p->err);
}

/* The fields a Metaspace has as pre-tokenizer and as decoder. */
static rp_code metaspace_fields(const place *p, const cJSON *v, rp_str *replacement, meta_prepend *prepend, bool *split)
{
	static const char *const names[] = { "always", "first", "never" };
	const cJSON *r = field(v, "replacement"), *scheme = field(v, "prepend_scheme"), *old = field(v, "add_prefix_space");
	rp_code code = only_fields(p, v, "type|replacement|prepend_scheme|split|add_prefix_space");
	if (code == RP_OK)
		code = flag(p, v, "split", true, split);
	if (code != RP_OK)
		return code;
	if (!cJSON_IsString(r) || r->valuestring[0] == '\0' || strlen(r->valuestring) > 4)
		return wrong(p, "Metaspace", "replacement", "one character");
	*replacement = (rp_str){ r->valuestring, strlen(r->valuestring) };
	*prepend = META_ALWAYS;
	for (int i = 0; i < 3 && cJSON_IsString(scheme); i++)
		if (strcmp(scheme->valuestring, names[i]) == 0) {
			*prepend = (meta_prepend)i;
			scheme = NULL;
			break;
		}
	if (scheme != NULL)
		return wrong(p, "Metaspace", "prepend_scheme", "\"always\", \"first\" or \"never\"");
	if (old != NULL && cJSON_IsTrue(old) != (*prepend != META_NEVER))
		return unsupported(p, "combination of prepend_scheme and field", "add_prefix_space");
	return RP_OK;
}

static rp_code pre_metaspace(place *p, const cJSON *v)
{
	pre_step s = { .kind = PRE_METASPACE, .behavior = SPLIT_WITH_NEXT };
	rp_str r = { "", 0 };
	rp_code code = metaspace_fields(p, v, &r, &s.prepend, &s.split);
	if (code != RP_OK)
		return code;
	if (p->t->n_pre == MAX_STEPS)
		return rp_fail(p->err, RP_UNSUPPORTED, "%s: more than %d pre-tokenizer steps", p->file, MAX_STEPS);
	memcpy(s.text, r.s, r.n);
	s.len = r.n;
	code = matcher_literal(&s.match, p->file, r.s, r.n, p->err);
	p->t->pre[p->t->n_pre++] = s;
	return code;
}

static rp_code pre_part(place *p, const cJSON *v, void *user)
{
	const char *type = type_of(v);
	(void)user;
	if (p->t->bpe.byte_level)
		return rp_fail(p->err, RP_UNSUPPORTED, "%s: pre_tokenizer: %s behind ByteLevel", p->file, type);
	if (strcmp(type, "Split") == 0)
		return pre_split(p, v);
	if (strcmp(type, "ByteLevel") == 0)
		return pre_bytelevel(p, v);
	if (strcmp(type, "Digits") == 0)
		return pre_digits(p, v);
	if (strcmp(type, "Metaspace") == 0)
		return pre_metaspace(p, v);
	if (strcmp(type, "WhitespaceSplit") == 0) {
		rp_code code = only_fields(p, v, "type");
		return code == RP_OK ? add_split(p->t, p->file, "\\s", 2, true, SPLIT_REMOVED, false, p->err) : code;
	}
	return unsupported(p, "type", type);
}

rp_code load_pre_tokenizer(rp_tokenizer *t, const char *name, const struct cJSON *v, rp_error *err)
{
	place p = { t, name, "pre_tokenizer", err, 0 };
	rp_code code = each(&p, v, "pretokenizers", pre_part, NULL);
	if (code == RP_OK && t->bpe.byte_level && t->bpe.byte_fallback)
		return rp_fail(err, RP_UNSUPPORTED, "%s: model.byte_fallback together with a ByteLevel pre-tokenizer", name);
	return code;
}

/* ---- added tokens ---- */
static rp_code added_one(const place *p, const cJSON *v)
{
	const cJSON *content = field(v, "content");
	added_token a = { 0 };
	bool normalized = false;
	uint64_t id = 0;
	char shown[80];
	if (!cJSON_IsObject(v))
		return rp_fail(p->err, RP_FORMAT, "%s: an entry of added_tokens is no object", p->file);
	rp_code code = only_fields(p, v, "id|content|single_word|lstrip|rstrip|normalized|special");
	if (code == RP_OK && !cJSON_IsString(content))
		code = wrong(p, "token", "content", "a string");
	if (code == RP_OK && (!whole(field(v, "id"), &id) || id >= MAX_VOCAB))
		code = rp_fail(p->err, RP_FORMAT, "%s: added token \"%s\": its id must be a whole number below %d", p->file,
			rp_show(shown, sizeof shown, text_of(content).s, text_of(content).n), MAX_VOCAB);
	if (code == RP_OK)
		code = flag(p, v, "single_word", false, &a.single_word);
	if (code == RP_OK)
		code = flag(p, v, "lstrip", false, &a.lstrip);
	if (code == RP_OK)
		code = flag(p, v, "rstrip", false, &a.rstrip);
	if (code == RP_OK)
		code = flag(p, v, "special", false, &a.special);
	if (code == RP_OK)
		code = flag(p, v, "normalized", !a.special, &normalized);
	a.id = (uint32_t)id;
	return code == RP_OK ? tokenizer_add_special(p->t, p->file, a, text_of(content), normalized, p->err) : code;
}

rp_code load_added(rp_tokenizer *t, const char *name, const struct cJSON *v, rp_error *err)
{
	place p = { t, name, "added_tokens", err, 0 };
	if (v == NULL || cJSON_IsNull(v))
		return RP_OK;
	if (!cJSON_IsArray(v))
		return rp_fail(err, RP_FORMAT, "%s: added_tokens must be a list", name);
	rp_code code = tokenizer_reserve_added(t, (size_t)cJSON_GetArraySize(v), err);
	for (const cJSON *e = v->child; code == RP_OK && e != NULL; e = e->next)
		code = added_one(&p, e);
	return code;
}

/* ---- post-processor: what stands before the text ---- */
static rp_code template_ids(const place *p, const cJSON *v, const char *token)
{
	const cJSON *specials = field(v, "special_tokens"), *entry = cJSON_GetObjectItemCaseSensitive(specials, token);
	const cJSON *ids = field(entry, "ids");
	if (ids == NULL || !cJSON_IsArray(ids))
		return wrong(p, "TemplateProcessing", "special_tokens", "an object with the ids of every token of the template");
	for (const cJSON *e = ids->child; e != NULL; e = e->next) {
		uint64_t id;
		if (!whole(e, &id) || id >= p->t->vocab.n)
			return wrong(p, "TemplateProcessing", "special_tokens", "ids of the vocabulary");
		if (p->t->n_prefix == MAX_PREFIX)
			return rp_fail(p->err, RP_UNSUPPORTED, "%s: post_processor: more than %d ids before a text", p->file, MAX_PREFIX);
		p->t->prefix[p->t->n_prefix++] = (uint32_t)id;
	}
	return RP_OK;
}

static rp_code template_part(place *p, const cJSON *v)
{
	const cJSON *single = field(v, "single");
	rp_code code = only_fields(p, v, "type|single|pair|special_tokens"); /* pair is for two texts at once: never here */
	bool text = false;
	if (code == RP_OK && !cJSON_IsArray(single))
		return wrong(p, "TemplateProcessing", "single", "a list");
	for (const cJSON *e = code == RP_OK ? single->child : NULL; code == RP_OK && e != NULL; e = e->next) {
		const cJSON *token = field(e, "SpecialToken");
		const char *name = cJSON_GetStringValue(field(token, "id"));
		if (token == NULL && field(e, "Sequence") != NULL && !text)
			text = true;
		else if (name == NULL)
			code = wrong(p, "TemplateProcessing", "single", "a list of special tokens and one sequence");
		else if (text)
			code = rp_fail(p->err, RP_UNSUPPORTED, "%s: post_processor: token \"%s\" behind the text", p->file, name);
		else
			code = template_ids(p, v, name);
	}
	return code;
}

static rp_code post_part(place *p, const cJSON *v, void *user)
{
	(void)user;
	if (strcmp(type_of(v), "ByteLevel") == 0) /* about offsets into the text only */
		return only_fields(p, v, "type|add_prefix_space|trim_offsets|use_regex");
	if (strcmp(type_of(v), "TemplateProcessing") == 0)
		return template_part(p, v);
	return unsupported(p, "type", type_of(v));
}

rp_code load_post_processor(rp_tokenizer *t, const char *name, const struct cJSON *v, rp_error *err)
{
	place p = { t, name, "post_processor", err, 0 };
	rp_code code = each(&p, v, "processors", post_part, NULL);
	if (t->n_prefix > 0)
		t->bos = t->prefix[0];
	return code;
}

/* ---- decoder ---- */
typedef struct decoder_load {
	decode_rules *rules;
	bool fused, any;
} decoder_load;

static rp_code decode_strip(place *p, const cJSON *v, const decoder_load *d)
{
	const cJSON *content = field(v, "content");
	uint64_t start, stop;
	rp_code code = only_fields(p, v, "type|content|start|stop");
	if (code != RP_OK)
		return code;
	if (!d->fused || !cJSON_IsString(content) || strcmp(content->valuestring, " ") != 0 || !whole(field(v, "start"), &start) ||
		!whole(field(v, "stop"), &stop) || start > 1 || stop != 0)
		return rp_fail(p->err, RP_UNSUPPORTED, "%s: decoder: a Strip other than of one first space, behind Fuse", p->file);
	p->t->strip_first_space = start == 1;
	return RP_OK;
}

static rp_code decode_replace(place *p, const cJSON *v, const decoder_load *d)
{
	const cJSON *content = field(v, "content");
	rp_str pattern = { "", 0 };
	bool regex = false;
	rp_code code = only_fields(p, v, "type|pattern|content");
	if (code == RP_OK)
		code = pattern_of(p, v, &pattern, &regex);
	if (code != RP_OK)
		return code;
	if (regex || d->fused || d->rules->byte_fallback)
		return rp_fail(p->err, RP_UNSUPPORTED, "%s: decoder: a Replace %s", p->file,
			regex ? "by regular expression" : "behind ByteFallback");
	if (!cJSON_IsString(content))
		return wrong(p, "Replace", "content", "a string");
	return add_replace_rule(d->rules, p->file, pattern, text_of(content), p->err);
}

static rp_code decode_part(place *p, const cJSON *v, void *user)
{
	decoder_load *d = user;
	const char *type = type_of(v);
	bool alone = !d->any;
	d->any = true;
	if (strcmp(type, "Replace") == 0)
		return decode_replace(p, v, d);
	if (strcmp(type, "ByteFallback") == 0 && !d->fused) {
		d->rules->byte_fallback = true;
		return only_fields(p, v, "type");
	}
	if (strcmp(type, "Fuse") == 0) {
		d->fused = true;
		return only_fields(p, v, "type");
	}
	if (strcmp(type, "Strip") == 0)
		return decode_strip(p, v, d);
	if (strcmp(type, "ByteLevel") == 0 && alone) {
		d->rules->byte_level = true;
		d->fused = true; /* nothing may follow that looks at single tokens */
		return only_fields(p, v, "type|add_prefix_space|trim_offsets|use_regex");
	}
	if (strcmp(type, "Metaspace") == 0 && alone) {
		rp_str r = { "", 0 };
		meta_prepend prepend = META_ALWAYS;
		bool split;
		rp_code code = metaspace_fields(p, v, &r, &prepend, &split);
		p->t->strip_first_space = prepend != META_NEVER;
		return code == RP_OK ? add_replace_rule(d->rules, p->file, r, (rp_str){ " ", 1 }, p->err) : code;
	}
	return unsupported(p, "type", type);
}

rp_code load_decoder(rp_tokenizer *t, const char *name, const struct cJSON *v, decode_rules *rules, rp_error *err)
{
	place p = { t, name, "decoder", err, 0 };
	decoder_load d = { .rules = rules };
	if (v == NULL || cJSON_IsNull(v))
		return rp_fail(err, RP_UNSUPPORTED, "%s: it has no decoder: what its tokens decode to is not said", name);
	return each(&p, v, "decoders", decode_part, &d);
}
