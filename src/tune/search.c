/* The search: which engine and candidate is the quickest, within a time limit.
 *
 * 1. Pool. The best few candidates of each engine by the cost model, each near engine's best first. A model may be
 * wrong about an engine by more than it is about that engine's candidates among each other, so a slow engine's best is
 * still looked at where a slow candidate is not.
 * 2. Looks. Each is made, run twice (a short one more often), and freed before the next. A candidate whose two runs do
 * not fit into the time left, by the model corrected by what the engine's earlier looks came to, is passed over.
 * 3. Final. Those within the machine's noise of the leader run in turns, so that a slow spell hits all of them alike,
 * until the time is up or the medians are firm; those that are clearly behind leave early. Half of the finalists at
 * most stay after each stage.
 *
 * Within an engine, medians closer than two per cent are a tie, which the smaller workspace wins. Between engines the
 * median decides. */
#include "search.h"
#include "measure.h"

#include <stdio.h>
#include <string.h>

enum { MOST_TRIES = 32, MOST_OF_ENGINE = 10, MOST_FINALISTS = 6, MOST_RUNS = 31, FIRM_RUNS = 3, MOST_LOOKS = 20 };
static const double engine_worth =
    8.0; /* an engine's best is looked at up to this factor behind the leader's prediction */
static const double candidate_worth = 2.0; /* the same among an engine's candidates */
static const double final_worth = 1.35;    /* CPU timings of one program differ by a third from run to run */
static const double short_s = 1e-3;        /* a first run may be many times the others of a short problem */
static const double looks_share = 0.6;     /* of the time limit */
static const double tie = 1.02;

struct trial {
    const cv_choice *choice;
    double look_s; /* the quicker of the looks; 0: not looked at */
    int runs;
    double seconds[MOST_RUNS];
    convoy_timing timing;
    convoy_plan *plan; /* of finalists */
    convoy_weights *weights;
};

struct search {
    convoy_context *context;
    const cv_request *request;
    const convoy_plan_options *options;
    cv_bench *bench;
    double from_s, limit_s;
    int count, stopped; /* stopped: by the caller's progress function */
    convoy_status last; /* why the last candidate that failed did */
    struct trial trial[MOST_TRIES];
};

static double spent(const struct search *s) { return cv_now_s() - s->from_s; }

/* Tells the caller; 1 when he wants it to end. */
static int report(struct search *s, double done, double left_s, const cv_choice *choice)
{
    const convoy_plan_options *o = s->options;
    if (!o->progress)
        return 0;
    char what[CV_CANDIDATE_TEXT + 64], candidate[CV_CANDIDATE_TEXT];
    cv_candidate_print(choice->engine, &choice->candidate, candidate);
    snprintf(what, sizeof what, "%s%s%s", choice->engine->name, *candidate ? ":" : "", candidate);
    const double time_left = s->limit_s - spent(s);
    left_s = left_s < time_left ? left_s : time_left;
    s->stopped = o->progress(o->progress_user, done < 1 ? done : 1, left_s > 0 ? left_s : 0, what) != 0;
    return s->stopped;
}

/* The best of each engine near the leader comes first: when the time is short, and a plan of some engines takes a tenth
 * of a second to make, the others have still been looked at. */
static void pool(struct search *s, const cv_choice *ranked, int count)
{
    const double leader_s = ranked[0].predicted_s;
    for (int early = 1; early >= 0; early--)
        for (int i = 0; i < count && s->count < MOST_TRIES; i++) {
            const cv_choice *first = &ranked[i];
            int before = 0;
            for (int j = i - 1; j >= 0; j--)
                if (ranked[j].engine == ranked[i].engine) {
                    first = &ranked[j];
                    before++;
                }
            const double seconds = ranked[i].predicted_s;
            if (early == (before == 0 && seconds <= candidate_worth * leader_s) && before < MOST_OF_ENGINE &&
                seconds <= engine_worth * leader_s && seconds <= candidate_worth * first->predicted_s)
                s->trial[s->count++].choice = &ranked[i];
        }
}

static convoy_status make(struct search *s, struct trial *t)
{
    convoy_status status = cv_plan_make(s->context, s->request, t->choice, &t->plan);
    return status == CONVOY_OK ? cv_bench_prepare(s->bench, t->plan, &t->weights) : status;
}

static void unmake(struct trial *t)
{
    convoy_weights_destroy(t->weights);
    convoy_plan_destroy(t->plan);
    t->weights = NULL;
    t->plan = NULL;
}

