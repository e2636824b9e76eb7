/* Which parts of x and w a transform may take: magnitudes are gathered slot by slot while data is read, judged once,
 * and the flagged parts recomputed by the exact chain (chain_cuda.h), all on the stream.
 *
 * A slot is two words, zeroed before use: the largest |v| seen, as bits, and the complement of the smallest non-zero
 * one's bits. NaN and infinity have the largest bits of all, so one maximum finds them too. */
#ifndef CV_GUARD_H
#define CV_GUARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CV_GUARD_WORDS = 2 };

/* A slot passes when its largest magnitude m has 2^low <= m < 2^high, or is 0, and m / smallest < 2^span (span 0: any).
 */
typedef struct cv_guard_range {
    int low, high, span;
} cv_guard_range;

/* Scans a 4-D tensor; plane (a, b) counts for slot a * per + b / div. Enqueues; a cudaError_t as an int. */
int cv_guard_scan(const float *data, const int64_t size[4], const int64_t stride[4], int64_t per, int64_t div,
                  unsigned *slots, void *stream);

/* flags[i] = 1 where slot i of the first list does not pass, else 0; those of the second list follow. */
int cv_guard_judge(const unsigned *x_slots, int64_t x_count, cv_guard_range x_range, const unsigned *w_slots,
                   int64_t w_count, cv_guard_range w_range, unsigned *flags, void *stream);

/* The widest range of x and w for which spectra of tiles of `points` values, summed over `channels`, can neither
 * overflow nor lose bits to underflow; taps: of one channel's kernel. */
cv_guard_range cv_guard_range_of(double points, double taps, double channels);

#ifdef __cplusplus
}
#endif

#endif
