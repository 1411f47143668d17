/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's client: sends held-back digits to a running daemon through
 * `thunkctl infer`, draws the first few beside the answers, counts the right ones.
 *
 * usage: demo-digits THUNKCTL SOCKET TEST.safetensors TMPDIR
 *
 * TEST holds "images" (F32, [N,8,8], 0..1) and "labels" (I32, [N]). */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "store/safetensors.h"

enum { SIDE = 8, CLASSES = 10, SHOWN = 6, BAR = 24 };

extern char **environ;

typedef struct client {
    char *ctl;
    char *socket;
    char in[4096];
    char out[4096];
} client_t;

static int report(const char *what, const td_err_t *err) {
    fprintf(stderr, "demo: %s: %s\n", what, err->text);
    return 1;
}

static int infer_process(client_t *c) {
    char *argv[] = {c->ctl, "infer", "digits", "--socket", c->socket, "--inputs", c->in, "--outputs", c->out, NULL};
    pid_t pid;
    int status;
    if ((errno = posix_spawn(&pid, c->ctl, NULL, NULL, argv, environ))) {
        fprintf(stderr, "demo: %s: %s\n", c->ctl, strerror(errno));
        return 1;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return 1;
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* One request: an image in, ten probabilities out. 0 when it went well. */
static int classify(client_t *c, const float *image, float probabilities[CLASSES]) {
    static const int64_t dims[] = {1, SIDE, SIDE};
    td_st_tensor_t t = {.name = "image", .dtype = "F32", .rank = 3, .dims = dims, .data = image,
                        .bytes = SIDE * SIDE * sizeof *image};
    td_err_t err = {0};
    if (td_st_write(c->in, &t, 1, &err)) return report(c->in, &err);
    if (infer_process(c)) return 1;
    td_st_t *st = NULL;
    if (td_st_open_file(c->out, NULL, &st, &err)) return report(c->out, &err);
    const td_st_tensor_t *p = td_st_find(st, "probabilities");
    int ok = p && p->bytes == CLASSES * sizeof *probabilities;
    if (ok) memcpy(probabilities, p->data, p->bytes);
    else fprintf(stderr, "demo: %s: no ten probabilities\n", c->out);
    td_st_close(st);
    return !ok;
}

static int best(const float *p) {
    int b = 0;
    for (int i = 1; i < CLASSES; i++)
        if (p[i] > p[b]) b = i;
    return b;
}

/* The digit on the left, a bar per class on the right. */
static void draw(const float *image, const float *p, int label) {
    static const char *const shade[] = {"  ", "░░", "▒▒", "▓▓", "██"};
    static const char *const eighth[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    printf("\n");
    for (int row = 0; row < CLASSES; row++) {
        printf("  ");
        for (int col = 0; col < SIDE; col++) {
            int level = row < SIDE ? (int)(image[row * SIDE + col] * 4 + 0.5f) : 0;
            printf("%s", shade[level < 0 ? 0 : level > 4 ? 4 : level]);
        }
        int eighths = (int)(p[row] * BAR * 8 + 0.5f);
        printf("   %d %5.1f%% ", row, (double)p[row] * 100);
        for (int i = 0; i < eighths / 8; i++) printf("█");
        printf("%s%s\n", eighth[eighths % 8], row == best(p) ? (row == label ? "  right" : "  wrong") : "");
    }
}

static int run(client_t *c, const float *images, const int32_t *labels, int64_t n) {
    int64_t right = 0;
    for (int64_t i = 0; i < n; i++) {
        float p[CLASSES];
        const float *image = images + i * SIDE * SIDE;
        if (classify(c, image, p)) return 1;
        if (i < SHOWN) draw(image, p, labels[i]);
        right += best(p) == labels[i];
    }
    printf("\n%lld of %lld held-back digits are right\n", (long long)right, (long long)n);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "Usage: demo-digits THUNKCTL SOCKET TEST.safetensors TMPDIR\n");
        return 2;
    }
    client_t c = {.ctl = argv[1], .socket = argv[2]};
    snprintf(c.in, sizeof c.in, "%s/in.safetensors", argv[4]);
    snprintf(c.out, sizeof c.out, "%s/out.safetensors", argv[4]);
    td_err_t err = {0};
    td_st_t *st = NULL;
    if (td_st_open_file(argv[3], NULL, &st, &err)) return report(argv[3], &err);
    const td_st_tensor_t *images = td_st_find(st, "images"), *labels = td_st_find(st, "labels");
    int rc = 1;
    if (images && labels && labels->rank == 1 && !strcmp(images->dtype, "F32") && !strcmp(labels->dtype, "I32") &&
        images->bytes == (uint64_t)labels->dims[0] * SIDE * SIDE * sizeof(float))
        rc = run(&c, images->data, labels->data, labels->dims[0]);
    else
        fprintf(stderr, "demo: %s: want images F32 [N,8,8] and labels I32 [N]\n", argv[3]);
    td_st_close(st);
    return rc;
}