/* How far the model has been off for an engine so far, as a factor on its predictions. */
static double correction(const struct search *s, const cv_engine *engine)
{
    double worst = 1.0;
    int seen = 0;
    for (int i = 0; i < s->count; i++)
        if (s->trial[i].look_s > 0 && s->trial[i].choice->engine == engine) {
            const double ratio = s->trial[i].look_s / s->trial[i].choice->predicted_s;
            worst = !seen++ || ratio < worst ? ratio : worst;
        }
    return worst;
}

static convoy_status look(struct search *s, struct trial *t, double best_s)
{
    convoy_status status = make(s, t);
    /* The first run of a GPU plan may load its kernels, so only a second one says anything. */
    const double hopeless = s->request->machine->device == CONVOY_CPU && best_s > 0 ? 3 * best_s : 1e30;
    double all_s = 0;
    for (int run = 0; (run < 2 || (run < MOST_LOOKS && all_s < short_s)) && status == CONVOY_OK; run++) {
        double seconds = 0;
        status = cv_bench_run(s->bench, t->plan, t->weights, &seconds);
        if (status == CONVOY_OK && (!run || seconds < t->look_s))
            t->look_s = seconds;
        all_s += seconds;
        if (t->look_s > hopeless && all_s >= short_s)
            break;
    }
    if (status != CONVOY_OK)
        t->look_s = 0;
    unmake(t);
    return status;
}

/* The quickest look. */
static double look_at_all(struct search *s)
{
    double best_s = 0;
    for (int i = 0; i < s->count && !s->stopped; i++) {
        struct trial *t = &s->trial[i];
        const double now = spent(s), cost = 2 * t->choice->predicted_s * correction(s, t->choice->engine);
        if (best_s > 0 && now + cost > looks_share * s->limit_s)
            continue;
        const double final_s = 5 * MOST_FINALISTS * best_s;
        if (report(s, 0.7 * i / s->count, i ? now / i * (s->count - i) + final_s : s->limit_s, t->choice))
            break;
        convoy_status status = look(s, t, best_s);
        if (status != CONVOY_OK)
            s->last = status; /* what does not fit into memory now is passed over */
        else if (best_s == 0 || t->look_s < best_s)
            best_s = t->look_s;
    }
    return best_s;
}

/* Points finalist to the trials near the leader, quickest first, and makes them again. */
static int choose_finalists(struct search *s, double best_s, struct trial **finalist)
{
    int count = 0;
    for (int i = 0; i < s->count; i++) {
        struct trial *t = &s->trial[i];
        if (t->look_s <= 0 || t->look_s > final_worth * best_s)
            continue;
        int at = count < MOST_FINALISTS ? count++ : MOST_FINALISTS;
        for (; at > 0 && finalist[at - 1]->look_s > t->look_s; at--)
            if (at < MOST_FINALISTS)
                finalist[at] = finalist[at - 1];
        if (at < MOST_FINALISTS)
            finalist[at] = t;
    }
    int made = 0;
    for (int i = 0; i < count; i++)
        if (make(s, finalist[i]) == CONVOY_OK)
            finalist[made++] = finalist[i];
        else
            unmake(finalist[i]);
    return made;
}

static void time_so_far(struct trial *t)
{
    double copy[MOST_RUNS];
    memcpy(copy, t->seconds, sizeof copy);
    cv_timing_of(copy, t->runs, &t->timing);
}

/* Frees finalists whose nearly best run is behind the leader's median, and the slower half after each stage; order is
 * by median. */
static int thin_out(struct trial **finalist, int count, int stage)
{
    for (int i = 0; i < count; i++) {
        struct trial *t = finalist[i];
        int at = i;
        time_so_far(t);
        for (; at > 0 && finalist[at - 1]->timing.median_s > t->timing.median_s; at--)
            finalist[at] = finalist[at - 1];
        finalist[at] = t;
    }
    int kept = 0;
    const int most = stage ? (count + 1) / 2 : count;
    for (int i = 0; i < count; i++)
        if (i == 0 || (i < most && finalist[i]->timing.p10_s <= finalist[0]->timing.median_s))
            finalist[kept++] = finalist[i];
        else
            unmake(finalist[i]);
    return kept;
}

