/* SPDX-License-Identifier: Apache-2.0 */
#include "store/model_yaml.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static td_arena_t arena;
static td_model_yaml_t c;
static td_err_t err;

static void setup(void) {
    td_arena_init(&arena, td_alloc_default(), 0);
    td_model_yaml_defaults(&c);
}
static void teardown(void) { td_arena_deinit(&arena); }

static td_status_t parse(const char *text, bool model_level) {
    return td_model_yaml_parse(text, strlen(text), "f", model_level, &arena, &c, &err);
}
static void good(const char *text) { ck_assert_msg(parse(text, true) == TD_OK, "%s", err.text); }
static void expect_words(const td_words_t *w, const char *want) { /* "a b c" */
    char got[256] = "";
    ck_assert(w->given);
    for (uint32_t i = 0; i < w->n; i++) {
        if (i) strcat(got, " ");
        strcat(got, w->items[i].text);
    }
    ck_assert_str_eq(got, want);
}

START_TEST(defaults) {
    static const char *const empty[] = {"", "\n", "# nothing\n", "---\n", "{}\n", "--- {}\n...\n", "\"\"\n"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) good(empty[i]);
    ck_assert_int_eq(c.versions, TD_VERSIONS_LATEST);
    ck_assert_uint_eq(c.latest, 1);
    ck_assert_int_eq(c.load, TD_LOAD_STARTUP);
    ck_assert(!c.load_given && !c.pin && !c.inputs.given && !c.outputs.given && !c.weights_only.given);
    ck_assert(!c.weight_files.given && !c.weights_bind.given && !c.buckets.given && !c.labels.given);
    ck_assert_ptr_null(c.default_version.text);
    ck_assert_uint_eq(c.priority + c.concurrency + c.n_axes + c.n_pads + c.n_states, 0);
    ck_assert_uint_eq(c.idle_unload_ms, 0);
    ck_assert_uint_eq(c.sequence_idle_ms, 60000);
    ck_assert_uint_eq(c.sequence_max, 64);
}
END_TEST

START_TEST(names) {
    good("# names\ninputs: [image, mask]\noutputs:\n  - logits\nweights: [1, 0, params.w, \"params['b']\"]\n");
    ck_assert_uint_eq(c.inputs.n, 2);
    ck_assert_str_eq(c.inputs.items[1].name.text, "mask");
    ck_assert_uint_eq(c.inputs.items[1].name.line, 2);
    ck_assert_str_eq(c.inputs.items[1].name.file, "f");
    ck_assert(!c.inputs.items[1].shaped);
    ck_assert_uint_eq(c.inputs.key.line, 2);
    ck_assert_str_eq(c.inputs.key.text, "inputs");
    ck_assert_str_eq(c.outputs.items[0].name.text, "logits");
    ck_assert_uint_eq(c.outputs.items[0].name.line, 4);
    expect_words(&c.weights_only, "1 0 params.w params['b']");
    ck_assert_uint_eq(c.weights_only.key.line, 5);
}
END_TEST

START_TEST(shapes) {
    good("inputs:\n- {name: image, shape: [1, 28, -1], datatype: FP32}\n- name: scale\n  shape: []\n- plain\n"
         "outputs: [{name: logits, datatype: BF16}]\n");
    ck_assert_uint_eq(c.inputs.n, 3);
    const td_tensor_config_t *t = c.inputs.items;
    ck_assert_str_eq(t[0].name.text, "image");
    ck_assert_str_eq(t[0].datatype.text, "FP32");
    ck_assert(t[0].shaped);
    ck_assert_uint_eq(t[0].rank, 3);
    ck_assert_int_eq(t[0].dims[0], 1);
    ck_assert_int_eq(t[0].dims[1], 28);
    ck_assert_int_eq(t[0].dims[2], -1);
    ck_assert_uint_eq(t[0].shape.line, 2);
    ck_assert(t[1].shaped);
    ck_assert_uint_eq(t[1].rank, 0);
    ck_assert_uint_eq(t[1].shape.line, 4);
    ck_assert(!t[2].shaped);
    ck_assert_str_eq(t[2].name.text, "plain");
    ck_assert(!c.outputs.items[0].shaped);
    ck_assert_str_eq(c.outputs.items[0].datatype.text, "BF16");
}
END_TEST

