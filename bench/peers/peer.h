/* What the peer programs share: the problem, data, timing by the rules of convoy bench, an FP64 check, and a JSON line
 * a result.
 *
 * Call: convoy-peer-NAME PROBLEM THREADS SECONDS SEED. Prints nothing, with exit code 0, for a problem that the peer
 * does not do. */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PEER_SETS = 16, PEER_SAMPLES = 512, PEER_RUNS = 101 };

struct peer_problem {
    const char *text;
    long n, c, h, w, k, r, s;
    long stride_h, stride_w, pad_t, pad_b, pad_l, pad_r, dil_h, dil_w, groups;
    long P, Q;
};

/* Inputs and outputs in several copies, which runs take in turn, so that no run finds its data in L2. */
struct peer {
    struct peer_problem p;
    int threads, sets;
    double seconds;
    uint64_t seed;
    float *x[PEER_SETS], *w[PEER_SETS], *y[PEER_SETS]; /* (N,C,H,W) (K,C/G,R,S) (N,K,P,Q) */
    size_t outputs, at[PEER_SAMPLES];
    double truth[PEER_SAMPLES];
};

struct peer_timing {
    int runs;
    double median_ms, p10_ms, p90_ms;
};

/* One call of what is timed, on the given copy of the data. */
typedef void (*peer_run)(void *self, int set);

void peer_open(struct peer *peer, int argc, char **argv); /* ends the program on bad usage */
struct peer_timing peer_time(const struct peer *peer, double seconds, peer_run run, void *self);

/* Runs once into NaN, compares with FP64 and prints the line; false, with a word on standard error, when the result is
 * wrong. */
bool peer_report(struct peer *peer, const char *engine, const char *candidate, bool prepared, struct peer_timing t,
                 peer_run run, void *self);

/* Zeroed, on huge pages where the system has them; ends the program when there is no memory. */
void *peer_alloc(size_t bytes);

#endif
