/* What the steps are made of: cuFFT's plans and their calls, the first failure, and the time of phases. */
#include "gpu/cuda_status.h"
#include "steps.h"

void cv_fft_note_cuda(cv_fft_walk *v, int error, const char *doing)
{
    if (cv_fft_going(v) && error)
        v->status = cv_cuda_status(error, doing);
}

static void note_fft(cv_fft_walk *v, cufftResult result, const char *doing)
{
    if (cv_fft_going(v) && result != CUFFT_SUCCESS)
        v->status = cv_fail(result == CUFFT_ALLOC_FAILED ? CONVOY_OUT_OF_MEMORY : CONVOY_DEVICE_ERROR,
                            "%s: cuFFT error %d", doing, (int)result);
}

void cv_fft_note_blas(cv_fft_walk *v, cublasStatus_t result)
{
    if (cv_fft_going(v) && result != CUBLAS_STATUS_SUCCESS)
        v->status = cv_fail(CONVOY_DEVICE_ERROR, "multiplying spectra: cuBLAS error %d", (int)result);
}

void cv_fft_begin(cv_fft_walk *v)
{
    if (v->phases)
        cv_fft_note_cuda(v, cudaEventRecord(v->from, v->stream), "timing a phase");
}

void cv_fft_end(cv_fft_walk *v, const char *name, double bytes, double flop)
{
    float ms = 0;
    if (!v->phases)
        return;
    cv_fft_note_cuda(v, cudaEventRecord(v->to, v->stream), "timing a phase");
    cv_fft_note_cuda(v, cudaEventSynchronize(v->to), "timing a phase");
    cv_fft_note_cuda(v, cudaEventElapsedTime(&ms, v->from, v->to), "timing a phase");
    cv_phase_add(v->phases, name, ms * 1e-3, bytes, flop);
}

/* ---- cuFFT plans */

static convoy_status make_plan(cv_pipeline *l, cv_fft_kind kind, int64_t batch, cv_fft_plan *plan)
{
    long long n = kind == CV_FFT_COLUMNS ? l->s.ty : l->s.tx, bins = l->s.bins;
    const long long step = kind == CV_FFT_COLUMNS ? batch : 1;
    const long long in = kind == CV_FFT_COLUMNS ? 1 : kind == CV_FFT_ROWS ? n : bins;
    const long long out = kind == CV_FFT_COLUMNS ? 1 : kind == CV_FFT_ROWS ? bins : n;
    const cufftType type = kind == CV_FFT_COLUMNS ? CUFFT_C2C : kind == CV_FFT_ROWS ? CUFFT_R2C : CUFFT_C2R;
    long long *in_embed = kind == CV_FFT_ROWS_BACK ? &bins : &n, *out_embed = kind == CV_FFT_ROWS ? &bins : &n;
    size_t work = 0;
    cufftResult r = l->fft->create(&plan->handle);
    if (r == CUFFT_SUCCESS) {
        r = l->fft->no_work_area(plan->handle, 0);
        if (r == CUFFT_SUCCESS)
            r = l->fft->make_many(plan->handle, 1, &n, in_embed, step, in, out_embed, step, out, type, batch, &work);
        if (r != CUFFT_SUCCESS)
            l->fft->destroy(plan->handle);
    }
    if (r != CUFFT_SUCCESS)
        return cv_fail(r == CUFFT_ALLOC_FAILED ? CONVOY_OUT_OF_MEMORY : CONVOY_DEVICE_ERROR,
                       "planning %lld transforms of %lld points: cuFFT error %d", (long long)batch, n, (int)r);
    plan->kind = kind;
    plan->batch = batch;
    if (work > l->work_bytes)
        l->work_bytes = work;
    return CONVOY_OK;
}

/* NULL in a dry walk, after making sure that the plan is there. */
static const cv_fft_plan *plan_for(cv_fft_walk *v, cv_fft_kind kind, int64_t batch)
{
    cv_pipeline *l = v->l;
    if (!cv_fft_going(v))
        return NULL;
    for (int i = 0; i < l->plans; i++)
        if (l->plan[i].kind == kind && l->plan[i].batch == batch)
            return v->dry ? NULL : &l->plan[i];
    if (!v->dry || l->plans == CV_FFT_PLANS) {
        v->status = cv_fail(CONVOY_INTERNAL, "cufft has no plan for a batch of %lld", (long long)batch);
        return NULL;
    }
    v->status = make_plan(l, kind, batch, &l->plan[l->plans]);
    if (cv_fft_going(v))
        l->plans++;
    return NULL;
}

static int aim(cv_fft_walk *v, const cv_fft_plan *plan)
{
    if (!plan || !cv_fft_going(v))
        return 0;
    note_fft(v, v->l->fft->set_stream(plan->handle, v->stream), "aiming a transform at the stream");
    if (v->l->work_bytes)
        note_fft(v, v->l->fft->set_work_area(plan->handle, v->work), "giving a transform its workspace");
    return cv_fft_going(v);
}

void cv_fft_columns(cv_fft_walk *v, float *chunk, int64_t batch, int direction)
{
    const cv_fft_plan *plan = plan_for(v, CV_FFT_COLUMNS, batch);
    if (aim(v, plan))
        note_fft(v, v->l->fft->c2c(plan->handle, (cufftComplex *)chunk, (cufftComplex *)chunk, direction),
                 "transforming columns");
}

void cv_fft_rows(cv_fft_walk *v, float *spectra, int64_t batch)
{
    const cv_fft_plan *plan = plan_for(v, CV_FFT_ROWS, batch);
    if (aim(v, plan))
        note_fft(v, v->l->fft->r2c(plan->handle, v->stage, (cufftComplex *)spectra), "transforming rows");
}

void cv_fft_rows_back(cv_fft_walk *v, float *spectra, int64_t batch)
{
    const cv_fft_plan *plan = plan_for(v, CV_FFT_ROWS_BACK, batch);
    if (aim(v, plan))
        note_fft(v, v->l->fft->c2r(plan->handle, (cufftComplex *)spectra, v->stage), "transforming rows back");
}