START_TEST(weights_as_a_map) {
    good("weights:\n  files: [a.safetensors, b.safetensors]\n  bind: {0: encoder.w, params.b: encoder.b}\n"
         "  only: [1]\n");
    expect_words(&c.weight_files, "a.safetensors b.safetensors");
    expect_words(&c.weights_only, "1");
    ck_assert_uint_eq(c.weights_bind.n, 2);
    ck_assert_str_eq(c.weights_bind.items[0].key.text, "0");
    ck_assert_str_eq(c.weights_bind.items[0].value.text, "encoder.w");
    ck_assert_str_eq(c.weights_bind.items[1].key.text, "params.b");
    ck_assert_uint_eq(c.weights_bind.items[1].value.line, 3);
}
END_TEST

START_TEST(versions_and_labels) {
    good("versions: all\n");
    ck_assert_int_eq(c.versions, TD_VERSIONS_ALL);
    good("versions: {latest: 2}\n");
    ck_assert_int_eq(c.versions, TD_VERSIONS_LATEST);
    ck_assert_uint_eq(c.latest, 2);
    good("versions: [1, 03]\nlabels: {stable: 1, canary: 03}\ndefault: 1\n");
    ck_assert_int_eq(c.versions, TD_VERSIONS_LISTED);
    expect_words(&c.listed, "1 03");
    ck_assert_uint_eq(c.labels.n, 2);
    ck_assert_str_eq(c.labels.items[1].key.text, "canary");
    ck_assert_str_eq(c.labels.items[1].value.text, "03");
    ck_assert_str_eq(c.default_version.text, "1");
    ck_assert_uint_eq(c.default_version.line, 3);
    good("versions: latest\n");
    ck_assert_int_eq(c.versions, TD_VERSIONS_LATEST);
    ck_assert_uint_eq(c.latest, 1);
    ck_assert_uint_eq(c.listed.n, 0);
}
END_TEST

START_TEST(loading_and_numbers) {
    good("load: on_demand\npin: true\npriority: 9\nidle_unload_ms: 31536000000\nconcurrency: 256\n"
         "sequence: {idle_timeout_ms: 5, max: 1000000}\n");
    ck_assert_int_eq(c.load, TD_LOAD_ON_DEMAND);
    ck_assert(c.load_given && c.pin);
    ck_assert_uint_eq(c.priority, 9);
    ck_assert_uint_eq(c.idle_unload_ms, 31536000000ull);
    ck_assert_uint_eq(c.concurrency, 256);
    ck_assert_uint_eq(c.sequence_idle_ms, 5);
    ck_assert_uint_eq(c.sequence_max, 1000000);
    good("load: explicit\npin: false\npriority: 0\nsequence: {max: 1}\n");
    ck_assert_int_eq(c.load, TD_LOAD_EXPLICIT);
    ck_assert(!c.pin);
    ck_assert_uint_eq(c.sequence_idle_ms, 60000); /* sequence was replaced, with all that was in it */
    good("load: startup\n");
    ck_assert_int_eq(c.load, TD_LOAD_STARTUP);
}
END_TEST

