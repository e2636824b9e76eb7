#include "peer.h"

#include <ctype.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what, const char *value)
{
    fprintf(stderr, "convoy-peer: %s: %s\n", value, what);
    exit(2);
}

void *peer_alloc(size_t bytes)
{
    const size_t page = (size_t)2 << 20, room = (bytes + page) / page * page;
    void *memory = aligned_alloc(page, room);
    if (!memory)
        die("out of memory", "buffers");
    madvise(memory, room, MADV_HUGEPAGE);
    return memset(memory, 0, room);
}

/* ---- the problem string: n c h w k r s, then _st _pad _dil _g, in this order */

static bool number(const char **at, long *value)
{
    char *end;
    if (!isdigit((unsigned char)**at))
        return false;
    *value = strtol(*at, &end, 10);
    *at = end;
    return *value < 1L << 24;
}

static bool word(const char **at, const char *text)
{
    const size_t length = strlen(text);
    const bool found = strncmp(*at, text, length) == 0;
    *at += found ? length : 0;
    return found;
}

static bool pair(const char **at, long *a, long *b)
{
    if (!number(at, a))
        return false;
    *b = *a;
    return !word(at, "x") || number(at, b);
}

static bool pads(const char **at, struct peer_problem *p)
{
    long a, b;
    if (!pair(at, &a, &b))
        return false;
    p->pad_t = p->pad_b = a;
    p->pad_l = p->pad_r = b;
    return **at != ',' || (word(at, ",") && number(at, &p->pad_b) && word(at, ",") && number(at, &p->pad_l) &&
                           word(at, ",") && number(at, &p->pad_r));
}

static bool parse(const char *text, struct peer_problem *p)
{
    long *const field[] = {&p->n, &p->c, &p->h, &p->w, &p->k, &p->r, &p->s};
    const char *at = text;
    *p = (struct peer_problem){.text = text,
                               .n = 1,
                               .w = -1,
                               .k = -1,
                               .s = -1,
                               .stride_h = 1,
                               .stride_w = 1,
                               .dil_h = 1,
                               .dil_w = 1,
                               .groups = 1};
    for (int i = 0; i < 7; i++)
        if (*at == "nchwkrs"[i] && (at++, !number(&at, field[i])))
            return false;
    p->w = p->w < 0 ? p->h : p->w;
    p->k = p->k < 0 ? p->c : p->k;
    p->s = p->s < 0 ? p->r : p->s;
    bool same = false;
    if ((word(&at, "_st") && !pair(&at, &p->stride_h, &p->stride_w)) ||
        (word(&at, "_pad") && !(same = word(&at, "same")) && !pads(&at, p)) ||
        (word(&at, "_dil") && !pair(&at, &p->dil_h, &p->dil_w)))
        return false;
    if (word(&at, "_gc"))
        p->groups = p->c;
    else if (word(&at, "_g") && !number(&at, &p->groups))
        return false;
    const long reach_h = (p->r - 1) * p->dil_h, reach_w = (p->s - 1) * p->dil_w;
    if (same)
        p->pad_t = reach_h / 2, p->pad_b = reach_h - reach_h / 2, p->pad_l = reach_w / 2,
        p->pad_r = reach_w - reach_w / 2;
    if (*at || p->n < 1 || p->c < 1 || p->k < 1 || p->r < 1 || p->s < 1 || p->groups < 1 || p->stride_h < 1 ||
        p->stride_w < 1)
        return false;
    p->P = (p->h + p->pad_t + p->pad_b - reach_h - 1) / p->stride_h + 1;
    p->Q = (p->w + p->pad_l + p->pad_r - reach_w - 1) / p->stride_w + 1;
    return p->h + p->pad_t + p->pad_b > reach_h && p->w + p->pad_l + p->pad_r > reach_w;
}

/* ---- data */

static uint64_t mix(uint64_t seed, uint64_t i) /* SplitMix64 as a function of its counter */
{
    uint64_t z = seed * 0xd1342543de82ef95u + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static float *normals(size_t count, uint64_t seed)
{
    float *data = peer_alloc(count * sizeof *data);
#pragma omp parallel for
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = mix(seed, i);
        const float u = ((float)(bits >> 40) + 0.5f) * 0x1p-24f, v = (float)(uint32_t)bits * 0x1p-32f;
        data[i] = sqrtf(-2.0f * logf(u)) * cosf(6.28318531f * v);
    }
    return data;
}

static double truth(const struct peer *e, size_t at)
{
    const struct peer_problem *p = &e->p;
    const long q = (long)(at % (size_t)p->Q), row = (long)(at / (size_t)p->Q % (size_t)p->P),
               k = (long)(at / (size_t)(p->Q * p->P) % (size_t)p->k), n = (long)(at / (size_t)(p->Q * p->P * p->k));
    const long cg = p->c / p->groups, first = k / (p->k / p->groups) * cg;
    double sum = 0;
    for (long c = 0; c < cg; c++)
        for (long r = 0; r < p->r; r++)
            for (long s = 0; s < p->s; s++) {
                const long i = row * p->stride_h + r * p->dil_h - p->pad_t,
                           j = q * p->stride_w + s * p->dil_w - p->pad_l;
                if (i >= 0 && i < p->h && j >= 0 && j < p->w)
                    sum += (double)e->x[0][((n * p->c + first + c) * p->h + i) * p->w + j] *
                           (double)e->w[0][((k * cg + c) * p->r + r) * p->s + s];
            }
    return sum;
}

