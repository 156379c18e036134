/* Descriptions of devices: there and back, and every way to be wrong names its member. */
#include "plan/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "golden.h"
#include "make_model.h"

static const char *const files[] = { "tests/golden/devices/lavapipe.json", "tests/golden/devices/h200.json" };

static char *text_of(const char *path)
{
	char *text = NULL;
	size_t n = 0;
	rp_error err;
	must(rp_read_file(path, 1 << 20, &text, &n, &err), &err);
	return text;
}

/* What is read and written again is what was there, and then again. */
static void test_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		rp_plan_device d, again;
		rp_error err;
		must(rp_plan_device_load(files[i], &d, &err), &err);
		char *text = text_of(files[i]);
		cJSON *from = cJSON_Parse(text), *to = rp_plan_device_json(&d);
		cJSON_DeleteItemFromObject(from, "measured");
		cJSON_DeleteItemFromObject(from, "assumed");
		cJSON_DeleteItemFromObject(from, "source");
		assert_true(cJSON_Compare(from, to, true));
		char *written = cJSON_Print(to);
		must(rp_plan_device_parse("again", written, strlen(written), &again, &err), &err);
		assert_memory_equal(&d.facts, &again.facts, sizeof d.facts);
		cJSON_free(written);
		cJSON_Delete(from);
		cJSON_Delete(to);
		free(text);
	}
}

static void test_costs(void **state)
{
	(void)state;
	rp_plan_device h200, cpu;
	rp_error err;
	must(rp_plan_device_load(files[1], &h200, &err), &err);
	must(rp_plan_device_load(files[0], &cpu, &err), &err);
	assert_true(h200.cost[RP_COST_READ] == 4.5e12 && h200.measured[RP_COST_READ]);
	assert_true(h200.cost[RP_COST_BARRIER] == 1700 && h200.measured[RP_COST_BARRIER]);
	assert_false(h200.measured[RP_COST_FLOPS]);
	assert_non_null(strstr(h200.assumed, "limits.max_allocation"));
	for (int c = 0; c < RP_COST_COUNT; c++) {
		assert_false(cpu.measured[c]);
		assert_true(cpu.cost[c] > 0 && h200.cost[c] > 0);
	}
}

/* Facts of a moment are no part of a description. */
static void test_of_info(void **state)
{
	(void)state;
	rp_plan_device file, made;
	rp_error err;
	must(rp_plan_device_load(files[0], &file, &err), &err);
	rp_vk_info info = file.facts;
	info.index = 3;
	info.heaps[0].used = 12345;
	info.heaps[0].budget = 99999;
	info.cache_uuid[3] = 7;
	info.max_allocation = UINT64_MAX;
	rp_plan_device_of(&info, &made);
	assert_int_equal(made.facts.index, 0);
	assert_int_equal(made.facts.heaps[0].used, 0);
	assert_int_equal(made.facts.heaps[0].budget, 0);
	assert_int_equal(made.facts.max_allocation, (uint64_t)1 << 53);
	assert_int_equal(made.facts.cache_uuid[3], 0);
}

static const struct {
	const char *from, *to, *message;
} wrong[] = {
	{ "reploid-device/1", "reploid-device/2", "d.json: schema is \"reploid-device/2\", expected \"reploid-device/1\"" },
	{ "\"name\": ", "\"nmae\": ", "d.json: nmae is no member of a device description" },
	{ "\"cpu\"", "\"toaster\"", "d.json: kind is \"toaster\", expected discrete" },
	{ "1.3.230", "1.1.0", "d.json: vulkan is \"1.1.0\", expected a version from 1.2.0" },
	{ "1.3.230", "1.3", "d.json: vulkan is \"1.3\"" },
	{ "65541", "-1", "d.json: vendor_id is -1, expected a whole number" },
	{ "65541", "4294967296", "d.json: vendor_id is 4294967296, expected a whole number up to 4294967295" },
	{ "\"local\": true", "\"local\": 1", "d.json: heaps[0].local is 1, expected true or false" },
	{ "\"size\": 25769803776", "\"size\": 1e300", "d.json: heaps[0].size is " },
	{ "\"heap\": 0", "\"heap\": 1", "d.json: memory_types[0].heap is 1, expected a whole number up to 0" },
	{ "\"host-cached\"", "\"host-crashed\"", "d.json: memory_types[0].flags is \"host-crashed\"" },
	{ "\"host-cached\"", "\"host-visible\"", "d.json: memory_types[0].flags is \"host-visible\", expected names of properties of memory, each once" },
	{ "\"int64\"", "\"int128\"", "d.json: features is \"int128\", expected names of features" },
	{ "\"int64\"", "\"int16\"", "each once" },
	{ "\"operations\"", "\"operators\"", "d.json: subgroup.operators is no member" },
	{ "\"min\": 8,", "", "d.json: subgroup.min is missing" },
	{ "\"align_binding\": 16", "\"align_binding\": 24", "limits.align_binding is not a power of two from 16 to 4096" },
	{ "\"align_binding\": 16", "\"align_binding\": 8192", "d.json: limits.align_binding is 8192, expected a whole number up to 4096" },
	{ "\"max_binding\": 134217728", "\"max_binding\": 0", "limits.max_binding is not a number of at least 65536" },
	{ "\"max_buffers\": 32", "\"max_buffers\": 0", "limits.max_buffers is not a number above 0" },
	{ "65535", "0", "d.json: limits.max_groups is 0, expected three whole numbers" },
	{ "\"bits\": 64", "\"bits\": 65", "d.json: timestamps.bits is 65" },
	{ "\"ns\": 1", "\"ns\": \"1\"", "d.json: timestamps.ns is \"1\"" },
	{ "\"source\"", "\"measured\": {\"speed\": 1}, \"source\"", "d.json: measured.speed is unknown" },
	{ "\"source\"", "\"measured\": {\"barrier_ns\": 0}, \"source\"", "d.json: measured.barrier_ns is 0, expected a number from 0.001" },
	{ "\"source\"", "\"measured\": 5, \"source\"", "d.json: measured is 5, expected an object" },
	{ "\"source\"", "\"assumed\": [5], \"source\"", "d.json: assumed is 5, expected names" },
	{ "\"source\"", "\"name\": \"twice\", \"source\"", "d.json: " },
};

static void test_wrong(void **state)
{
	(void)state;
	char *text = text_of(files[0]);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char *changed = mm_replace(text, wrong[i].from, wrong[i].to);
		rp_plan_device d;
		rp_error err = { 0 };
		if (rp_plan_device_parse("d.json", changed, strlen(changed), &d, &err) != RP_FORMAT || strstr(err.msg, wrong[i].message) == NULL)
			fail_msg("%s -> %s: %s", wrong[i].from, wrong[i].to, err.msg);
		free(changed);
	}
	rp_plan_device d;
	rp_error err;
	for (size_t n = 0; n < strlen(text) - 2; n += 7)
		assert_int_not_equal(rp_plan_device_parse("d.json", text, n, &d, &err), RP_OK);
	assert_int_equal(rp_plan_device_parse("d.json", "[]", 2, &d, &err), RP_FORMAT);
	assert_int_equal(rp_plan_device_load("tests/golden/devices/none.json", &d, &err), RP_NOT_FOUND);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_round_trip), cmocka_unit_test(test_costs), cmocka_unit_test(test_of_info),
		cmocka_unit_test(test_wrong) };
	return cmocka_run_group_tests_name("plan_device", tests, NULL, NULL);
}
