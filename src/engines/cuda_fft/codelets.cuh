/*
 * Straight-line complex DFTs of 2^a 3^b 5^c 7^d points in one thread's registers.
 *
 *     v[k] <- sum over j of v[j] e^(-2 pi i jk / N),  natural order in and out, unscaled
 *
 * Coprime factors are split by the Good-Thomas map, which needs no twiddles; its index maps are compile-time constants
 * and cost nothing, because a register has no address. Equal primes are split by Cooley-Tukey with twiddles as
 * immediate operands. The inverse is the same code with real and imaginary parts exchanged by the caller.
 *
 * Registers: 2N for the data and about 20 more. N = 64: 1,150 instructions, N = 32: 470.
 * Everything is __host__ __device__ so that the tests run it without a GPU.
 * Sources: Good (1958), Thomas (1963); the 3-, 5- and 7-point forms pair conjugate terms as Rader and Winograd do.
 */
#ifndef CV_CUDA_FFT_CODELETS_CUH
#define CV_CUDA_FFT_CODELETS_CUH

#ifndef __CUDACC__
#define __host__
#define __device__
#define __forceinline__ inline
struct float2 {
    float x, y;
};
#endif
#define CV_HD __host__ __device__ __forceinline__

/* sine of 2 pi j / n for |2 pi j / n| <= pi/4 by its series, then the other octants by symmetry: exact to double
 * rounding. */
__host__ __device__ constexpr double cv_sin_octant(double a)
{
    double term = a, sum = a;
    for (int i = 1; i < 12; i++) {
        term *= -a * a / ((2.0 * i) * (2.0 * i + 1.0));
        sum += term;
    }
    return sum;
}
__host__ __device__ constexpr double cv_cos_octant(double a)
{
    double term = 1.0, sum = 1.0;
    for (int i = 1; i < 12; i++) {
        term *= -a * a / ((2.0 * i - 1.0) * (2.0 * i));
        sum += term;
    }
    return sum;
}
__host__ __device__ constexpr double cv_cos_turn(int j, int n)
{
    j %= n;
    if (2 * j > n)
        j = n - j; /* cos is even */
    if (4 * j > n)
        return -cv_cos_turn(n - 2 * j, 2 * n); /* cos(pi - a) = -cos a */
    if (8 * j > n)
        return cv_sin_octant(6.283185307179586476925 * (n - 4 * j) / (4.0 * n));
    return cv_cos_octant(6.283185307179586476925 * j / n);
}
__host__ __device__ constexpr double cv_sin_turn(int j, int n)
{
    return cv_cos_turn(((4 * j - n) % (4 * n) + 4 * n) % (4 * n), 4 * n); /* cos(a - pi/2) */
}

/* e^(-2 pi i j / N) for j = 0 .. N-1. A local constexpr table folds into immediates once loops are unrolled. */
template <int N> struct cv_twiddles {
    float re[N], im[N];
};
template <int N> __host__ __device__ constexpr cv_twiddles<N> cv_make_twiddles()
{
    cv_twiddles<N> t = {};
    for (int j = 0; j < N; j++) {
        t.re[j] = (float)cv_cos_turn(j, N);
        t.im[j] = (float)-cv_sin_turn(j, N);
    }
    return t;
}

CV_HD float2 cv_c(float x, float y)
{
    float2 z = {x, y};
    return z;
}
CV_HD float2 operator+(float2 a, float2 b) { return cv_c(a.x + b.x, a.y + b.y); }
CV_HD float2 operator-(float2 a, float2 b) { return cv_c(a.x - b.x, a.y - b.y); }
CV_HD float2 cv_cmul(float2 a, float c, float s) /* a (c + is) */
{
    return cv_c(__builtin_fmaf(-a.y, s, a.x * c), __builtin_fmaf(a.y, c, a.x * s));
}
CV_HD float2 cv_mul_minus_i(float2 a) { return cv_c(a.y, -a.x); }
CV_HD float2 cv_axpy(float s, float2 a, float2 b) /* sa + b */
{
    return cv_c(__builtin_fmaf(s, a.x, b.x), __builtin_fmaf(s, a.y, b.y));
}

/* Leaves
 * -------------------------------------------------------------------------------------------------------------------
 */