START_TEST(buckets_axes_pads_states) {
    good("buckets: [b1, b8.x]\naxes: {tokens: [b, t], logits: [b, t, \"\"], square: [n, n]}\n"
         "pad:\n  tokens: 0\n  a: -1.5e3\n  b: -.inf\n  c: .nan\n  d: true\n"
         "state:\n- {input: cache, output: new_cache}\n- input: n\n  output: n1\n");
    expect_words(&c.buckets, "b1 b8.x");
    ck_assert_uint_eq(c.n_axes, 3);
    ck_assert_str_eq(c.axes[1].tensor.text, "logits");
    expect_words(&c.axes[1].names, "b t ");
    expect_words(&c.axes[2].names, "n n");
    ck_assert_uint_eq(c.n_pads, 5);
    ck_assert_str_eq(c.pads[0].tensor.text, "tokens");
    ck_assert_str_eq(c.pads[0].value.text, "0");
    ck_assert(c.pads[0].number == 0 && c.pads[1].number == -1500 && c.pads[4].number == 1);
    ck_assert(isinf(c.pads[2].number) && c.pads[2].number < 0 && isnan(c.pads[3].number));
    ck_assert_uint_eq(c.pads[3].value.line, 7);
    ck_assert_uint_eq(c.n_states, 2);
    ck_assert_str_eq(c.states[0].output.text, "new_cache");
    ck_assert_str_eq(c.states[1].input.text, "n");
    ck_assert_uint_eq(c.states[1].output.line, 12);
}
END_TEST

START_TEST(a_versions_file_wins) {
    static const char text[] = "outputs: [b, c]\nweights: {only: [2]}\nconcurrency: 3\n";
    good("inputs: [a]\noutputs: [a]\nweights: {files: [x], bind: {0: t}}\nconcurrency: 2\npin: true\n");
    ck_assert_int_eq(td_model_yaml_parse(text, strlen(text), "g", false, &arena, &c, &err), TD_OK);
    ck_assert_str_eq(c.inputs.items[0].name.file, "f");
    ck_assert_uint_eq(c.outputs.n, 2);
    ck_assert_str_eq(c.outputs.items[0].name.file, "g");
    ck_assert(!c.weight_files.given && !c.weights_bind.given);
    expect_words(&c.weights_only, "2");
    ck_assert_uint_eq(c.concurrency, 3);
    ck_assert(c.pin);
    ck_assert_int_eq(parse("inputs: [z]\nconcurrency: 0\n", false), TD_USAGE); /* nothing of it holds */
    ck_assert_str_eq(c.inputs.items[0].name.text, "a");
    ck_assert_uint_eq(c.concurrency, 3);
}
END_TEST

START_TEST(keys_of_the_model_only) {
    static const char *const texts[] = {"versions: all\n", "default: 1\n", "labels: {a: 1}\n",    "load: startup\n",
                                        "pin: true\n",     "priority: 1\n", "idle_unload_ms: 1\n"};
    char want[128];
    ck_assert_int_eq(parse(texts[_i], true), TD_OK);
    ck_assert_int_eq(parse(texts[_i], false), TD_USAGE);
    snprintf(want, sizeof want, "f:1: %.*s: belongs in the model's own model.yaml, beside the versions",
             (int)strcspn(texts[_i], ":"), texts[_i]);
    ck_assert_str_eq(err.text, want);
}
END_TEST

