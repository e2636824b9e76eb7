/* Problems: checking, sizes, and the packed strides that the rest of the library reads. */
#include "problem.h"

#include <limits.h>
#include <string.h>

/* One sum's terms and one tensor's bytes stay below this, so that no product in the library can overflow. */
static const int64_t most = INT64_MAX / 8;

/* A zero counts as one here: an empty tensor's other sizes are still multiplied, for its strides. */
static int product_fits(const int64_t size[4])
{
    int64_t total = 1;
    for (int i = 0; i < 4; i++)
        if (size[i] > 0 && (__builtin_mul_overflow(total, size[i], &total) || total > most))
            return 0;
    return 1;
}

convoy_problem convoy_problem_make(int64_t n, int64_t c, int64_t h, int64_t w, int64_t k, int64_t r, int64_t s)
{
    convoy_problem p = {.n = n, .c = c, .h = h, .w = w, .k = k, .r = r, .s = s};
    p.stride_h = p.stride_w = p.dil_h = p.dil_w = p.groups = 1;
    return p;
}

static convoy_status check_field(const char *name, int64_t value, int64_t least)
{
    if (value < least || value > most)
        return cv_fail(CONVOY_INVALID, "%s is %lld: expected %lld to %lld", name, (long long)value, (long long)least,
                       (long long)most);
    return CONVOY_OK;
}

static convoy_status check_fields(const convoy_problem *p)
{
    const struct {
        const char *name;
        int64_t value, least;
    } field[] = {
        {"n", p->n, 0},
        {"c", p->c, 0},
        {"h", p->h, 0},
        {"w", p->w, 0},
        {"k", p->k, 0},
        {"r", p->r, 1},
        {"s", p->s, 1},
        {"pad_t", p->pad_t, 0},
        {"pad_b", p->pad_b, 0},
        {"pad_l", p->pad_l, 0},
        {"pad_r", p->pad_r, 0},
        {"stride_h", p->stride_h, 1},
        {"stride_w", p->stride_w, 1},
        {"dil_h", p->dil_h, 1},
        {"dil_w", p->dil_w, 1},
        {"groups", p->groups, 1},
    };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (check_field(field[i].name, field[i].value, field[i].least) != CONVOY_OK)
            return CONVOY_INVALID;
    return CONVOY_OK;
}

static convoy_status check_axis(const char *axis, const char *kernel, int64_t size, int64_t before, int64_t after,
                                int64_t taps, int64_t dilation, int64_t stride, int64_t *out)
{
    int64_t padded, reach;
    if (__builtin_add_overflow(size, before, &padded) || __builtin_add_overflow(padded, after, &padded) ||
        padded > most)
        return cv_fail(CONVOY_INVALID, "%s is %lld with padding %lld and %lld: expected a sum of at most %lld", axis,
                       (long long)size, (long long)before, (long long)after, (long long)most);
    if (__builtin_mul_overflow(taps - 1, dilation, &reach) || reach > most)
        return cv_fail(CONVOY_INVALID, "%s is %lld with dilation %lld: expected an effective kernel of at most %lld",
                       kernel, (long long)taps, (long long)dilation, (long long)most);
    reach += 1;
    if (reach > padded)
        return cv_fail(CONVOY_INVALID,
                       "%s: the effective kernel is %lld and the padded image %lld: expected a kernel no larger "
                       "than the image",
                       axis, (long long)reach, (long long)padded);
    *out = (padded - reach) / stride + 1;
    return CONVOY_OK;
}

/* The distance from a strided tensor's element 0 to its farthest element must be addressable. */
static convoy_status check_strides(const char *tensor, const int64_t size[4], const int64_t stride[4], int written)
{
    int64_t low = 0, high = 0;
    for (int d = 0; d < 4; d++) {
        int64_t reach;
        if (size[d] <= 1)
            continue; /* strides of such dimensions mean nothing */
        if (written && stride[d] == 0)
            return cv_fail(CONVOY_INVALID, "%s_stride[%d] is 0 over a size of %lld: expected distinct outputs", tensor,
                           d, (long long)size[d]);
        if (__builtin_mul_overflow(size[d] - 1, stride[d], &reach) || reach > most || reach < -most ||
            __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high) || high > most ||
            low < -most)
            return cv_fail(CONVOY_INVALID, "%s_stride[%d] is %lld over a size of %lld: expected offsets below 2^60",
                           tensor, d, (long long)stride[d], (long long)size[d]);
    }
    return CONVOY_OK;
}

