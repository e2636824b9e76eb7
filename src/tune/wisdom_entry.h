/* What wisdom's lines say: the fingerprint of a machine, the key of a request, and what was measured for it. */
#ifndef CV_WISDOM_ENTRY_H
#define CV_WISDOM_ENTRY_H

#include "core/services.h"

enum { CV_FINGERPRINT_BYTES = 2048, CV_KEY_BYTES = 1024, CV_VALUE_BYTES = 4096, CV_FINDINGS = 16 };

/* The best of one engine. */
typedef struct cv_finding {
    const cv_engine *engine;
    cv_candidate candidate;
    double median_s, spread_s;
} cv_finding;

/* Of one request, quickest first. */
typedef struct cv_findings {
    int whole; /* 1: every engine on offer had its chance, so the first is the choice; 0: only an engine that was named
                */
    int stopped; /* by the caller, before its time: not worth keeping */
    int count;
    cv_finding best[CV_FINDINGS];
} cv_findings;

/* Keeps the quicker one for an engine that is there already. */
void cv_findings_add(cv_findings *findings, const cv_finding *finding);

/* "cpu: ...; isa: avx512; threads: 2; convoy: 0.1.0". The library's version comes last. */
void cv_fingerprint(const cv_machine *machine, char text[CV_FINGERPRINT_BYTES]);

/* Problem string, tensor strides unless packed, contract and tolerance, then bias, prepared, deterministic, and the
 * workspace limit and the excluded engines when the caller gave some. */
void cv_wisdom_key(const cv_request *request, const convoy_plan_options *options, char text[CV_KEY_BYTES]);

void cv_findings_print(const cv_findings *findings, char text[CV_VALUE_BYTES]);
/* Engines that this build lacks, or that have another revision now, and whatever cannot be read, are passed over. */
void cv_findings_parse(const char *text, cv_findings *findings);

/* For merging files without knowing their engines: 1 when the entry is whole, and its quickest median in nanoseconds
 * (0: none). */
int cv_value_whole(const char *text);
long long cv_value_median_ns(const char *text);

/* Compares the library versions of two fingerprints: below, equal to or above 0. *same_machine: the rest is equal. */
int cv_fingerprint_compare(const char *a, const char *b, int *same_machine);

#endif
