/* Render conversations with what this project makes of a published chat template, for comparing with the template itself.
 *
 * usage: prompt TEMPLATE.jinja CASES.json: a list of {"messages": [{"role", "content"}...], "thinking": true | false | null}.
 * Prints the type, then one JSON line a case: the prompt, or null when it is refused. */
#include "base/jsonw.h"
#include "text/text.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGES = 32 };

static void die(const char *what)
{
	fprintf(stderr, "prompt: %s\n", what);
	exit(1);
}

static void print_line(const rp_prompt *p)
{
	rp_buf text, line;
	rp_jsonw w;
	rp_buf_init(&text, 0);
	rp_buf_init(&line, 0);
	rp_jsonw_init(&w, &line);
	for (size_t i = 0; p != NULL && i < p->n; i++)
		rp_buf_add(&text, p->pieces[i].text.s, p->pieces[i].text.n);
	if (p != NULL)
		rp_jsonw_strn(&w, text.data != NULL ? text.data : "", text.len);
	else
		rp_jsonw_null(&w);
	printf("%s\n", line.data);
	rp_buf_free(&text);
	rp_buf_free(&line);
}

static void one(const rp_chat_format *f, const cJSON *c)
{
	rp_message messages[MAX_MESSAGES];
	size_t n = 0;
	const cJSON *thinking = cJSON_GetObjectItem(c, "thinking"), *m;
	rp_prompt p;
	rp_error err;
	cJSON_ArrayForEach(m, cJSON_GetObjectItem(c, "messages"))
	{
		if (n == MAX_MESSAGES)
			die("too many messages");
		messages[n++] = (rp_message){ cJSON_GetObjectItem(m, "role")->valuestring, cJSON_GetObjectItem(m, "content")->valuestring };
	}
	bool can_think = f->type == RP_TEMPLATE_QWEN || f->type == RP_TEMPLATE_GEMMA4; /* others would refuse; templates ignore it */
	rp_thinking t = cJSON_IsTrue(thinking) && can_think ? RP_THINK_ON : cJSON_IsFalse(thinking) ? RP_THINK_OFF : RP_THINK_DEFAULT;
	if (rp_chat_render(f, messages, n, t, &p, &err) != RP_OK) {
		print_line(NULL);
		return;
	}
	print_line(&p);
	rp_prompt_free(&p);
}

int main(int argc, char **argv)
{
	rp_error err;
	rp_chat_format f;
	char *text, *cases;
	size_t n, n_cases;
	cJSON *list;
	if (argc != 3)
		return 2;
	if (rp_read_file(argv[1], 1 << 20, &text, &n, &err) != RP_OK || rp_read_file(argv[2], 1 << 24, &cases, &n_cases, &err) != RP_OK ||
		rp_json_parse(argv[2], cases, n_cases, &list, &err) != RP_OK)
		die(err.msg);
	if (rp_chat_format_of_text(argv[1], text, n, &f, &err) != RP_OK) {
		printf("refused: %s\n", err.msg);
		return 0;
	}
	printf("%s\n", rp_template_name(f.type));
	for (const cJSON *c = list->child; c != NULL; c = c->next)
		one(&f, c);
	rp_chat_format_free(&f);
	cJSON_Delete(list);
	free(text);
	free(cases);
	return 0;
}