static const struct {
    const char *text, *cause; /* the whole message, or its part after the last '*' */
} bad[] = {
    {"input: [a]\n", "f:1: unknown key input; did you mean inputs?"},
    {"inputs: [a]\nweight: [1]\n", "f:2: unknown key weight; did you mean weights?"},
    {"xyzzy: 1\n", "f:1: unknown key xyzzy"},
    {"pn: 1\n", "f:1: unknown key pn"},
    {"idle_unload: 1\n", "f:1: unknown key idle_unload"},
    {"labls: {}\n", "f:1: unknown key labls; did you mean labels?"},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: 1\n", "*unknown key aaaa"},
    {"inputs: a\n", "f:1: inputs: expected a list"},
    {"inputs: {a: b}\n", "f:1: inputs: expected a list"},
    {"inputs:\n", "f:1: inputs: expected a list"},
    {"\ninputs: [a, [b]]\n", "f:2: inputs: expected 'key: value' lines"},
    {"inputs: [a]\ninputs: [b]\n", "f:2: inputs: stands twice, first in line 1"},
    {"inputs: [a, a]\n", "f:1: inputs: a stands twice"},
    {"inputs: [a,\n {name: a}]\n", "f:2: inputs: a stands twice"},
    {"outputs: ['']\n", "f:1: outputs: no value"},
    {"outputs: [~a, \"x\\0y\"]\n", "f:1: a NUL byte"},
    {"inputs: [{shape: [1]}]\n", "f:1: inputs: an entry without a name"},
    {"inputs: [{name: [a]}]\n", "f:1: name: expected one value"},
    {"inputs: [{name: a, name: b}]\n", "f:1: name: stands twice, first in line 1"},
    {"inputs: [{name: a, shap: [1]}]\n", "f:1: inputs: unknown key shap; did you mean shape?"},
    {"inputs: [{name: a, weights: [1]}]\n", "f:1: inputs: unknown key weights"},
    {"inputs: [{name: a, shape: 1}]\n", "f:1: shape: expected a list"},
    {"inputs: [{name: a, shape: [x]}]\n", "f:1: shape: expected a number from 0 to 9223372036854775807, got x"},
    {"inputs: [{name: a, shape: [-2]}]\n", "*got -2"},
    {"inputs: [{name: a, shape: [9223372036854775808]}]\n", "*got 9223372036854775808"},
    {"inputs: [{name: a, shape: [99999999999999999999999]}]\n", "*got 99999999999999999999999"},
    {"inputs: [{name: a, shape: [[1]]}]\n", "f:1: shape: expected a number from 0 to 9223372036854775807"},
    {"inputs: [{name: a, datatype: {}}]\n", "f:1: datatype: expected one value"},
    {"weights: 1\n", "f:1: weights: expected a list, or a map of files, bind and only"},
    {"weights: [1, 1]\n", "f:1: weights: 1 stands twice"},
    {"weights: [[1]]\n", "f:1: weights: expected one value"},
    {"weights: {file: [a]}\n", "f:1: weights: unknown key file; did you mean files?"},
    {"weights: {files: a}\n", "f:1: files: expected a list"},
    {"weights: {files: []}\n", "f:1: files: names no file"},
    {"weights: {files: [a/b]}\n", "f:1: files: a/b is not the name of a file of this folder"},
    {"weights: {files: [..]}\n", "f:1: files: .. is not the name of a file of this folder"},
    {"weights: {bind: [a]}\n", "f:1: bind: expected 'name: value' lines"},
    {"weights: {bind: {0: }}\n", "f:1: 0: no value"},
    {"weights: {bind: {'': a}}\n", "f:1: bind: no value"},
    {"weights:\n  bind: {0: a,\n 0: b}\n", "f:3: 0: stands twice, first in line 2"},
    {"buckets: []\n", "f:1: buckets: names no file"},
    {"buckets: [a, /b]\n", "f:1: buckets: /b is not the name of a file of this folder"},
    {"axes: [a]\n", "f:1: axes: expected 'name: value' lines"},
    {"axes: {tokens: b}\n", "f:1: tokens: expected a list"},
    {"axes: {tokens: [[b]]}\n", "f:1: tokens: expected the name of a dim"},
    {"pad: 0\n", "f:1: pad: expected 'name: value' lines"},
    {"pad: {a: b}\n", "f:1: a: expected a number, got b"},
    {"pad: {a: 0x10}\n", "f:1: a: expected a number, got 0x10"},
    {"pad: {a: nan}\n", "f:1: a: expected a number, got nan"},
    {"pad: {a: 1e999}\n", "f:1: a: expected a number, got 1e999"},
    {"pad: {a: [0]}\n", "f:1: a: expected a number"},
    {"state: {input: a, output: b}\n", "f:1: state: expected a list"},
    {"state: [a]\n", "f:1: state: expected 'key: value' lines"},
    {"state: [{input: a}]\n", "f:1: state: an entry without its output"},
    {"state: [{output: a}]\n", "f:1: state: an entry without its input"},
    {"state: [{input: a, output: b}, {input: a, output: c}]\n", "f:1: state: a stands twice"},
    {"state: [{input: a, output: b}, {input: c, output: b}]\n", "f:1: state: b stands twice"},
    {"versions: some\n", "f:1: versions: expected latest or all, got some"},
    {"versions: []\n", "f:1: versions: names no version"},
    {"versions: [x]\n", "f:1: versions: expected a version's number, got x"},
    {"versions: [1, 1]\n", "f:1: versions: 1 stands twice"},
    {"versions: {latest: 0}\n", "f:1: latest: expected a number from 1 to 4294967295, got 0"},
    {"versions: {newest: 1}\n", "f:1: versions: unknown key newest"},
    {"default: x\n", "f:1: default: expected a version's number, got x"},
    {"default: [1]\n", "f:1: default: expected a version's number"},
    {"labels: [a]\n", "f:1: labels: expected 'name: value' lines"},
    {"labels: {7: 1}\n", "f:1: labels: 7 is a number, as versions are"},
    {"labels: {a: b}\n", "f:1: a: expected a version's number, got b"},
    {"load: later\n", "f:1: load: expected startup, on_demand or explicit, got later"},
    {"load: [startup]\n", "f:1: load: expected startup, on_demand or explicit"},
    {"pin: yes\n", "f:1: pin: expected false or true, got yes"},
    {"priority: 10\n", "f:1: priority: expected a number from 0 to 9, got 10"},
    {"priority: -1\n", "f:1: priority: expected a number from 0 to 9, got -1"},
    {"priority: 1.5\n", "f:1: priority: expected a number from 0 to 9, got 1.5"},
    {"priority: ' 1'\n", "f:1: priority: expected a number from 0 to 9, got  1"},
    {"priority:\n", "f:1: priority: expected a number from 0 to 9"},
    {"idle_unload_ms: 31536000001\n", "*got 31536000001"},
    {"concurrency: 0\n", "f:1: concurrency: expected a number from 1 to 256, got 0"},
    {"concurrency: 257\n", "f:1: concurrency: expected a number from 1 to 256, got 257"},
    {"sequence: 5\n", "f:1: sequence: expected 'key: value' lines"},
    {"sequence: {max: 0}\n", "f:1: max: expected a number from 1 to 1000000, got 0"},
    {"sequence: {idle_ms: 0}\n", "f:1: sequence: unknown key idle_ms"},
    {"- a\n", "f:1: the file: expected 'key: value' lines"},
    {"a\n", "f:1: the file: expected 'key: value' lines"},
    {"inputs: [a\n", "f:*"},
    {"inputs: a: b\n", "f:1: *"},
    {"\tinputs: [a]\n", "f:1: *"},
    {"inputs: [\"\xff\"]\n", "f:*"},
    {"[a]: b\n", "f:1: a key is not a plain value"},
    {"{a: b}: b\n", "f:1: a key is not a plain value"},
    {"inputs: [a]\n---\ninputs: [b]\n", "f:2: more than one document"},
    {"inputs: *x\n", "f:1: aliases are not read: *x"},
    {"*x : a\n", "f:1: aliases are not read: *x"},
    {"inputs: &x [a]\n", "f:1: anchors are not read: &x"},
    {"inputs: [&x a]\n", "f:1: anchors are not read: &x"},
    {"state: [&x {input: a}]\n", "f:1: anchors are not read: &x"},
    {"inputs: !!seq [a]\n", "f:1: tags are not read: tag:yaml.org,2002:seq"},
    {"pad: {a: !!int 3}\n", "f:1: tags are not read: tag:yaml.org,2002:int"},
    {"inputs: [[[[[[[[[[a]]]]]]]]]]\n", "f:1: inputs: over 8 levels deep"},
};

