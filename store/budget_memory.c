/* SPDX-License-Identifier: Apache-2.0 */
/* Formats: proc(5) for meminfo and cgroup, the kernel's Documentation/admin-guide/cgroup-v2.rst (memory.max) and
 * cgroup-v1/memory.rst (memory.limit_in_bytes). In a container the path that /proc tells may be that of the host
 * while /sys shows the container's part: then the group's folder is missing and its parent's file is the limit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "store/budget.h"

#define PATH_BYTES 4608

/* The number that a file consists of; false: none, or "max". */
static bool read_limit(const char *path, uint64_t *out) {
    FILE *f = fopen(path, "re");
    bool good = f && fscanf(f, "%" SCNu64, out) == 1;
    if (f) fclose(f);
    return good;
}

/* The least limit of the group and its parents, up to the top. group is shortened. */
static uint64_t least_limit(const char *root, const char *mount, char *group, const char *file) {
    char path[PATH_BYTES];
    uint64_t least = UINT64_MAX, limit = 0;
    if (strstr(group, "/..")) *group = '\0'; /* outside of what this process sees */
    for (char *end = group + strlen(group);; *end = '\0') {
        while (end > group && end[-1] == '/') *--end = '\0';
        int n = snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, file);
        if (n > 0 && (size_t)n < sizeof path && read_limit(path, &limit) && limit < least) least = limit;
        if (end == group) return least;
        while (end > group && end[-1] != '/') end--;
    }
}

/* Is `name` one of the words between commas? */
static bool has_word(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, name, n) && (p[n] == ',' || !p[n])) return true;
    return false;
}

/* A line of /proc/self/cgroup: "ID:CONTROLLERS:/GROUP"; no controllers: version 2. */
static uint64_t line_limit(const char *root, char *line) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return UINT64_MAX;
    *group++ = '\0';
    controllers++;
    if (has_word(controllers, "memory"))
        return least_limit(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    if (*controllers) return UINT64_MAX;
    char again[PATH_BYTES];
    snprintf(again, sizeof again, "%s", group);
    uint64_t a = least_limit(root, "/sys/fs/cgroup", group, "memory.max");
    uint64_t b = least_limit(root, "/sys/fs/cgroup/unified", again, "memory.max");
    return a < b ? a : b;
}

static uint64_t group_limit(const char *root) {
    char line[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *f = fopen(line, "re");
    while (f && fgets(line, sizeof line, f)) {
        uint64_t limit = line_limit(root, line);
        if (limit < least) least = limit;
    }
    if (f) fclose(f);
    return least;
}

/* 0: unknown. */
static uint64_t machine_memory(const char *root) {
    char line[PATH_BYTES];
    uint64_t kib = 0, bytes = 0;
    snprintf(line, sizeof line, "%s/proc/meminfo", root);
    FILE *f = fopen(line, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemTotal: %" SCNu64 " kB", &kib) == 1) break;
    if (f) fclose(f);
    return td_mul_u64(kib, 1024, &bytes) ? bytes : 0;
}

uint64_t td_budget_host_memory(const char *root) {
    uint64_t machine = machine_memory(root), group = group_limit(root);
    if (group == UINT64_MAX) return machine;
    return machine && machine < group ? machine : group;
}
