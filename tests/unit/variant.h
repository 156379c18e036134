/* variant: models a test makes out of tests/golden/NAME, each in a temporary folder. */
#ifndef VARIANT_H
#define VARIANT_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

typedef struct variant {
	char folder[64];
	cJSON *config;      /* config.json, to be edited before variant_write */
	cJSON *header;      /* of model.safetensors: tensors may be added or removed */
	char *data;         /* what follows the header */
	size_t n_data;
} variant;

void variant_start(variant *v, const char *name);
/* Set the value at a dotted path to JSON text; NULL removes it. */
void variant_set(cJSON *root, const char *path, const char *json);
/* Append a tensor of zeros. dtype: "BF16", "F16", "F32". */
void variant_add_tensor(variant *v, const char *name, const char *dtype, uint64_t d0, uint64_t d1);
void variant_write_file(const variant *v, const char *name, const void *bytes, size_t n);
/* config.json and model.safetensors; the model is the folder. */
void variant_write(const variant *v);
/* The same tensors as an RDRR artifact: one shard, and the manifest given, whose shards and tensors are filled in. The folder
 * then holds no other model. */
void variant_write_rdrr(const variant *v, cJSON *manifest);
/* A copy of tests/golden/NAME/model.gguf as model.gguf, with every `from` replaced by `to` (equally long). */
void variant_write_gguf(const variant *v, const char *name, const char *from, const char *to);
void variant_end(variant *v); /* removes the folder */

#endif