/* Two outputs must not share an address: sorted by magnitude, each stride must step over all that the smaller ones
 * reach. Exotic interleavings that are distinct all the same are refused too; the message says what is accepted. */
static convoy_status check_distinct(const int64_t size[4], const int64_t stride[4])
{
    int64_t step[4] = {0}, count[4] = {0};
    int n = 0;
    for (int d = 0; d < 4; d++)
        if (size[d] > 1) {
            int64_t a = stride[d] < 0 ? -stride[d] : stride[d];
            int at = n++;
            for (; at > 0 && step[at - 1] > a; at--)
                step[at] = step[at - 1], count[at] = count[at - 1];
            step[at] = a, count[at] = size[d];
        }
    int64_t reach = 0;
    for (int i = 0; i < n; i++) {
        if (step[i] <= reach)
            return cv_fail(CONVOY_INVALID,
                           "y_stride %lld, %lld, %lld, %lld lets outputs overlap: expected each stride beyond the "
                           "reach of the smaller ones",
                           (long long)stride[0], (long long)stride[1], (long long)stride[2], (long long)stride[3]);
        reach += step[i] * (count[i] - 1);
    }
    return CONVOY_OK;
}

convoy_status cv_problem_sizes(const convoy_problem *p, int64_t *P, int64_t *Q)
{
    convoy_status status = check_axis("h", "r", p->h, p->pad_t, p->pad_b, p->r, p->dil_h, p->stride_h, P);
    return status != CONVOY_OK ? status
                               : check_axis("w", "s", p->w, p->pad_l, p->pad_r, p->s, p->dil_w, p->stride_w, Q);
}

/* An output's window may begin anywhere in the padding, and offsets are formed from its place there. */
static convoy_status check_padded(const convoy_problem *p)
{
    const struct {
        const char *name;
        int64_t size, before, after, stride;
    } axis[] = {{"h", p->h, p->pad_t, p->pad_b,
                 p->strided && p->h > 1 ? p->x_stride[2]
                 : p->w > 0             ? p->w
                                        : 1},
                {"w", p->w, p->pad_l, p->pad_r, p->strided && p->w > 1 ? p->x_stride[3] : 1}};
    for (int i = 0; i < 2; i++) {
        int64_t reach;
        if (__builtin_mul_overflow(axis[i].size + axis[i].before + axis[i].after, axis[i].stride, &reach) ||
            reach > most || reach < -most)
            return cv_fail(CONVOY_INVALID,
                           "%s is %lld with padding %lld and %lld, in steps of %lld elements: expected offsets below "
                           "2^60",
                           axis[i].name, (long long)axis[i].size, (long long)axis[i].before, (long long)axis[i].after,
                           (long long)axis[i].stride);
    }
    return CONVOY_OK;
}

static convoy_status check_kind(const convoy_problem *p)
{
    if (p->layout != CONVOY_NCHW)
        return cv_fail(CONVOY_UNSUPPORTED, "layout is %d: expected CONVOY_NCHW (strides describe other orders)",
                       (int)p->layout);
    if (p->dtype != CONVOY_FP32)
        return cv_fail(CONVOY_UNSUPPORTED, "dtype is %d: expected CONVOY_FP32", (int)p->dtype);
    if (p->direction == CONVOY_BACKWARD_DATA || p->direction == CONVOY_BACKWARD_WEIGHTS)
        return cv_fail(CONVOY_UNSUPPORTED, "direction is %d: expected CONVOY_FORWARD (gradients are not built yet)",
                       (int)p->direction);
    if (p->direction != CONVOY_FORWARD)
        return cv_fail(CONVOY_INVALID, "direction is %d: expected CONVOY_FORWARD", (int)p->direction);
    return CONVOY_OK;
}