START_TEST(errors_name_file_line_and_key) {
    const char *want = bad[_i].cause, *star = strchr(want, '*');
    if (star && star[1] == 'x') star = NULL; /* the alias */
    td_status_t s = parse(bad[_i].text, true);
    ck_assert_int_ne(s, TD_OK);
    ck_assert_int_eq(s, err.code);
    if (!star) ck_assert_str_eq(err.text, want);
    else ck_assert_msg(!strncmp(err.text, want, (size_t)(star - want)) && strstr(err.text, star + 1), "%s", err.text);
    ck_assert(!c.inputs.given && !c.weights_only.given && c.latest == 1);
}
END_TEST

/* n entries, each a number between head and tail. */
static char *many(const char *before, const char *head, const char *tail, unsigned n, const char *after) {
    size_t room = strlen(before) + strlen(after) + (size_t)n * 24 + 1, at = strlen(before);
    char *s = malloc(room);
    strcpy(s, before);
    for (unsigned i = 0; i < n; i++) at += (size_t)snprintf(s + at, room - at, "%s%u%s", head, i, tail);
    strcpy(s + at, after);
    return s;
}
static void expect_many(const char *before, const char *head, const char *tail, unsigned n, const char *after,
                        const char *cause) {
    char *s = many(before, head, tail, n, after);
    td_status_t got = parse(s, true);
    free(s);
    if (!cause) ck_assert_msg(got == TD_OK, "%s", err.text);
    else ck_assert_str_eq(err.text, cause);
    ck_assert_int_eq(got, cause ? strstr(cause, "dims") ? TD_USAGE : TD_LIMIT : TD_OK);
}
START_TEST(long_lists) {
    expect_many("inputs: [", "x", ", ", 4096, "]\n", NULL);
    ck_assert_uint_eq(c.inputs.n, 4096);
    ck_assert_str_eq(c.inputs.items[4095].name.text, "x4095");
    expect_many("inputs: [", "x", ", ", 4097, "]\n", "f:1: inputs: more than 4096 entries");
    expect_many("weights: {bind: {", "x", ": y, ", 4096, "}}\n", NULL);
    expect_many("weights: {bind: {", "x", ": y, ", 4097, "}}\n", "f:1: bind: more than 4096 entries");
    expect_many("", "k", ": y\n", 5000, "", "f:4097: the file: more than 4096 entries");
    expect_many("inputs: [{name: a, shape: [", "", ", ", 64, "]}]\n", NULL);
    expect_many("inputs: [{name: a, shape: [", "", ", ", 65, "]}]\n", "f:1: shape: 65 dims; at most 64");
    expect_many("axes: {a: [", "", ", ", 65, "]}\n", "f:1: a: 65 dims; at most 64");
    char *row = many("[", "", ",", 4000, "],"), *all = malloc(40 * strlen(row) + 64);
    strcpy(all, "inputs: [");
    for (int i = 0; i < 40; i++) strcat(all, row);
    strcat(all, "]\n");
    ck_assert_int_eq(parse(all, true), TD_LIMIT);
    ck_assert_str_eq(err.text, "f:1: more than 131072 values");
    free(row), free(all);
}
END_TEST

