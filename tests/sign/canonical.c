/* Print canonical JSON (members by code units), one line for each line of JSON on standard input. */
#include "model/model.h"
#include "sign/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

int main(void)
{
	static char line[1 << 16];
	rp_error err;
	rp_buf out;
	rp_buf_init(&out, 0);
	while (fgets(line, sizeof line, stdin) != NULL) {
		cJSON *v = NULL;
		rp_buf_clear(&out);
		if (rp_json_parse("stdin", line, strlen(line), &v, &err) != RP_OK || rp_canonical(v, RP_KEYS_PLAIN, &out, &err) != RP_OK) {
			fprintf(stderr, "%s\n", err.msg);
			return 1;
		}
		puts(out.data);
		cJSON_Delete(v);
	}
	rp_buf_free(&out);
	return 0;
}