convoy_status convoy_problem_check(const convoy_problem *p)
{
    int64_t P, Q;
    if (!p)
        return cv_fail(CONVOY_INVALID, "problem is NULL: expected a convoy_problem");
    convoy_status status = check_kind(p);
    if (status != CONVOY_OK || (status = check_fields(p)) != CONVOY_OK)
        return status;
    if (p->c % p->groups != 0)
        return cv_fail(CONVOY_INVALID, "groups is %lld: expected a divisor of c = %lld", (long long)p->groups,
                       (long long)p->c);
    if (p->k % p->groups != 0)
        return cv_fail(CONVOY_INVALID, "groups is %lld: expected a divisor of k = %lld", (long long)p->groups,
                       (long long)p->k);
    if ((status = cv_problem_sizes(p, &P, &Q)) != CONVOY_OK)
        return status;
    const int64_t x[4] = {p->n, p->c, p->h, p->w}, y[4] = {p->n, p->k, P, Q};
    const int64_t w[4] = {p->k, p->c / p->groups, p->r, p->s};
    const struct {
        const char *name;
        const int64_t *size;
    } tensor[] = {{"x", x}, {"w", w}, {"y", y}};
    for (int i = 0; i < 3; i++)
        if (!product_fits(tensor[i].size))
            return cv_fail(CONVOY_INVALID, "%s has %lld x %lld x %lld x %lld elements: expected at most %lld",
                           tensor[i].name, (long long)tensor[i].size[0], (long long)tensor[i].size[1],
                           (long long)tensor[i].size[2], (long long)tensor[i].size[3], (long long)most);
    if ((status = check_padded(p)) != CONVOY_OK || !p->strided)
        return status;
    if ((status = check_strides("x", x, p->x_stride, 0)) != CONVOY_OK ||
        (status = check_strides("w", w, p->w_stride, 0)) != CONVOY_OK ||
        (status = check_strides("y", y, p->y_stride, 1)) != CONVOY_OK)
        return status;
    return check_distinct(y, p->y_stride);
}

convoy_status convoy_problem_output(const convoy_problem *problem, int64_t *p, int64_t *q)
{
    int64_t P = 0, Q = 0;
    convoy_status status = convoy_problem_check(problem);
    if (status == CONVOY_OK)
        status = cv_problem_sizes(problem, &P, &Q);
    if (p)
        *p = status == CONVOY_OK ? P : 0;
    if (q)
        *q = status == CONVOY_OK ? Q : 0;
    return status;
}

double convoy_problem_flop(const convoy_problem *p)
{
    int64_t P, Q;
    if (convoy_problem_output(p, &P, &Q) != CONVOY_OK)
        return 0;
    return 2.0 * (double)p->n * (double)p->k * (double)P * (double)Q * (double)(p->c / p->groups) * (double)p->r *
           (double)p->s;
}

static void pack(const int64_t size[4], int64_t stride[4])
{
    int64_t step = 1;
    for (int d = 3; d >= 0; d--) {
        stride[d] = step;
        step *= size[d] > 0 ? size[d] : 1;
    }
}

/* Strides of size-1 dimensions are set to what packing gives, so that nothing downstream reads garbage. */
void cv_problem_fill_strides(convoy_problem *p, int64_t P, int64_t Q)
{
    const int64_t x[4] = {p->n, p->c, p->h, p->w}, y[4] = {p->n, p->k, P, Q};
    const int64_t w[4] = {p->k, p->groups ? p->c / p->groups : 0, p->r, p->s};
    int64_t *const stride[3] = {p->x_stride, p->w_stride, p->y_stride};
    const int64_t *const size[3] = {x, w, y};
    int packed = 1;
    for (int t = 0; t < 3; t++) {
        int64_t plain[4];
        pack(size[t], plain);
        for (int d = 0; d < 4; d++) {
            if (!p->strided || size[t][d] <= 1)
                stride[t][d] = plain[d];
            packed &= stride[t][d] == plain[d];
        }
    }
    if (packed)
        p->strided = 0;
}

static void settle(int64_t padded, int64_t taps, int64_t *dil, int64_t *stride)
{
    if (taps == 1)
        *dil = 1;
    const int64_t room = padded - ((taps - 1) * *dil + 1); /* beyond the first output's window */
    if (*stride > room + 1)
        *stride = room + 1;
}

void cv_problem_settle(convoy_problem *p)
{
    settle(p->h + p->pad_t + p->pad_b, p->r, &p->dil_h, &p->stride_h);
    settle(p->w + p->pad_l + p->pad_r, p->s, &p->dil_w, &p->stride_w);
}