START_TEST(no_memory) {
    static const char text[] = "inputs: [{name: a, shape: [1]}]\nweights: {bind: {0: x}}\naxes: {a: [b]}\npad: {a: 1}\n"
                               "state: [{input: a, output: b}]\nbuckets: [x]\nlabels: {s: 1}\n";
    td_counting_alloc_t mem;
    for (unsigned budget = 1;; budget += 97) { /* the arena ends at every place */
        td_arena_t small;
        td_arena_init(&small, td_alloc_default(), budget);
        td_status_t s = td_model_yaml_parse(text, strlen(text), "f", true, &small, &c, &err);
        td_arena_deinit(&small);
        ck_assert(s == TD_OK || s == TD_LIMIT);
        if (s == TD_OK) break;
    }
    for (unsigned n = 1;; n++) {
        td_arena_t small;
        td_counting_alloc_init(&mem, td_alloc_default());
        mem.fail_at = n;
        td_arena_init(&small, &mem.base, 0);
        td_status_t s = td_model_yaml_parse(text, strlen(text), "f", true, &small, &c, &err);
        td_arena_deinit(&small);
        ck_assert_uint_eq(mem.live_bytes, 0);
        if (s == TD_OK) break;
        ck_assert_int_eq(s, TD_NOMEM);
    }
}
END_TEST