CV_HD void cv_dft2(float2 *v)
{
    float2 a = v[0];
    v[0] = a + v[1];
    v[1] = a - v[1];
}
CV_HD void cv_dft4(float2 *v)
{
    float2 a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = cv_mul_minus_i(v[1] - v[3]);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
}
CV_HD void cv_dft8(float2 *v)
{
    constexpr float h = 0.70710678118654752440f;
    float2 e[4] = {v[0], v[2], v[4], v[6]}, o[4] = {v[1], v[3], v[5], v[7]};
    cv_dft4(e);
    cv_dft4(o);
    float2 o1 = cv_c(o[1].x + o[1].y, o[1].y - o[1].x);  /* o1 (1 - i) */
    float2 o3 = cv_c(o[3].y - o[3].x, -o[3].x - o[3].y); /* o3 (-1 - i) */
    float2 o2 = cv_mul_minus_i(o[2]);
    v[0] = e[0] + o[0];
    v[4] = e[0] - o[0];
    v[2] = e[2] + o2;
    v[6] = e[2] - o2;
    v[1] = cv_axpy(h, o1, e[1]);
    v[5] = cv_axpy(-h, o1, e[1]);
    v[3] = cv_axpy(h, o3, e[3]);
    v[7] = cv_axpy(-h, o3, e[3]);
}

/* An odd prime P: with a_j = v[j] + v[P-j] and b_j = v[j] - v[P-j], v[k] and v[P-k] are
 * (v[0] + sum a_j cos(2 pi jk/P)) -+ i (sum b_j sin(2 pi jk/P)). */
template <int P> CV_HD void cv_dft_prime(float2 *v)
{
    constexpr cv_twiddles<P> t = cv_make_twiddles<P>();
    constexpr int H = P / 2;
    float2 a[H + 1], b[H + 1], z = v[0];
#pragma unroll
    for (int j = 1; j <= H; j++) {
        a[j] = v[j] + v[P - j];
        b[j] = v[j] - v[P - j];
        v[0] = v[0] + a[j];
    }
#pragma unroll
    for (int k = 1; k <= H; k++) {
        float2 c = cv_axpy(t.re[k], a[1], z), s = cv_c(-t.im[k] * b[1].x, -t.im[k] * b[1].y);
#pragma unroll
        for (int j = 2; j <= H; j++) {
            c = cv_axpy(t.re[(j * k) % P], a[j], c);
            s = cv_axpy(-t.im[(j * k) % P], b[j], s);
        }
        v[k] = cv_c(c.x + s.y, c.y - s.x);
        v[P - k] = cv_c(c.x - s.y, c.y + s.x);
    }
}

/* Composition
 * -------------------------------------------------------------------------------------------------------------- */

__host__ __device__ constexpr int cv_prime_part(int n, int p) /* the largest power of p that divides n */
{
    int q = 1;
    while (n % (q * p) == 0)
        q *= p;
    return q;
}
/* The first factor: the power of two if another factor is left, else the power of three, and so on; a pure power is cut
 * at its middle, near 8. */
__host__ __device__ constexpr int cv_first_factor(int n)
{
    for (int p = 2; p <= 7; p++) {
        int q = (p == 4 || p == 6) ? 1 : cv_prime_part(n, p);
        if (q > 1 && q < n)
            return q;
    }
    return n == 16 ? 4 : n % 2 == 0 ? 8 : n % 3 == 0 ? 3 : n % 5 == 0 ? 5 : 7;
}
__host__ __device__ constexpr int cv_inverse_mod(int a, int m)
{
    for (int x = 1; x < m; x++)
        if ((a % m) * x % m == 1)
            return x;
    return 0;
}

template <int N> struct cv_dft {
    static CV_HD void run(float2 *v)
    {
        constexpr int R = cv_first_factor(N), M = N / R;
        constexpr bool coprime = cv_inverse_mod(R, M) != 0;
        constexpr int ea = coprime ? M * cv_inverse_mod(M, R) : 1, eb = coprime ? R * cv_inverse_mod(R, M) : R;
        constexpr cv_twiddles<N> t = cv_make_twiddles<N>();
        float2 u[R][M];
#pragma unroll
        for (int m = 0; m < M; m++) {
            float2 a[R];
#pragma unroll
            for (int r = 0; r < R; r++)
                a[r] = v[coprime ? (M * r + R * m) % N : M * r + m];
            cv_dft<R>::run(a);
#pragma unroll
            for (int r = 0; r < R; r++)
                u[r][m] = (coprime || r * m == 0) ? a[r] : cv_cmul(a[r], t.re[r * m], t.im[r * m]);
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            cv_dft<M>::run(u[r]);
#pragma unroll
            for (int m = 0; m < M; m++)
                v[(r * ea + m * eb) % N] = u[r][m];
        }
    }
};
template <> struct cv_dft<2> {
    static CV_HD void run(float2 *v) { cv_dft2(v); }
};
template <> struct cv_dft<3> {
    static CV_HD void run(float2 *v) { cv_dft_prime<3>(v); }
};
template <> struct cv_dft<4> {
    static CV_HD void run(float2 *v) { cv_dft4(v); }
};
template <> struct cv_dft<5> {
    static CV_HD void run(float2 *v) { cv_dft_prime<5>(v); }
};
template <> struct cv_dft<7> {
    static CV_HD void run(float2 *v) { cv_dft_prime<7>(v); }
};
template <> struct cv_dft<8> {
    static CV_HD void run(float2 *v) { cv_dft8(v); }
};

