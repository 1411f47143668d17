/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 in and out of buffers, whole and byte by byte. */
#include "daemon/http.c"

#include <check.h>

static int calls;
static char seen[4][256]; /* "METHOD path body" of the first calls */

static void handler(void *ctx, const td_http_request_t *r, td_http_answer_t *out) {
    static const char *const names[] = {"GET", "POST", "OTHER"};
    ck_assert_ptr_eq(ctx, seen);
    if (calls < 4)
        snprintf(seen[calls], sizeof seen[0], "%s %.100s %.*s", names[r->method], r->path, (int)r->body.size,
                 r->body.size ? (const char *)r->body.data : "");
    calls++;
    if (!strcmp(r->path, "/405")) {
        td_http_error(out, 405, "only GET");
        out->allow = "GET, HEAD";
        return;
    }
    *out = (td_http_answer_t){.status = 200, .type = "text/plain"};
    td_pb_raw(&out->body, "hello", 5);
}

/* Sends text, in pieces of `step` bytes, and gives the answers as one string. */
static char *talk(const char *text, size_t size, size_t step, bool *open) {
    static char all[1 << 20];
    td_http_t *h = td_http_create(handler, seen);
    td_pb_t out = {0};
    calls = 0;
    memset(seen, 0, sizeof seen);
    *open = true;
    for (size_t i = 0; *open && i < size; i += step)
        *open = td_http_read(h, text + i, size - i < step ? size - i : step, &out);
    ck_assert_uint_lt(out.size, sizeof all);
    ck_assert(!out.failed);
    if (out.size) memcpy(all, out.data, out.size);
    all[out.size] = 0;
    td_pb_free(&out);
    td_http_free(h);
    return all;
}

static void expect(const char *text, const char *status, const char *first, bool stays) {
    for (size_t step = 1; step <= 4096; step = step == 1 ? 7 : step * 37) {
        bool open;
        char *answer = talk(text, strlen(text), step, &open);
        ck_assert_msg(!strncmp(answer, status, strlen(status)), "%s -> %s", text, answer);
        ck_assert_msg(open == stays, "%s -> %s", text, answer);
        ck_assert_str_eq(seen[0], first);
    }
}

START_TEST(requests) {
    expect("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n", "GET /metrics ", true);
    expect("GET http://thunkd/metrics?a=b#c HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n", "GET /metrics ", true);
    expect("GET /a%20b%2Fc HTTP/1.1\r\nhOST:\r\nX: 1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "GET /a b/c ", true);
    expect("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", "HTTP/1.1 200 OK\r\n", "POST /x body", true);
    expect("POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
           "HTTP/1.1 200 OK\r\n", "POST /x abcde", true);
    expect("POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nb",
           "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", "POST /x b", true);
    expect("DELETE /x HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n", "OTHER /x ", true);
    expect("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\n", "GET / ", false);
    expect("GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n", "GET / ", false);
    expect("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\n", "GET / ", true);
    expect("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "HTTP/1.1 200 OK\r\n", "GET / ",
           true);
}
END_TEST

START_TEST(refused) {
    expect("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "", false);
    expect("nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "", false);
    expect("GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "", true);
    expect("GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "", true);
    expect("GET /%4 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "", true);
    expect("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "", true);
    expect("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n", "HTTP/1.1 413 Content Too Large\r\n", "",
           false);
    expect("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n", "HTTP/1.1 4", "", false);
    expect("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 400", "",
           false);
    expect("GET /405 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n", "GET /405 ", true);
}
END_TEST

static char *repeated(const char *before, const char *piece, size_t n, const char *after) {
    size_t k = strlen(piece);
    char *s = malloc(strlen(before) + n * k + strlen(after) + 1), *p = s;
    p = stpcpy(p, before);
    while (n--) p = stpcpy(p, piece);
    strcpy(p, after);
    return s;
}

START_TEST(limits) {
    bool open;
    char *s = repeated("GET /", "a", 3000, " HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(talk(s, strlen(s), 100, &open), " 414 "));
    ck_assert(!open && !calls);
    free(s);
    s = repeated("GET / HTTP/1.1\r\nHost: x\r\n", "X: aaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 2000, "\r\n");
    ck_assert_ptr_nonnull(strstr(talk(s, strlen(s), 100, &open), " 431 "));
    ck_assert(!open && !calls);
    free(s);
    s = repeated("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "8\r\n12345678\r\n", 8193,
                 "0\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(talk(s, strlen(s), 1000, &open), " 413 "));
    ck_assert(!open && !calls);
    free(s);
    s = repeated("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n", "12345678", 8192, "");
    ck_assert_ptr_nonnull(strstr(talk(s, strlen(s), 1000, &open), " 200 "));
    ck_assert(open && calls == 1);
    free(s);
}
END_TEST

START_TEST(several) {
    static const char text[] = "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: x\r\n\r\n"
                               "POST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi\r\n"
                               "GET /4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                               "GET /5 HTTP/1.1\r\nHost: x\r\n\r\n";
    bool open;
    char *answer = talk(text, sizeof text - 1, 11, &open);
    ck_assert(!open);
    ck_assert_int_eq(calls, 4);
    ck_assert_str_eq(seen[1], "GET /2 ");
    ck_assert_str_eq(seen[2], "POST /3 hi");
    ck_assert_str_eq(seen[3], "GET /4 ");
    int n = 0, bodies = 0;
    for (char *p = answer; (p = strstr(p, "HTTP/1.1 200 OK\r\n")); p++) n++;
    for (char *p = answer; (p = strstr(p, "\r\n\r\nhello")); p++) bodies++;
    ck_assert_int_eq(n, 4);
    ck_assert_int_eq(bodies, 3); /* HEAD has none, but its length */
    ck_assert_ptr_nonnull(strstr(answer, "Connection: close\r\n\r\nhello"));
}
END_TEST

START_TEST(error_is_json) {
    bool open;
    static const char text[] = "GET /405 HTTP/1.1\r\nHost: x\r\n\r\n";
    char *answer = talk(text, sizeof text - 1, 1000, &open), *body = strstr(answer, "\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(answer, "Allow: GET, HEAD\r\n"));
    ck_assert_ptr_nonnull(strstr(answer, "Content-Type: application/json\r\n"));
    ck_assert_str_eq(body + 4, "{\"error\":\"only GET\"}");
}
END_TEST

/* Whatever comes: an answer, or the end. */
START_TEST(mutated) {
    static const char text[] = "POST http://a/b%20c?d HTTP/1.1\r\nHost: x\r\n"
                               "Transfer-Encoding: chunked\r\nX: \r\n y\r\n\r\n"
                               "3\r\nabc\r\n0\r\nT: 1\r\n\r\nGET /2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    char buf[sizeof text];
    bool open;
    srand(7);
    for (int i = 0; i < 20000; i++) {
        memcpy(buf, text, sizeof text);
        for (int k = rand() % 4; k >= 0; k--)
            buf[(size_t)rand() % sizeof text] = (char)(rand() % 3 ? rand() : "\r\n :%0"[rand() % 6]);
        char *answer = talk(buf, sizeof text - (size_t)rand() % 8, 1 + (size_t)rand() % 200, &open);
        ck_assert(!*answer || !strncmp(answer, "HTTP/1.1 ", 9));
        ck_assert(open || *answer);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("http");
    TCase *t = tcase_create("http");
    tcase_add_test(t, requests);
    tcase_add_test(t, refused);
    tcase_add_test(t, limits);
    tcase_add_test(t, several);
    tcase_add_test(t, error_is_json);
    tcase_add_test(t, mutated);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