static void run_final(struct search *s, struct trial **finalist, int count)
{
    const int gpu = s->request->machine->device == CONVOY_CUDA, stage_rounds = gpu ? 8 : 4,
              enough = gpu ? MOST_RUNS : 15;
    for (int round = 0; round < enough && count && !s->stopped; round++) {
        double turn_s = 0;
        for (int i = 0; i < count; i++)
            turn_s += finalist[i]->look_s;
        if (spent(s) + turn_s > s->limit_s ||
            report(s, 0.7 + 0.3 * round / enough, turn_s * (enough - round), finalist[0]->choice))
            break;
        for (int i = 0; i < count; i++) {
            struct trial *t = finalist[i];
            convoy_status status = cv_bench_run(s->bench, t->plan, t->weights, &t->seconds[t->runs]);
            if (status == CONVOY_OK) {
                t->runs++;
                continue;
            }
            s->last = status;
            t->look_s = 0;
            t->runs = 0;
            unmake(t);
            memmove(finalist + i, finalist + i + 1, (size_t)(count-- - i - 1) * sizeof *finalist);
            i--;
        }
        if (round % stage_rounds == stage_rounds - 1)
            count = thin_out(finalist, count, round >= 2 * stage_rounds - 1);
        if (count == 1 && round >= 6 && !gpu)
            break;
    }
    for (int i = 0; i < count; i++)
        unmake(finalist[i]);
}

/* Gives every trial its time. A look is the better of two runs, which a median is not: looks of those that did not come
 * to the final are made comparable by what the final's winner took there and at its look. */
static void settle(struct search *s)
{
    const struct trial *winner = NULL;
    for (int i = 0; i < s->count; i++) {
        struct trial *t = &s->trial[i];
        if (t->runs < FIRM_RUNS)
            continue;
        time_so_far(t);
        if (!winner || t->timing.median_s < winner->timing.median_s)
            winner = t;
    }
    const double scale = winner ? winner->timing.median_s / winner->look_s : 1.0;
    for (int i = 0; i < s->count; i++)
        if (s->trial[i].runs < FIRM_RUNS)
            s->trial[i].timing = (convoy_timing){.median_s = scale * s->trial[i].look_s};
}

/* An engine's best trial; NULL when none was looked at. One that came to the final beats one that did not. */
static const struct trial *best_of(const struct search *s, const cv_engine *engine)
{
    int firm = 0;
    double least = 1e300;
    const struct trial *best = NULL;
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < s->count; i++) {
            const struct trial *t = &s->trial[i];
            if (t->choice->engine != engine || t->look_s <= 0)
                continue;
            if (pass == 0)
                firm |= t->runs >= FIRM_RUNS;
            else if (firm && t->runs < FIRM_RUNS)
                continue;
            else if (pass == 1)
                least = t->timing.median_s < least ? t->timing.median_s : least;
            else if (t->timing.median_s <= tie * least &&
                     (!best || t->choice->workspace_bytes < best->choice->workspace_bytes))
                best = t;
        }
    return best;
}

static void conclude(struct search *s, cv_findings *findings)
{
    settle(s);
    for (int i = 0; i < s->count; i++) {
        const struct trial *best = best_of(s, s->trial[i].choice->engine);
        if (!best)
            continue;
        const convoy_timing *t = &best->timing;
        const cv_finding finding = {best->choice->engine, best->choice->candidate, t->median_s, t->p90_s - t->p10_s};
        cv_findings_add(findings, &finding); /* once more for an engine changes nothing */
    }
}

convoy_status cv_search(convoy_context *context, const cv_request *q, const convoy_plan_options *o,
                        const cv_choice *ranked, int count, cv_findings *findings)
{
    memset(findings, 0, sizeof *findings);
    struct search *s = cv_alloc(&q->machine->memory, sizeof *s);
    if (!s)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a search");
    memset(s, 0, sizeof *s);
    s->context = context;
    s->request = q;
    s->options = o;
    s->limit_s = o->time_limit_s > 0 ? o->time_limit_s : 10.0;
    s->from_s = cv_now_s();
    pool(s, ranked, count);
    convoy_status status = cv_bench_open(q, &s->bench);
    if (status == CONVOY_OK) {
        struct trial *finalist[MOST_FINALISTS];
        const double best_s = look_at_all(s);
        if (best_s > 0 && !s->stopped)
            run_final(s, finalist, choose_finalists(s, best_s, finalist));
        conclude(s, findings);
        findings->whole = !o->engine;
        findings->stopped = s->stopped;
        status = findings->count || s->stopped ? CONVOY_OK : s->last;
    }
    cv_bench_close(s->bench);
    cv_free(&q->machine->memory, s);
    return status;
}