/* Half-empty inputs: v[N/2] .. v[N-1] are zero (a kernel that fills at most half of its tile). Index n and n + N/2 meet
 * in the first butterflies as r and r + R/2, so one of each pair is zero and the butterfly is a copy and a sign.
 * cv_half takes the R/2 values h, up[r] telling that it is the upper of its pair that lives, and gives all R outputs.
 */
template <int R> struct cv_half {
    static CV_HD void run(const float2 *h, const bool *up, float2 *a)
    {
        constexpr int Q = cv_first_factor(R), M = R / Q;
        constexpr cv_twiddles<R> t = cv_make_twiddles<R>();
        float2 u[Q][M];
#pragma unroll
        for (int m = 0; m < M; m++) {
            float2 b[Q], g[Q / 2];
            bool gup[Q / 2];
#pragma unroll
            for (int q = 0; q < Q / 2; q++) {
                g[q] = h[M * q + m];
                gup[q] = up[M * q + m];
            }
            cv_half<Q>::run(g, gup, b);
#pragma unroll
            for (int q = 0; q < Q; q++)
                u[q][m] = q * m == 0 ? b[q] : cv_cmul(b[q], t.re[q * m], t.im[q * m]);
        }
#pragma unroll
        for (int q = 0; q < Q; q++) {
            cv_dft<M>::run(u[q]);
#pragma unroll
            for (int m = 0; m < M; m++)
                a[q + m * Q] = u[q][m];
        }
    }
};
CV_HD float2 cv_signed(float2 a, bool minus) { return minus ? cv_c(-a.x, -a.y) : a; }
template <> struct cv_half<2> {
    static CV_HD void run(const float2 *h, const bool *up, float2 *a)
    {
        a[0] = h[0];
        a[1] = cv_signed(h[0], up[0]);
    }
};
template <> struct cv_half<4> {
    static CV_HD void run(const float2 *h, const bool *up, float2 *a)
    {
        float2 b = cv_signed(h[0], up[0]), d = cv_mul_minus_i(cv_signed(h[1], up[1]));
        a[0] = h[0] + h[1];
        a[1] = b + d;
        a[2] = h[0] - h[1];
        a[3] = b - d;
    }
};
template <> struct cv_half<8> {
    static CV_HD void run(const float2 *h, const bool *up, float2 *a)
    {
        constexpr float c = 0.70710678118654752440f;
        const float2 eh[2] = {h[0], h[2]}, oh[2] = {h[1], h[3]};
        const bool eup[2] = {up[0], up[2]}, oup[2] = {up[1], up[3]};
        float2 e[4], o[4];
        cv_half<4>::run(eh, eup, e);
        cv_half<4>::run(oh, oup, o);
        float2 o1 = cv_c(o[1].x + o[1].y, o[1].y - o[1].x), o3 = cv_c(o[3].y - o[3].x, -o[3].x - o[3].y);
        float2 o2 = cv_mul_minus_i(o[2]);
        a[0] = e[0] + o[0];
        a[4] = e[0] - o[0];
        a[2] = e[2] + o2;
        a[6] = e[2] - o2;
        a[1] = cv_axpy(c, o1, e[1]);
        a[5] = cv_axpy(-c, o1, e[1]);
        a[3] = cv_axpy(c, o3, e[3]);
        a[7] = cv_axpy(-c, o3, e[3]);
    }
};

template <int N> struct cv_dft_half {
    static CV_HD void run(float2 *v)
    {
        constexpr int R = cv_prime_part(N, 2), M = N / R;
        if constexpr (M == 1) {
            bool up[N / 2] = {};
            float2 h[N / 2];
#pragma unroll
            for (int i = 0; i < N / 2; i++)
                h[i] = v[i];
            cv_half<N>::run(h, up, v);
        } else {
            constexpr int ea = M * cv_inverse_mod(M, R), eb = R * cv_inverse_mod(R, M);
            float2 u[R][M];
#pragma unroll
            for (int m = 0; m < M; m++) {
                float2 h[R / 2], a[R];
                bool up[R / 2];
#pragma unroll
                for (int r = 0; r < R / 2; r++) {
                    const int n = (M * r + R * m) % N;
                    up[r] = n >= N / 2;
                    h[r] = v[n % (N / 2)];
                }
                cv_half<R>::run(h, up, a);
#pragma unroll
                for (int r = 0; r < R; r++)
                    u[r][m] = a[r];
            }
#pragma unroll
            for (int r = 0; r < R; r++) {
                cv_dft<M>::run(u[r]);
#pragma unroll
                for (int m = 0; m < M; m++)
                    v[(r * ea + m * eb) % N] = u[r][m];
            }
        }
    }
};

#endif
