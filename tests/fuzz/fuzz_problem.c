/* Problem strings: whatever parses must print, and parse again to the same problem. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <convoy/convoy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "fuzz_problem: %s: %s\n", what, convoy_last_message());
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), printed[256];
    convoy_problem p, again;
    memcpy(text, data, size);
    text[size] = 0;
    if (convoy_problem_parse(text, &p) == CONVOY_OK) {
        int64_t P, Q;
        must(convoy_problem_check(&p) == CONVOY_OK, "a parsed problem is no problem");
        must(convoy_problem_output(&p, &P, &Q) == CONVOY_OK && P > 0 && Q > 0, "no output");
        must(convoy_problem_flop(&p) >= 0, "flop below 0");
        must(convoy_problem_print(&p, printed, sizeof printed) < sizeof printed, "longer than 256");
        must(convoy_problem_parse(printed, &again) == CONVOY_OK, printed);
        must(memcmp(&p, &again, sizeof p) == 0, "printing and parsing changed it");
    } else {
        must(convoy_last_message()[0] != 0, "no message");
        must(p.n == 0 && p.r == 0, "a failed parse left something behind");
    }
    free(text);
    return 0;
}