/* Every beginning of a good file, and the file with any one byte changed: no crash, and an error has its place. */
START_TEST(damaged_files) {
    static const char text[] = "inputs:\n- {name: a, shape: [1, -1], datatype: FP32}\nweights:\n  bind: {0: \"x\"}\n"
                               "state: [{input: a, output: b}]\nlabels: {s: 1}\npad: {a: 1.5}\n";
    char copy[sizeof text];
    for (size_t n = 0; n < sizeof text; n++)
        if (td_model_yaml_parse(text, n, "f", true, &arena, &c, &err) != TD_OK) ck_assert(!strncmp(err.text, "f:", 2));
    for (size_t i = 0; i < sizeof text - 1; i++) {
        for (const char *b = "\"[]{}:,-&*!\n \t\x80" "9\\"; *b; b++) {
            memcpy(copy, text, sizeof text);
            copy[i] = *b;
            if (parse(copy, true) != TD_OK) ck_assert_msg(!strncmp(err.text, "f:", 2), "%s", err.text);
        }
    }
}
END_TEST

START_TEST(files) {
    char dir[] = "/tmp/td_yaml_XXXXXX", path[64], cmd[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/model.yaml", dir);
    ck_assert_int_eq(td_model_yaml_read(path, true, &arena, &c, &err), TD_OK); /* it is not there */
    ck_assert(!c.inputs.given);
    FILE *f = fopen(path, "w");
    fputs("inputs: [a]\nxyzzy: 1\n", f);
    fclose(f);
    ck_assert_int_eq(td_model_yaml_read(path, true, &arena, &c, &err), TD_USAGE);
    ck_assert(!strncmp(err.text, path, strlen(path)) && !strcmp(err.text + strlen(path), ":2: unknown key xyzzy"));
    ck_assert_int_eq(truncate(path, 12), 0);
    ck_assert_int_eq(td_model_yaml_read(path, true, &arena, &c, &err), TD_OK);
    ck_assert_str_eq(c.inputs.items[0].name.text, "a");
    f = fopen(path, "a"); /* comments up to the limit, and one more */
    for (int i = 0; i < (1 << 20) - 12; i++) fputc(i % 64 == 63 ? '\n' : '#', f);
    fclose(f);
    ck_assert_msg(td_model_yaml_read(path, true, &arena, &c, &err) == TD_OK, "%s", err.text);
    ck_assert_int_eq(truncate(path, (1 << 20) + 1), 0);
    ck_assert_int_eq(td_model_yaml_read(path, true, &arena, &c, &err), TD_LIMIT);
    ck_assert_int_eq(td_model_yaml_read(dir, true, &arena, &c, &err), TD_IO);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(td_model_yaml_read(path, true, &arena, &c, &err), TD_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "not a file"));
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

START_TEST(words_fail_where_they_stand) {
    good("outputs: [a,\n b]\n");
    ck_assert_int_eq(td_word_fail(&c.outputs.items[1].name, &err, TD_MISMATCH, "outputs: %s: %d", "b", 7), TD_MISMATCH);
    ck_assert_str_eq(err.text, "f:2: outputs: b: 7");
    ck_assert_int_eq(td_word_fail(&c.default_version, &err, TD_NOTFOUND, "none"), TD_NOTFOUND);
    ck_assert_str_eq(err.text, "none");
}
END_TEST

int main(void) {
    Suite *s = suite_create("model_yaml");
    TCase *t = tcase_create("model_yaml");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, defaults);
    tcase_add_test(t, names);
    tcase_add_test(t, shapes);
    tcase_add_test(t, weights_as_a_map);
    tcase_add_test(t, versions_and_labels);
    tcase_add_test(t, loading_and_numbers);
    tcase_add_test(t, buckets_axes_pads_states);
    tcase_add_test(t, a_versions_file_wins);
    tcase_add_loop_test(t, keys_of_the_model_only, 0, 7);
    tcase_add_loop_test(t, errors_name_file_line_and_key, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, long_lists);
    tcase_add_test(t, no_memory);
    tcase_add_test(t, damaged_files);
    tcase_add_test(t, files);
    tcase_add_test(t, words_fail_where_they_stand);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