void peer_open(struct peer *e, int argc, char **argv)
{
    memset(e, 0, sizeof *e);
    if (argc != 5)
        die("expected PROBLEM THREADS SECONDS SEED", argv[0]);
    if (!parse(argv[1], &e->p))
        die("expected a problem as convoy prints it, such as n4c64h128k64r8", argv[1]);
    e->threads = atoi(argv[2]);
    e->seconds = atof(argv[3]);
    e->seed = strtoull(argv[4], NULL, 10);
    if (e->threads < 1 || !(e->seconds > 0))
        die("expected threads of 1 or more and seconds above 0", argv[2]);
    omp_set_num_threads(e->threads);
    const struct peer_problem *p = &e->p;
    const size_t xs = (size_t)(p->n * p->c * p->h * p->w), ws = (size_t)(p->k * (p->c / p->groups) * p->r * p->s);
    e->outputs = (size_t)(p->n * p->k * p->P * p->Q);
    const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    const double want = 2.0 * (double)(l2 > 0 ? l2 : 1 << 20) * e->threads / (4.0 * (double)(xs + ws + e->outputs));
    e->sets = want > PEER_SETS - 1 ? PEER_SETS : 1 + (int)want;
    for (int i = 0; i < e->sets; i++) {
        e->x[i] = normals(xs, 100 * e->seed + 2 * (uint64_t)i);
        e->w[i] = normals(ws, 100 * e->seed + 2 * (uint64_t)i + 1);
        e->y[i] = peer_alloc(e->outputs * sizeof(float));
    }
#pragma omp parallel for schedule(dynamic, 4)
    for (size_t i = 0; i < PEER_SAMPLES; i++) {
        e->at[i] = i == 0 ? 0 : i == 1 ? e->outputs - 1 : mix(e->seed + 7, i) % e->outputs;
        e->truth[i] = truth(e, e->at[i]);
    }
}

/* ---- timing and reporting */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Two runs to warm up, then at least five and until the time is over; medians and the tenths on either side. */
struct peer_timing peer_time(const struct peer *e, double seconds, peer_run run, void *self)
{
    double ms[PEER_RUNS], first = now_ms();
    int runs = 0;
    for (int i = 0; runs < PEER_RUNS; i++) {
        const double from = now_ms();
        run(self, i % e->sets);
        const double to = now_ms();
        if (i < 2 && to - first < 1e3 * seconds) {
            first = i == 1 ? to : first;
            continue;
        }
        ms[runs++] = to - from;
        if ((to - first > 1e3 * seconds && runs >= 5) || to - first > 1e4 * seconds)
            break;
    }
    qsort(ms, (size_t)runs, sizeof *ms, ascending);
    return (struct peer_timing){runs, (ms[(runs - 1) / 2] + ms[runs / 2]) / 2, ms[(runs - 1) / 10],
                                ms[(9 * (runs - 1) + 9) / 10]};
}

bool peer_report(struct peer *e, const char *engine, const char *candidate, bool prepared, struct peer_timing t,
                 peer_run run, void *self)
{
    double worst = 0, error2 = 0, truth2 = 0;
    bool finite = true;
    memset(e->y[0], 0xff, e->outputs * sizeof(float));
    run(self, 0);
    for (int i = 0; i < PEER_SAMPLES; i++) {
        const double error = fabs((double)e->y[0][e->at[i]] - e->truth[i]);
        finite = finite && isfinite(error);
        worst = fmax(worst, error);
        error2 += error * error;
        truth2 += e->truth[i] * e->truth[i];
    }
    const double rms = sqrt(error2 / truth2);
    const struct peer_problem *p = &e->p;
    const double flop = 2.0 * (double)e->outputs * (double)(p->c / p->groups) * (double)p->r * (double)p->s;
    if (!finite || !(rms < 5e-5)) { /* FP32 sums of 100,000 terms in any order pass (1e-5), TF32 (3e-4) does not */
        fprintf(stderr, "convoy-peer: %s: %s %s is wrong\n", p->text, engine, candidate);
        return false;
    }
    printf("{\"problem\":\"%s\",\"engine\":\"%s\",\"candidate\":\"%s\",\"peer\":true,\"math\":\"fp32\",\"weights\":\"%"
           "s\",\"device\":\"cpu\","
           "\"threads\":%d,\"median_ms\":%.6g,\"p10_ms\":%.6g,\"p90_ms\":%.6g,\"runs\":%d,\"direct_gflop_per_s\":%.6g,"
           "\"max_abs_err\":%.4g,"
           "\"rel_rms_err\":%.4g,\"chosen\":false}\n",
           p->text, engine, candidate, prepared ? "prepared" : "fresh", e->threads, t.median_ms, t.p10_ms, t.p90_ms,
           t.runs, 1e-6 * flop / t.median_ms, worst, rms);
    fflush(stdout);
    return true;
}
